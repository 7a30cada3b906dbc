// optimizer.h - parameter groups, and the optimizer's one pass over the flat arenas.
#ifndef LS_TRAIN_OPTIMIZER_H
#define LS_TRAIN_OPTIMIZER_H

#include <stdio.h>
#include "config/config.h"
#include "train/arenas.h"

typedef struct {
    const ls_arenas *arenas;
    ls_plan *plan;
    ls_buffer args[LS_OP_ARGS_MAX];
    ls_step_segment *segments; // neighbours of the arena's order whose constants agree
    int *ends;                 // by segment: the first parameter of the arena's order behind it
    int segment_count;
    int kind; // LS_OPTIMIZER_*
    double rate;
} ls_optimizer;

int ls_optimizer_state_arenas(const ls_config *cfg); // per trained element: as ls_arenas_new takes it
// state: one ls_train_state. Decay is on weights of convolutions and linear layers only, unless the configuration says
// otherwise. LS_USAGE for a group whose pattern matches no parameter.
LS_CHECKED ls_status ls_optimizer_new(
    const ls_config *cfg, const ls_arenas *arenas, ls_buffer state, ls_optimizer **out);
void ls_optimizer_free(ls_optimizer *optimizer); // NULL is allowed
void ls_optimizer_run(const ls_optimizer *optimizer, ls_queue *queue);
// Groups as printed at start: constants, and how many tensors and elements each holds.
void ls_optimizer_print(const ls_optimizer *optimizer, FILE *file);

#endif
