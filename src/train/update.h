// update.h - one update: accumulate the gradients of micro-batches, sum them over ranks, check, step.
//
// Plans and memory are made once; an update allocates nothing. With one rank, or with sums on the device's queues, the
// host does not wait for the device inside an update. The values that the host needs come back in a report. The host
// reads it when the update is completed, up to `depth` updates later.
//
// In these two cases micro-batches, and the work that ends the update, are captured as graphs (graph_capture.h). With
// several ranks only updates of whole windows are captured, so that all ranks capture the same updates. With sums
// through host memory, the last micro-batch is not captured, because the host takes part in it.
//
// Fast mode: gradients accumulate in the parameter store in fp32. Buckets are summed over ranks as soon as the last
// micro-batch completes them. Ordered mode: the gradient of every micro-batch is rounded to 64-bit fixed point and
// added in that type. Sums of integers are exact in any order, so they have the same bits for any number of ranks.
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

// Makes an update. Borrows store, comm, collective and queue. collective NULL: sums go through comm. depth: most
// updates enqueued and not completed, up to LS_UPDATE_DEPTH_MAX. With fp16 storage the loss is scaled. Collective.
LS_CHECKED ls_status ls_update_new(const ls_config *cfg, ls_param_store *store, ls_comm *comm,
    ls_collective *collective, ls_queue *queue, int depth, ls_update **out);
void ls_update_trace(ls_update *update, ls_timeline *timeline); // shows the update's work on the timeline; borrowed
void ls_update_free(ls_update *update);                         // NULL is allowed
const ls_optimizer *ls_update_optimizer(const ls_update *update);
void ls_update_run_optimizer(const ls_update *update);  // runs the optimizer's steps alone, between updates
size_t ls_update_device_bytes(const ls_update *update); // bytes of records and workspace on the device
// Sets the update's buffers (state, result) in the inputs of programs.
void ls_update_inputs(const ls_update *update, ls_program_inputs *inputs);

typedef struct {
    double samples;       // number of samples over all ranks, or the sum of their weights (class_weights.h)
    double micro_batches; // number of micro-batches over all ranks
    // Number of this rank's micro-batches. With synchronised batch norm: the largest such number of any rank.
    int steps;
    int whole; // 1: the window has all its samples; every rank then has the same work in every such window
    // 1: the sums over ranks begin in ls_update_end. Before it, the gradients of this rank can be read and replaced, or
    // the update can be begun again (cross_check.h).
    int held;
    float lr[LS_RATES_MAX]; // one for each rate of ls_param_rules.rate
    int64_t number;         // number of the update, from 0
    int average_starts;     // before the update, the average becomes a copy of the weights
    int average_due;        // after the update, the average takes in the weights, with average_decay
    double average_decay;
    uint32_t rates_over; // see ls_update_input.rates_over
    int renormalise;     // see ls_update_input.renormalise
} ls_sliding_window;

// Begins an update of this window. The further calls of an update are: micro for each micro-batch of this rank, join
// for each step in which it has no micro-batch, end.
void ls_update_begin(ls_update *update, const ls_sliding_window *window);
LS_CHECKED ls_status ls_update_micro(ls_update *update, const ls_program *program, const ls_program_inputs *inputs);
// Takes one step in which this rank has no micro-batch. The rank only takes part in the sums of batch norm's statistics
// inside the program. program: any training program of this rank.
LS_CHECKED ls_status ls_update_join(ls_update *update, const ls_program *program);
LS_CHECKED ls_status ls_update_end(ls_update *update);
// Waits for the oldest update that is not completed. state: the training state after that update (skip, grad_norm,
// loss_scale). result: sums over this rank's micro-batches of that update.
LS_CHECKED ls_status ls_update_complete(ls_update *update, ls_train_state *state, ls_micro_result *result);

// Begins an evaluation, between updates, when all updates are completed. Then call evaluate for each micro-batch, and
// last take_result, which returns the sums over the micro-batches.
void ls_update_evaluate_begin(ls_update *update);
// Evaluates a micro-batch. view: a number that identifies all inputs except the micro-batch; equal inputs must always
// have the same number.
LS_CHECKED ls_status ls_update_evaluate(
    ls_update *update, const ls_program *program, const ls_program_inputs *inputs, int view);
LS_CHECKED ls_status ls_update_take_result(ls_update *update, ls_micro_result *result);
// Replaces LS_F64 values on the device by their sums over all ranks. Call between updates. Collective.
LS_CHECKED ls_status ls_update_sum_now(ls_update *update, ls_buffer sums, int64_t count);
ls_reducer_counts ls_update_comm_counts(const ls_update *update);
// Returns double[LS_OP_KIND_COUNT]: the seconds that updates have computed, by kind of operator. NULL if that is not
// known, because the device runs enqueued work later.
const double *ls_update_kind_seconds(const ls_update *update);
// Exchanges weights and statistics with their average. Call between updates, because it overwrites the gradients.
void ls_update_swap_average(ls_update *update);
// Read and write the optimizer's counters and the loss scale. Call when all updates are completed. Both functions wait
// for the device.
LS_CHECKED ls_status ls_update_read_state(ls_update *update, ls_train_state *state);
LS_CHECKED ls_status ls_update_write_state(ls_update *update, const ls_train_state *state);

#endif
