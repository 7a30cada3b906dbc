// eval_data.h - checks whether weights are evaluated on the data that their run was evaluated on.
#ifndef LS_CLI_EVAL_DATA_H
#define LS_CLI_EVAL_DATA_H

#include "run/run_info.h"

// Warns if the test data (or the validation data, by eval.split) differ from the data of the weights' run. The data of
// the run are recorded in summary.json or manifest.json in the folder of the weights; without such a record there is no
// warning.
void ls_eval_compare_data(const char *weights, const ls_train_info *info);

#endif
