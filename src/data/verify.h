// verify.h - the pictures of a set that is decoded on demand, each decoded once before it is needed, by several threads
// and ranks. Which ones were good is remembered in a file, by their names, sizes and times of change, so that a second
// start decodes only what is new, has changed or was broken.
#ifndef LS_DATA_VERIFY_H
#define LS_DATA_VERIFY_H

#include "data/dataset.h"

// The file below `folder` for this set and split, into path. LS_STORAGE: longer than bytes.
LS_CHECKED ls_status ls_verify_path(const char *folder, const ls_dataset *dataset, char *path, size_t bytes);
// known[i] = 1 where the file remembers sample i, else 0. What is missing or damaged remembers nothing.
void ls_verify_recall(const char *path, const ls_dataset *dataset, uint8_t *known);
// The file remembers all samples but those with broken[i] != 0, and nothing else. LS_STORAGE.
LS_CHECKED ls_status ls_verify_remember(const char *path, const ls_dataset *dataset, const uint8_t *broken);

typedef struct {
    int share, shares;    // samples share, share + shares, ... are looked at
    int workers;          // threads
    const uint8_t *known; // by sample: need not be looked at
    // Called some ten times a second by the calling thread.
    void (*alive)(void *context, int64_t done, int64_t all);
    void *context;
} ls_verify_options;

// broken[i] = 1 where sample i was looked at and cannot be read; the others stay. *looked: at so many. A picture that
// takes long is named in a warning. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_verify_read(
    const ls_dataset *dataset, const ls_verify_options *options, uint8_t *broken, int64_t *looked);

#endif
