// layer_times.h - measures how long each instruction of a training micro-batch takes when run by itself on real inputs,
// and how long the optimizer's pass at the end of an update takes. trainer.h describes the results and who owns them.
#ifndef LS_TRAIN_LAYER_TIMES_H
#define LS_TRAIN_LAYER_TIMES_H

#include "train/run_session.h"
#include "train/trainer.h"

// Measures each instruction of a micro-batch and the optimizer's pass into *rows. at: position of the next update.
// Overwrites gradients and the optimizer's momentum, but not the weights.
LS_CHECKED ls_status ls_run_layer_times(
    ls_run_session *session, const ls_position *at, double seconds, ls_layer_time **rows, int *count);

#endif
