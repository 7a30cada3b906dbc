// verify.h - the pictures of a set that is decoded on demand, each decoded once before it is needed, by several threads
// and ranks. Those that are packed (dataset.h) are good.
#ifndef LS_DATA_VERIFY_H
#define LS_DATA_VERIFY_H

#include "data/dataset.h"

typedef struct {
    int share, shares; // samples share, share + shares, ... are looked at
    int workers;       // threads
    // Called some ten times a second by the calling thread.
    void (*alive)(void *context, int64_t done, int64_t all);
    void *context;
} ls_verify_options;

// broken[i] = 1 where sample i was looked at and cannot be read; the others stay. *looked: at so many. A picture that
// takes long is named in a warning. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_verify_read(
    const ls_dataset *dataset, const ls_verify_options *options, uint8_t *broken, int64_t *looked);

#endif
