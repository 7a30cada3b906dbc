// inflated.h - keeps the inflated content of a gzip file in a file of the cache folder (data.cache). The next start,
// and each of its ranks, reads the kept file into memory and inflates nothing. If several processes start at once on a
// host, one inflates and the others can wait for it (ls_inflated_claim).
//
// A kept file has a page of header, then the inflated bytes. The header has a hash of the gzip file's bytes, so that a
// kept file of an earlier content is not used. It also has a hash of the inflated bytes, which the caller makes and
// compares each time. Each gzip file has one kept file, which is always replaced as a whole. It is not flushed to the
// disk: if a crash damages it, the hash shows that.
#ifndef LS_DATA_INFLATED_H
#define LS_DATA_INFLATED_H

#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
#include "base/status.h"

enum { LS_INFLATED_PATH_BYTES = 2048 };
typedef struct {
    char path[LS_INFLATED_PATH_BYTES]; // path of the kept file; "": no file can be kept
    uint64_t stamp;                    // hash of the gzip file's bytes
    uint8_t *bytes;                    // the inflated bytes, from ls_memory_new; NULL: no kept file was found
    size_t count;
    uint64_t hash;   // stored with the kept file: the caller's hash of the bytes
    int makes, lock; // makes: this process makes the kept file and holds its lock, the open file `lock`
} ls_inflated;

// Looks for the kept file of `source`, an open gzip file. out->bytes: the inflated bytes of the content that `source`
// has now; NULL: they are not kept.
void ls_inflated_open(const char *folder, const ls_input *source, ls_inflated *out);
// Call it if ls_inflated_open found no bytes. If another process makes the kept file, waits for it and reads its bytes.
// Otherwise this process becomes its maker, until it keeps or closes the file or ends in any way. Leaves *place alone
// after wait_s, after a request to stop (signals.h), or if no file can be kept: then the caller inflates by itself.
void ls_inflated_claim(ls_inflated *place, double wait_s);
void ls_inflated_close(ls_inflated *inflated); // frees the bytes and ends the claim; closing twice is allowed
// Writes the kept file and ends the claim. Writes nothing if another process is its maker. LS_STORAGE: cannot write.
LS_CHECKED ls_status ls_inflated_keep(ls_inflated *place, const uint8_t *bytes, size_t count, uint64_t hash);

#endif
