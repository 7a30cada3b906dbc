// optimizer.h - the optimizers' steps over the parameter store, by its rules (param_rules.h).
//
// A step is a plan, its arguments and what workspace it needs; steps run in order. There is one for each kind of optimizer
// in use, over all trained elements, with constants by segment; it passes over the segments of the others. One of them also moves
// batch norm's running statistics.
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
    size_t workspace_bytes;                        // the most that a step needs
    ls_step_segment *segments[LS_OPTIMIZER_COUNT]; // by kind: neighbours of the store's order whose constants agree
    int segment_count[LS_OPTIMIZER_COUNT];
    double lr;
} ls_optimizer;

int ls_optimizer_by_tensor(int kind);                    // weights only, each by itself: a matrix, or a norm
int ls_optimizer_kept(int kind);                         // tensors that it keeps of every trained one
const char *ls_optimizer_kept_name(int kind, int index); // "momentum": config/optimizers.def
// The store has rules. state: one ls_train_state.
LS_CHECKED ls_status ls_optimizer_new(
    const ls_config *cfg, const ls_param_store *store, ls_buffer state, ls_optimizer **out);
void ls_optimizer_free(ls_optimizer *optimizer); // NULL is allowed
// workspace: workspace_bytes at least
void ls_optimizer_run(const ls_optimizer *optimizer, ls_buffer workspace, ls_queue *queue);
// Groups as printed at start: what each has of its own, and how many tensors and elements.
void ls_optimizer_print(const ls_optimizer *optimizer, FILE *file);

#endif
