// sampler.h - which sample stands where: the order of an epoch, and how a window is cut. Pure functions of (seed,
// epoch), the batch sizes and the rank: no state that could differ between ranks or be lost in a checkpoint.
#ifndef LS_DATA_SAMPLER_H
#define LS_DATA_SAMPLER_H

#include <stdint.h>
#include "base/status.h"
#include "config/purpose.h"
#include "config/config.h"

// How an epoch of `samples` is cut. Window u covers positions [u*global_batch, ...); micro-batch j of a window covers
// its positions [j*micro_batch, (j+1)*micro_batch); rank r computes micro-batches [r*per_rank, (r+1)*per_rank). The
// last window may be short: then its last micro-batches are short or empty.
enum { LS_MICRO_BATCH_DERIVED_MAX = 512 };
typedef struct {
    int64_t samples; // of an epoch, after drop_last
    int64_t windows; // updates an epoch
    int global_batch, micro_batch;
    int micro_batches; // of a full window, over all ranks
    int per_rank;      // accumulation steps
    int rank, world_size;
} ls_batches;

// Derives micro_batch where it is 0 or auto: global_batch / world_size, or the largest divisor of that with at most
// 512 samples. With run.deterministic it must not depend on world_size: global_batch/4 where that divides, else
// global_batch (at most 512 as well).
// LS_USAGE for what does not divide, naming the keys, the ranks and values that would do.
LS_CHECKED ls_status ls_batches_plan(
    const ls_config *cfg, int64_t train_samples, int rank, int world_size, ls_batches *out);
// The next smaller micro-batch with more accumulation: the largest divisor of a rank's share
// below micro_batch. 0 where there is none.
int ls_batches_shrink(ls_batches *b);
// True number of samples of window `window`, and of micro-batch j in it (0 for an empty one).
int ls_batches_window_samples(const ls_batches *b, int64_t window);
int ls_batches_micro_samples(const ls_batches *b, int64_t window, int micro);

// The order of an epoch: order[position] = sample index, a Fisher-Yates shuffle of 0..count-1:
//   for i = count-1 down to 1: swap order[i], order[ls_below(word(i), i + 1)],
//   word(i) = ls_random_word(seed, LS_PURPOSE_SHUFFLE, epoch, 0, i)
void ls_order_shuffle(uint32_t *order, int64_t count, uint64_t seed, int64_t epoch);

#endif
