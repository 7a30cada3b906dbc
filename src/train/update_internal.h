// update_internal.h - the parts of an update, shared by update_plan.c, which makes them, and update.c, which uses them.
#ifndef LS_TRAIN_UPDATE_INTERNAL_H
#define LS_TRAIN_UPDATE_INTERNAL_H

#include <stddef.h>
#include "program/graph_capture.h"
#include "program/work_clock.h"
#include "train/update.h"

_Static_assert(sizeof(ls_train_state) <= LS_RECORD_BYTES && sizeof(ls_micro_result) <= LS_RECORD_BYTES &&
                   sizeof(ls_update_input) <= LS_RECORD_BYTES && LS_STAMPS * sizeof(int64_t) <= LS_RECORD_BYTES,
    "a record is one line");

typedef struct {
    ls_range range;
    // The bucket is complete when the gradients of the first end_param parameters in the store's order are. -1: a
    // bucket of statistics, which is complete at the end of the backward pass.
    int end_param;
    int sum;              // number of its sum in the reducer; -1: the next bucket's sum includes this bucket
    ls_plan *fix, *unfix; // to and from fixed point; only in ordered mode
    ls_plan *cast;        // gradients to bf16; only for trained tensors, and only if ranks exchange bf16
    ls_plan *widen;       // adds the 16-bit part of the gradient; only for trained tensors, with 16-bit storage
} ls_planned_bucket;

struct ls_update {
    ls_device *device;
    ls_param_store *store;
    ls_comm *comm;
    ls_queue *queue;
    // meets_in_pass: ranks exchange statistics during a pass (synchronised batch norm)
    int ordered, loss_is_sum, meets_in_pass;
    ls_optimizer *optimizer;
    ls_collective *collective;
    ls_reducer *reducer; // NULL with one rank
    ls_graph_capture *capture;
    ls_planned_bucket *buckets; // buckets of trained tensors, then at most one of statistics
    int bucket_count, trained_buckets, sum_count;
    ls_plan *begin, *step_control, *cast_to_f32;
    ls_plan *average, *cast_weights; // NULL without an average; NULL without a working copy of the weights
    ls_slab *device_control, *host_control, *workspace;
    ls_buffer state, result, stamps, window; // on the device; state, result and stamps lie side by side: a report
    ls_buffer host_state, host_result;       // pinned; the host reads and writes them between updates
    ls_buffer windows, reports;              // pinned: rings of `depth` windows and reports
    ls_event *reported[LS_UPDATE_DEPTH_MAX];
    int depth;
    int64_t enqueued, completed; // numbers of updates
    size_t workspace_bytes;
    ls_work_clock clock;
    ls_status status; // the first error in the hooks of a program
    // The fields below belong to the update in progress.
    int micros_left, micros_done, launched, whole, held, average_due;
};

// Returns the memory that sums gradients over the micro-batches of an update.
static inline ls_slab *ls_update_sums(const ls_update *u) {
    return u->ordered ? u->store->fixed : u->store->grad;
}

// Returns the flag ls_train_state.bad_gradient on the device.
static inline ls_buffer ls_update_bad_gradient(const ls_update *u) {
    return ls_buffer_at(u->state.slab, u->state.offset + offsetof(ls_train_state, bad_gradient), sizeof(int32_t));
}

#endif
