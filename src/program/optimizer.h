// optimizer.h - parameter groups, and the optimizer's steps over the parameter store.
//
// A step is a plan, its arguments and what workspace it needs; steps run in order. An element-wise optimizer has one step,
// over all trained elements at once, with constants by segment. One that needs to know matrices adds a step for each tensor
// instead (plan_steps in optimizer.c), and groups of parameters may then go to different optimizers.
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
    ls_optimizer_step *steps;
    int step_count;
    size_t workspace_bytes;    // the most that a step needs
    ls_step_segment *segments; // neighbours of the store's order whose constants agree
    int *ends;                 // by segment: the first parameter of the store's order behind it
    int segment_count;
    int kind; // LS_OPTIMIZER_*
    double lr;
} ls_optimizer;

int ls_optimizer_kept(int kind); // tensors that it keeps of every trained one: ls_param_store_options
const char *ls_optimizer_kept_name(int kind, int index); // "momentum": config/optimizers.def
// state: one ls_train_state. Decay is on weights of convolutions and linear layers only, unless the configuration says
// otherwise. LS_USAGE for a group whose pattern matches no parameter.
LS_CHECKED ls_status ls_optimizer_new(
    const ls_config *cfg, const ls_param_store *store, ls_buffer state, ls_optimizer **out);
void ls_optimizer_free(ls_optimizer *optimizer); // NULL is allowed
// workspace: workspace_bytes at least
void ls_optimizer_run(const ls_optimizer *optimizer, ls_buffer workspace, ls_queue *queue);
// Groups as printed at start: constants, and how many tensors and elements each holds.
void ls_optimizer_print(const ls_optimizer *optimizer, FILE *file);

#endif
