// gzip.h - inflates a gzip file in memory into a buffer of known size. It may have several members (pigz, bgzip, cat).
//
// libdeflate takes half of zlib's time. If it fails, zlib repeats the work to explain the fault. Source: RFC 1952.
#ifndef LS_DATA_GZIP_H
#define LS_DATA_GZIP_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

// Inflates only the first dst_bytes bytes of a gzip file. LS_DATA: src is not gzip, is damaged, or ends before them.
LS_CHECKED ls_status ls_gzip_peek(
    const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes);
// Inflates the whole file. LS_DATA: the file is not gzip, is damaged, does not give exactly dst_bytes bytes, disagrees
// with the checksums or lengths in its trailers, or goes on after its last member. The message names the fault.
LS_CHECKED ls_status ls_gzip_inflate(
    const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes);

#endif
