// sampler.h - the order of samples in an epoch, and how an epoch is cut into windows and micro-batches. Pure functions
// of (seed, epoch), the batch sizes and the rank: no state can differ between ranks or be lost in a checkpoint.
#ifndef LS_DATA_SAMPLER_H
#define LS_DATA_SAMPLER_H

#include <stdint.h>
#include "base/status.h"
#include "config/purpose.h"
#include "config/config.h"

// How an epoch is cut. Window u covers positions [u*global_batch, (u+1)*global_batch). Micro-batch j of a window covers
// the window's positions [j*micro_batch, (j+1)*micro_batch). Rank r computes micro-batches [r*per_rank,
// (r+1)*per_rank). The last window may be short; its last micro-batches are then short or empty.
enum { LS_MICRO_BATCH_DERIVED_MAX = 512 };
typedef struct {
    int64_t samples; // samples of an epoch, after drop_last
    int64_t windows; // updates per epoch
    int global_batch, micro_batch;
    int micro_batches; // micro-batches of a full window, over all ranks
    int per_rank;      // micro-batches of a rank per window: accumulation steps
    int rank, world_size;
} ls_batches;

// Fills in the batch sizes. Derives the micro-batch if train.micro_batch is 0 or auto: global_batch / world_size, or
// its largest divisor up to 512. With run.deterministic the micro-batch must not depend on world_size: then it is
// global_batch/4 if that is a whole number, else global_batch, or the largest divisor of this number up to 512.
// LS_USAGE if the sizes do not divide (the message names the options, the ranks and values that would do), or if
// data.drop_last leaves no window. LS_DATA: train_samples is 0.
LS_CHECKED ls_status ls_batches_plan(
    const ls_config *cfg, int64_t train_samples, int rank, int world_size, ls_batches *out);
// Takes the next smaller micro-batch: the largest divisor of a rank's share below it. Returns 0 if it is already 1.
int ls_batches_shrink(ls_batches *b);
// Return the true number of samples in a window, and in one of its micro-batches (0: the micro-batch is empty).
int ls_batches_window_samples(const ls_batches *b, int64_t window);
int ls_batches_micro_samples(const ls_batches *b, int64_t window, int micro);

// The order of an epoch: order[position] = sample index, a Fisher-Yates shuffle of 0..count-1:
//   for i = count-1 down to 1: swap order[i], order[ls_below(word(i), i + 1)],
//   word(i) = ls_random_word(seed, LS_PURPOSE_SHUFFLE, epoch, 0, i)
void ls_order_shuffle(uint32_t *order, int64_t count, uint64_t seed, int64_t epoch);
// Exchanges the entries of a list as ls_order_shuffle exchanges the numbers 0..count-1.
void ls_order_mix(uint32_t *order, int64_t count, uint64_t seed, int64_t epoch);

#endif
