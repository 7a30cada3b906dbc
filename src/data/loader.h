// loader.h - the prefetch ring: worker threads fill slots with uint8 batches ahead of the consumer, in its order.
//
// The caller owns the ring's memory (pinned, if the device has pinned memory). The consumer acquires slots in order and
// releases each one when the device has read it. If a worker fails, the acquire of its batch returns the error.
#ifndef LS_DATA_LOADER_H
#define LS_DATA_LOADER_H

#include "data/balance.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "config/augmentation.h"

typedef struct {
    uint8_t *pixels;            // micro_batch * C*H*W bytes; NULL: the consumer has the pixels and needs index
    int32_t *labels;            // micro_batch labels
    ls_augment_sample *augment; // micro_batch draws of ls_augment_draw
    int32_t *index;             // micro_batch sample numbers in the data set; NULL if pixels is set
} ls_slot;

typedef struct {
    int slot;  // index into the caller's slots
    int count; // samples in the batch; the rest of the slot is zero
    int64_t epoch, window;
    int micro;         // number of the micro-batch in its window, over all ranks
    uint64_t position; // position of the batch's first sample in the window
} ls_batch;

typedef struct {
    const ls_dataset *dataset;
    const int32_t *labels; // labels of all samples, if slots have no pixels; borrowed
    ls_batches batches;
    uint64_t seed;
    int shuffle;                       // 0: samples in file order (for evaluation)
    ls_augmentation augmentation;      // all zero for evaluation
    int64_t first_epoch, first_window; // place of the first batch
    int64_t epochs;                    // number of epochs; an acquire after the last one fails with LS_INTERNAL
    int workers;
    int traced;     // 1: loading is shown in the trace (base/spans.h)
    ls_slot *slots; // borrowed until ls_loader_free
    int slot_count;
    // Without shuffle: numbers of the batches.samples samples to load; borrowed. NULL: the first ones, in file order.
    const uint32_t *order;
    const ls_balance *balance; // with shuffle: the draws of an epoch; borrowed. NULL: each sample once
} ls_loader_options;

typedef struct ls_loader ls_loader;

// Draws the augmentation of a sample in an epoch. augment_draw.c says which random number decides which field. sample:
// the number of the draw (balance.h), which is the sample's index the first time that the sample comes in the epoch.
ls_augment_sample ls_augment_draw(
    const ls_augmentation *a, ls_chw picture, uint64_t seed, int64_t epoch, int64_t sample);

LS_CHECKED ls_status ls_loader_new(const ls_loader_options *options, ls_loader **out);
void ls_loader_free(ls_loader *loader); // stops the workers, also in mid-epoch
// Returns the next micro-batch of this rank that is not empty. Waits until it is filled; ls_loader_wait_seconds returns
// the sum of these waits.
LS_CHECKED ls_status ls_loader_acquire(ls_loader *loader, ls_batch *batch);
void ls_loader_release(ls_loader *loader, const ls_batch *batch);
double ls_loader_wait_seconds(const ls_loader *loader);

#endif
