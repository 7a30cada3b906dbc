// startup_check.h - compares facts of all ranks before the first update, each fact before anything depends on it.
//
// All functions are collective. They fail with LS_COMM and a table on all ranks if the ranks differ in a fact that must
// be equal. An allowed difference is described in plan->info.warning.
#ifndef LS_TRAIN_STARTUP_CHECK_H
#define LS_TRAIN_STARTUP_CHECK_H

#include "train/run_session.h"

// Compares the program's version and the options of all ranks.
LS_CHECKED ls_status ls_startup_check_programs(ls_run_plan *plan);
// Compares the devices of all ranks and their libraries. Call after the device is opened.
LS_CHECKED ls_status ls_startup_check_devices(ls_run_plan *plan, const ls_run_session *session);
// Compares the data and the initial weights of all ranks. Also sets plan->info.arithmetic.
LS_CHECKED ls_status ls_startup_check_state(ls_run_plan *plan, const ls_run_session *session);
// Compares the data of all ranks again, after the training pictures are verified.
LS_CHECKED ls_status ls_startup_check_data(ls_run_plan *plan);

#endif
