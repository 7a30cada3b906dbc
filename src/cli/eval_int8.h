// eval_int8.h - `train eval --int8`: evaluates the network that `train export --int8` writes, in its integers.
#ifndef LS_CLI_EVAL_INT8_H
#define LS_CLI_EVAL_INT8_H

#include "command/args.h"
#include "config/config.h"
#include "run/evaluation.h"

// Evaluates args->weights on the test split of cfg, or by eval.split on its validation pictures. One rank calls it; it
// uses this rank's threads. args->config must be set. LS_USAGE: eval.tta is on, or no pictures are held out for
// validation; also as ls_calibrate. LS_DATA: the classes of data and weights differ, or a picture cannot be read. The
// caller frees *out.
LS_CHECKED ls_status ls_eval_int8(const ls_args *args, ls_config *cfg, ls_evaluation **out);

#endif
