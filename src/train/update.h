// update.h - one update: accumulate the window's micro-batches, reduce, check, step. Plans and memory are made once; an
// update allocates nothing and never waits for the device but where the host needs a result.
//
// Fast mode: gradients accumulate in the fp32 arena; buckets are summed over ranks as the last micro-batch completes
// them. Ordered mode: every micro-batch's gradient is rounded to 64-bit fixed point and added there; integers add
// exactly in any order, so the sum is the same bits for any number of ranks.
#ifndef LS_TRAIN_UPDATE_H
#define LS_TRAIN_UPDATE_H

#include "config/config.h"
#include "data/sampler.h"
#include "dist/comm.h"
#include "dist/reducer.h"
#include "train/optimizer.h"
#include "train/program.h"

enum { LS_GRADIENT_FRACTION_BITS = 40, LS_STATISTIC_FRACTION_BITS = 36 };

typedef struct ls_update ls_update;

// Borrows arenas, comm and queue. per_rank: the most micro-batches of one update on this rank. The loss is scaled for
// fp16 storage.
LS_CHECKED ls_status ls_update_new(
    const ls_config *cfg, ls_arenas *arenas, ls_comm *comm, ls_queue *queue, int per_rank, ls_update **out);
void ls_update_free(ls_update *update); // NULL is allowed
const ls_optimizer *ls_update_optimizer(const ls_update *update);
// Buffers that programs read: state, result, micro input.
void ls_update_inputs(const ls_update *update, ls_program_inputs *inputs);

typedef struct {
    double samples;       // true ones, over all ranks
    double micro_batches; // over all ranks
    int mine;             // micro-batches that this rank computes (0 in a short last window)
    float lr;
    int64_t number; // of the update, from 0
} ls_window;

// An update is begin, then for each of this rank's micro-batches micro, then end.
void ls_update_begin(ls_update *update, const ls_window *window);
void ls_update_micro(
    ls_update *update, const ls_program *program, const ls_program_inputs *inputs, const ls_micro_input *micro);
// The micro-batch record alone, for a program that runs outside of an update (evaluation).
void ls_update_set_micro(ls_update *update, const ls_micro_input *micro);
// *state: after the update (skip, grad_norm, loss_scale).
LS_CHECKED ls_status ls_update_end(ls_update *update, ls_train_state *state);

// Sums over the micro-batches since they were last taken; zeroes them.
LS_CHECKED ls_status ls_update_take_result(ls_update *update, ls_micro_result *result);
double ls_update_comm_seconds_exposed(const ls_update *update);
// After a skipped update: the first trained parameter, in graph order, whose gradient is not finite on this rank, or
// -1.
int ls_update_first_bad(ls_update *update);
// Weights came from elsewhere (initialisation, a file): refreshes the 16-bit copy.
void ls_update_weights_changed(ls_update *update);

#endif
