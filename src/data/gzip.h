// gzip.h - one gzip member in memory, inflated into a buffer of known size.
//
// libdeflate does the work, in half of zlib's time; zlib explains what is wrong. Source: RFC 1952.
#ifndef LS_DATA_GZIP_H
#define LS_DATA_GZIP_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

// The first dst_bytes of what src inflates to. LS_DATA: not gzip, damaged or ending before that.
LS_CHECKED ls_status ls_gzip_peek(
    const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes);
// All of it: exactly dst_bytes, checksum and length as its trailer says, nothing after the trailer. LS_DATA says which
// of these failed, at which byte.
LS_CHECKED ls_status ls_gzip_inflate(
    const char *path, const uint8_t *src, size_t src_bytes, uint8_t *dst, size_t dst_bytes);

#endif
