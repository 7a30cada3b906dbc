// update_internal.h - an update's parts, shared by update_plan.c (making them) and update.c (using them).
#ifndef LS_TRAIN_UPDATE_INTERNAL_H
#define LS_TRAIN_UPDATE_INTERNAL_H

#include "program/graph_capture.h"
#include "program/work_clock.h"
#include "train/update.h"

_Static_assert(sizeof(ls_train_state) <= LS_RECORD_BYTES && sizeof(ls_micro_result) <= LS_RECORD_BYTES &&
                   sizeof(ls_update_input) <= LS_RECORD_BYTES && LS_STAMPS * sizeof(int64_t) <= LS_RECORD_BYTES,
    "a record is one line");

typedef struct {
    ls_range range;
    int end_param;        // complete when the first end_param parameters of the store's order are
    int sum;              // the reducer's number of it; -1: the next bucket's sum carries it
    ls_plan *fix, *unfix; // ordered mode
    ls_plan *cast;        // trained ones, where gradients travel in bf16
    ls_plan *widen;       // trained ones, where part of the gradient is in 16 bits
} ls_planned_bucket;

struct ls_update {
    ls_device *device;
    ls_param_store *store;
    ls_comm *comm;
    ls_queue *queue;
    int ordered, loss_is_sum, meets_in_pass; // meets_in_pass: ranks exchange statistics in the midst of a pass
    ls_optimizer *optimizer;
    ls_collective *collective;
    ls_reducer *reducer; // NULL with one rank
    ls_graph_capture *capture;
    ls_planned_bucket *buckets; // trained ones, then at most one of statistics
    int bucket_count, trained_buckets, sum_count;
    ls_plan *begin, *step_control, *cast_to_f32;
    ls_plan *average, *cast_weights; // NULL: there is none; not needed
    ls_slab *device_control, *host_control, *workspace;
    ls_buffer state, result, stamps, window; // on the device; the first three in a row: a report
    ls_buffer host_state, host_result;       // pinned; what the host writes, and reads outside of updates
    ls_buffer windows, reports;              // pinned: rings of `depth` records
    ls_event *reported[LS_UPDATE_DEPTH_MAX];
    int depth;
    int64_t enqueued, completed; // updates
    size_t workspace_bytes;
    ls_work_clock clock;
    ls_status status; // of what failed in the midst of a program
    // of the update in progress
    int micros_left, micros_done, launched, whole, average_due;
};

static inline ls_slab *ls_update_sums(const ls_update *u) { // over the micro-batches of an update
    return u->ordered ? u->store->fixed : u->store->grad;
}

#endif
