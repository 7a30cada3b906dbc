// update.h - one update: accumulate the window's micro-batches, reduce, check, step. Plans and memory are made once;
// an update allocates nothing, and with one rank the host never waits for the device in it:
// what it needs comes back in a report, which is looked at when the update is completed, up to `depth` updates later.
// With one rank a micro-batch and what ends the update are captured (graph_capture.h); with several ranks, too, where
// their gradients are summed on the device's queues. All ranks then capture the same updates: those of whole windows.
//
// Fast mode: gradients accumulate in the parameter store in fp32; buckets are summed over ranks as the last
// micro-batch completes them. Ordered mode: every micro-batch's gradient is rounded to 64-bit fixed point and added
// there; integers add exactly in any order, so the sum is the same bits for any number of ranks.
#ifndef LS_TRAIN_UPDATE_H
#define LS_TRAIN_UPDATE_H

#include "config/config.h"
#include "data/sampler.h"
#include "dist/comm.h"
#include "dist/reduce/reducer.h"
#include "program/optimizer.h"
#include "program/program.h"

enum { LS_UPDATE_DEPTH_MAX = 16 };
enum { LS_GRADIENT_FRACTION_BITS = 40, LS_STATISTIC_FRACTION_BITS = 36 };

typedef struct ls_update ls_update;

// Borrows store, comm, collective (NULL: sums go through comm) and queue. depth: updates that may be enqueued and not
// yet completed, at most LS_UPDATE_DEPTH_MAX. The loss is scaled for fp16 storage.
LS_CHECKED ls_status ls_update_new(const ls_config *cfg, ls_param_store *store, ls_comm *comm,
    ls_collective *collective, ls_queue *queue, int depth, ls_update **out);
void ls_update_trace(ls_update *update, ls_timeline *timeline); // shows its work there; borrowed
void ls_update_free(ls_update *update);                         // NULL is allowed
const ls_optimizer *ls_update_optimizer(const ls_update *update);
void ls_update_run_optimizer(const ls_update *update);  // its steps alone, outside of any update
size_t ls_update_device_bytes(const ls_update *update); // records and workspace on the device
// Buffers that programs read: state, result.
void ls_update_inputs(const ls_update *update, ls_program_inputs *inputs);

typedef struct {
    double samples;       // over all ranks: true ones, or their weights (class_weights.h)
    double micro_batches; // over all ranks
    int steps; // this rank's micro-batches (none in a short last window); with sync batch norm the most of any rank
    int whole; // no rank has fewer micro-batches or samples than in any other whole window
    float lr[LS_RATES_MAX]; // by ls_param_rules.rate
    int64_t number;         // of the update, from 0
    int average_starts;     // before it the average becomes a copy
    int average_due;        // after it the average takes the weights in, with this decay
    double average_decay;
    uint32_t rates_over; // ls_update_input.rates_over
    int renormalise;     // ls_update_input.renormalise
} ls_sliding_window;

// An update is begin, then for each of this rank's micro-batches micro, for each step that is left join, then end.
void ls_update_begin(ls_update *update, const ls_sliding_window *window);
LS_CHECKED ls_status ls_update_micro(ls_update *update, const ls_program *program, const ls_program_inputs *inputs);
// A step in which this rank has no micro-batch: it takes part in the sums of batch norm's statistics in the midst of
// the program, which is any of this rank's training programs.
LS_CHECKED ls_status ls_update_join(ls_update *update, const ls_program *program);
LS_CHECKED ls_status ls_update_end(ls_update *update);
// Waits for the oldest update that is not yet completed. state: after it (skip, grad_norm, loss_scale); result: sums
// over this rank's micro-batches of it.
LS_CHECKED ls_status ls_update_complete(ls_update *update, ls_train_state *state, ls_micro_result *result);

// An evaluation, outside of any update (all are completed), is evaluate_begin, evaluate for each micro-batch,
// take_result: the sums over its micro-batches.
void ls_update_evaluate_begin(ls_update *update);
// view: a number for these inputs but for the micro-batch: the same inputs always have the same.
LS_CHECKED ls_status ls_update_evaluate(
    ls_update *update, const ls_program *program, const ls_program_inputs *inputs, int view);
LS_CHECKED ls_status ls_update_take_result(ls_update *update, ls_micro_result *result);
// Outside of any update: makes these LS_F64 on the device those over all ranks, as synchronised batch norm does in the
// midst of a program. All ranks call it alike.
LS_CHECKED ls_status ls_update_sum_now(ls_update *update, ls_buffer sums, int64_t count);
ls_reducer_counts ls_update_comm_counts(const ls_update *update);
// double[LS_OP_KIND_COUNT]: seconds that updates have computed, by kind of operator; NULL: the device runs what is
// enqueued later, and captured work at one go.
const double *ls_update_kind_seconds(const ls_update *update);
// Outside of any update: weights and statistics change places with their average, for which the gradients' memory is
// used.
void ls_update_swap_average(ls_update *update);
// The optimizer's counters and the loss scale, outside of any update (all are completed). Writing also waits.
LS_CHECKED ls_status ls_update_read_state(ls_update *update, ls_train_state *state);
LS_CHECKED ls_status ls_update_write_state(ls_update *update, const ls_train_state *state);

#endif
