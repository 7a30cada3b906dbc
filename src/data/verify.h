// verify.h - the files of a set of pictures, each read and decoded once before it is needed, by several threads and
// ranks: what cannot be decoded is known then, and what each file contains. Those that are packed and have their stamps
// since (dataset.h) are not read.
#ifndef LS_DATA_VERIFY_H
#define LS_DATA_VERIFY_H

#include "data/dataset.h"

typedef struct {
    // The ranks of a group, which see the same files, look at all samples together: at sample i the one with
    // (i / groups) % shares = share. Where the groups do not pack, they share the decoding: sample i is decoded in
    // group i % groups, and elsewhere only read. 1 group: all is decoded.
    int share, shares, group, groups;
    int workers; // threads
    // Called some ten times a second by the calling thread.
    void (*alive)(void *context, int64_t done, int64_t all);
    void *context;
} ls_verify_options;

// broken[i] = 1 where sample i was looked at and cannot be read or decoded; the others stay. *looked: at so many. A
// picture that takes long is named in a warning. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_verify_read(
    const ls_dataset *dataset, const ls_verify_options *options, uint8_t *broken, int64_t *looked);

// Of the samples of this share, after ls_verify_read: contents[i] = ls_dataset_content, where contents is not NULL.
// Returns a sum that depends on all of them (for ls_dataset_set_content).
uint64_t ls_verify_contents(const ls_dataset *dataset, const ls_verify_options *options, int64_t *contents);

#endif
