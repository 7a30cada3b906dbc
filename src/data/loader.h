// loader.h - the prefetch ring: worker threads fill slots with uint8 batches ahead of the consumer, in its order.
//
// The ring's memory is the caller's (pinned, where the device has such a thing).
// The consumer acquires slots in order and releases them when the device has read them.
// A worker's error is returned by the acquire that would have given the broken batch.
#ifndef LS_DATA_LOADER_H
#define LS_DATA_LOADER_H

#include "data/dataset.h"
#include "data/sampler.h"
#include "config/augmentation.h"

typedef struct {
    uint8_t *pixels;            // micro_batch * C*H*W; NULL: the consumer has the pixels and needs index
    int32_t *labels;            // micro_batch
    ls_augment_sample *augment; // micro_batch
    int32_t *index;             // micro_batch: numbers of the samples in the data set; NULL with pixels
} ls_slot;

typedef struct {
    int slot;  // index into the caller's slots
    int count; // true samples; the rest of the slot is zero
    int64_t epoch, window;
    int micro;         // number of the micro-batch in its window
    uint64_t position; // of its first sample in the window
} ls_batch;

typedef struct {
    const ls_dataset *dataset;
    const int32_t *labels; // of all samples, where slots have no pixels; borrowed
    ls_batches batches;
    uint64_t seed;
    int shuffle;                       // 0: samples in file order (evaluation)
    ls_augmentation augmentation;      // all 0 for evaluation
    int64_t first_epoch, first_window; // where to begin
    int64_t epochs;                    // acquire fails with LS_INTERNAL beyond the last
    int workers;
    int traced;     // shown in the trace (base/spans.h), where there is one
    ls_slot *slots; // borrowed until free
    int slot_count;
    const uint32_t
        *order; // without shuffle: numbers of batches.samples samples; borrowed until free; NULL: all in file order
} ls_loader_options;

typedef struct ls_loader ls_loader;

// What is done to a sample in an epoch; augment_draw.c has which random number decides what.
ls_augment_sample ls_augment_draw(
    const ls_augmentation *a, ls_chw picture, uint64_t seed, int64_t epoch, int64_t sample);

LS_CHECKED ls_status ls_loader_new(const ls_loader_options *options, ls_loader **out);
void ls_loader_free(ls_loader *loader); // stops the workers, also in mid-epoch
// Next micro-batch of this rank, in order (empty ones are skipped). Waits until it is filled;
// the time waited is added up.
LS_CHECKED ls_status ls_loader_acquire(ls_loader *loader, ls_batch *batch);
void ls_loader_release(ls_loader *loader, const ls_batch *batch);
double ls_loader_wait_seconds(const ls_loader *loader);

#endif
