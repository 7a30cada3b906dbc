// optimizer.h - the steps of the optimizers over the parameter store, by its rules (param_rules.h).
//
// There is one step for each kind of optimizer in use; steps run one after another. A step covers all trained elements
// in segments with common constants. It skips segments of parameters that another optimizer trains. One of the steps
// also moves batch norm's running statistics; if only Muon is in use, an extra step of SGD moves them.
#ifndef LS_PROGRAM_OPTIMIZER_H
#define LS_PROGRAM_OPTIMIZER_H

#include <stdio.h>
#include "config/config.h"
#include "program/param_store.h"

typedef struct {
    ls_plan *plan;
    ls_buffer args[LS_OP_ARGS_MAX];
} ls_optimizer_step;

typedef struct {
    const ls_param_store *store;
    ls_optimizer_step steps[LS_OPTIMIZER_COUNT];
    int step_count;
    size_t workspace_bytes; // workspace of the step that needs the most
    // By kind of optimizer. Neighbouring tensors of the store with equal constants share a segment, unless
    // ls_optimizer_by_tensor(kind).
    ls_step_segment *segments[LS_OPTIMIZER_COUNT];
    int segment_count[LS_OPTIMIZER_COUNT];
    double lr;
} ls_optimizer;

// Whether this optimizer steps each tensor as a whole: Muon as a matrix, LARS by its norm. Such an optimizer trains
// only weights of convolutions and linear layers.
int ls_optimizer_by_tensor(int kind);
// Returns the number of tensors that the optimizer keeps for each trained tensor.
int ls_optimizer_kept(int kind);
// Returns the name of a kept tensor (config/optimizers.def), such as "momentum".
const char *ls_optimizer_kept_name(int kind, int index);
// Plans the optimizer steps over the store, which must have rules and its memory. state: buffer of one ls_train_state.
LS_CHECKED ls_status ls_optimizer_new(
    const ls_config *cfg, const ls_param_store *store, ls_buffer state, ls_optimizer **out);
void ls_optimizer_free(ls_optimizer *optimizer); // NULL is allowed
// Enqueues all steps. workspace: at least workspace_bytes.
void ls_optimizer_run(const ls_optimizer *optimizer, ls_buffer workspace, ls_queue *queue);
// Prints the parameter groups: constants of each group, its number of tensors and of elements. Then the frozen tensors.
void ls_optimizer_print(const ls_optimizer *optimizer, FILE *file);

#endif
