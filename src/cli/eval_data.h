// eval_data.h - whether weights are evaluated on the data that their run was tested on.
#ifndef LS_CLI_EVAL_DATA_H
#define LS_CLI_EVAL_DATA_H

#include "run/run_info.h"

// Warns where the run's summary, or the checkpoint's manifest, is beside the weights and records other test data (or
// validation data, as eval.split says) than these. Weights that are alone say nothing of their data: no warning.
void ls_eval_compare_data(const char *weights, const ls_train_info *info);

#endif
