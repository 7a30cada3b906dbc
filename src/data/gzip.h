// gzip.h - inflates a gzip file in memory into a buffer of known size. It may have several members (pigz, bgzip, cat).
//
// libdeflate takes half of zlib's time. If it fails, zlib repeats the work to explain the fault. Source: RFC 1952.
#ifndef LS_DATA_GZIP_H
#define LS_DATA_GZIP_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

// Inflates the first dst_bytes bytes. LS_DATA: src is not gzip, is damaged, or ends before that.
LS_CHECKED ls_status ls_gzip_peek(
    const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes);
// Inflates the whole file. It must give exactly dst_bytes, agree with the checksums and lengths in its trailers, and
// end after its last member. LS_DATA names the fault and its byte.
LS_CHECKED ls_status ls_gzip_inflate(
    const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes);

#endif
