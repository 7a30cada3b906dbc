// verify.h - reads and decodes each file of a set of pictures once before training, with several threads and ranks, to
// find broken files and the content of all files. Packed files that kept their stamps (dataset.h) are not read.
#ifndef LS_DATA_VERIFY_H
#define LS_DATA_VERIFY_H

#include "data/dataset.h"

typedef struct {
    // The ranks of a group see the same files and share the samples: this rank handles sample i if (i / groups) %
    // shares == share. If groups do not pack pictures, they also share the decoding: sample i is decoded in group i %
    // groups, and only read in other groups. With groups == 1 all samples are decoded.
    int share, shares, group, groups;
    int workers; // number of threads
    // Called by the calling thread, about ten times a second (more often for the first 100 files); may be NULL.
    void (*alive)(void *context, int64_t done, int64_t all);
    void *context;
} ls_verify_options;

// Sets broken[i] = 1 for each sample of this rank that cannot be read or decoded; other entries do not change. *looked:
// the number of samples that this rank reads. A warning names a picture that takes more than 5 s. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_verify_read(
    const ls_dataset *dataset, const ls_verify_options *options, uint8_t *broken, int64_t *looked);

// Call it after ls_verify_read. For each sample i of this share, writes contents[i] = ls_dataset_content, unless
// contents is NULL. Returns a sum that depends on all these contents (for ls_dataset_set_content).
uint64_t ls_verify_contents(const ls_dataset *dataset, const ls_verify_options *options, int64_t *contents);

#endif
