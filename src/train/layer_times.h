// layer_times.h - how long each instruction of a training micro-batch takes, one by one on real inputs, and the
// optimizer's pass at the end of an update. Results and their ownership: trainer.h.
#ifndef LS_TRAIN_LAYER_TIMES_H
#define LS_TRAIN_LAYER_TIMES_H

#include "train/run_session.h"
#include "train/trainer.h"

// at: the next update. Spoils gradients and the optimizer's memory of them, but not the weights.
LS_CHECKED ls_status ls_run_layer_times(
    ls_run_session *session, const ls_position *at, double seconds, ls_layer_time **rows, int *count);

#endif
