// find_lr.h - a learning rate by a range test (Smith 2017, "Cyclical learning rates"): a short training run whose rate
// rises by equal factors from update to update. The rate at which the smoothed loss falls fastest is suggested.
#ifndef LS_TOOLS_FIND_LR_H
#define LS_TOOLS_FIND_LR_H

#include <stdio.h>
#include "config/config.h"
#include "dist/comm.h"

typedef struct {
    double from, to;              // rate of the first update, and of the last one
    int planned, count;           // updates of the test, and updates done before the loss grew without bound
    double *rate, *loss, *smooth; // by update: its rate; the mean loss of its samples; a mean of the losses near it
    int suggested, least;         // update whose rate is suggested (-1: no rate); update whose smoothed loss is least
} ls_find_lr;

// Runs the test. In a copy of cfg it replaces the learning rate, schedule, length and resolution. The caller sets
// out->from, out->to and out->planned. Collective. Fails as ls_dataset_open, ls_trainer_new, ls_trainer_init_from_file
// and ls_trainer_updates, except that a loss that is not finite ends the test. LS_NUMERIC: the loss of the first update
// is not finite. Call ls_find_lr_free in any case.
LS_CHECKED ls_status ls_find_lr_run(const ls_config *cfg, ls_comm *comm, ls_find_lr *out);
// Smooths the losses, and finds the least value and the fastest fall before it.
void ls_find_lr_suggest(ls_find_lr *test);
void ls_find_lr_print(const ls_find_lr *test, FILE *file); // the loss by rate as bars, and the suggestion
// Prints one JSON object: suggested (null: none), least, and the lists rate, loss and smooth.
LS_CHECKED ls_status ls_find_lr_print_json(const ls_find_lr *test, FILE *file);
void ls_find_lr_free(ls_find_lr *test);

#endif
