// update_internal.h - an update's parts, shared by update_plan.c (making them) and update.c (using them).
#ifndef LS_TRAIN_UPDATE_INTERNAL_H
#define LS_TRAIN_UPDATE_INTERNAL_H

#include "program/graph_capture.h"
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
    ls_timeline *timeline;
    ls_status status; // of what failed in the midst of a program
    // What was computed, in seconds by kind, on a device whose operators run at once. Where reading the clock around each
    // instruction would be noticed, one micro-batch stands for several.
    double kind_s[LS_OP_KIND_COUNT];
    double *timed;            // kind_s there, else NULL
    double timed_s, readings; // of micro-batches that were timed: their seconds, and how often the clock was read
    double clock_s;           // that reading it takes
    double part_start_s;      // of what begin_part has begun
    int untimed;              // micro-batches that the last timed one stands for, still to come
    // of the update in progress
    int micros_left, micros_done, launched, whole, average_due;
};

static inline ls_slab *ls_update_sums(const ls_update *u) { // over the micro-batches of an update
    return u->ordered ? u->store->fixed : u->store->grad;
}

#endif
