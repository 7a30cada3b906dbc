// inflated.h - the inflated content of a gzip file, kept in a file of the cache folder (data.cache). The next start,
// and each of its ranks, reads this file into memory and inflates nothing. Of the processes that start at once on a
// host one inflates, and the others wait for it.
//
// A page of header, then the inflated bytes. The header has a hash of the gzip file's bytes, so what is left of an
// earlier content is not taken; and a hash that the caller makes of what it reads, and compares each time. Each gzip
// file has one such file, which takes its predecessor's place whole. It is not flushed to the disk: what a crash leaves
// of it, the hash finds.
#ifndef LS_DATA_INFLATED_H
#define LS_DATA_INFLATED_H

#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
#include "base/status.h"

enum { LS_INFLATED_PATH_BYTES = 2048 };
typedef struct {
    char path[LS_INFLATED_PATH_BYTES]; // "": it cannot have one
    uint64_t stamp;                    // hash of the gzip file's bytes
    uint8_t *bytes;                    // in memory of ls_memory_new, freed by close; NULL: there is no file
    size_t count;
    uint64_t hash;   // as it was kept
    int makes, lock; // this process is the one that inflates: it has the lock of the file in the making
} ls_inflated;

// The file for `source`, which is open. Where there is none, or it is another content's, bytes are NULL: that is no failure.
void ls_inflated_open(const char *folder, const ls_input *source, ls_inflated *out);
// Where bytes are NULL: waits for another process that makes the file, whose bytes are then there. Else this one
// makes it, until it has kept or closed it, or has ended in any way. After wait_s, after a request to stop
// (signals.h), or where there can be none, nothing has changed: then the caller inflates for itself.
void ls_inflated_claim(ls_inflated *place, double wait_s);
void ls_inflated_close(ls_inflated *inflated); // its bytes, and the claim; closing twice is allowed
// From now on there is one, with other bytes; the claim ends. LS_STORAGE: there cannot be. Where another process makes it,
// nothing is written.
LS_CHECKED ls_status ls_inflated_keep(ls_inflated *place, const uint8_t *bytes, size_t count, uint64_t hash);

#endif
