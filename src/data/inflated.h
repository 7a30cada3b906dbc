// inflated.h - what a gzip file inflates to, kept in a file of the cache folder (data.cache): the next start, and each rank
// of it, maps that and inflates nothing.
//
// A page of header, then the inflated bytes. The header has a stamp of the gzip file (its place, size and times of change),
// so what is left of an earlier content or of another file is not taken; and a hash that the caller makes of what it reads,
// and compares each time. Each gzip file has one such file, which takes its predecessor's place whole. It is not flushed to
// the disk: what a crash leaves of it, the hash finds.
#ifndef LS_DATA_INFLATED_H
#define LS_DATA_INFLATED_H

#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
#include "base/status.h"

enum { LS_INFLATED_PATH_BYTES = 2048 };
typedef struct {
    char path[LS_INFLATED_PATH_BYTES]; // "": it cannot have one
    uint64_t stamp;                    // of the gzip file, as it was before it is read
    const uint8_t *bytes;              // mapped, read-only; NULL: not there
    size_t count;
    uint64_t hash; // as it was kept
    void *map;
} ls_inflated;

// The file for `source`, which is open. Where there is none, or it is another content's, bytes are NULL: that is no failure.
void ls_inflated_open(const char *folder, const ls_input *source, ls_inflated *out);
void ls_inflated_close(ls_inflated *inflated); // its bytes; closing twice is allowed
// From now on there is one, with other bytes. LS_STORAGE: there cannot be. Of several processes that keep one at a time, one
// writes it, and the others succeed.
LS_CHECKED ls_status ls_inflated_keep(const ls_inflated *place, const uint8_t *bytes, size_t count, uint64_t hash);

#endif
