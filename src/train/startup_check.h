// startup_check.h - what all ranks compare before the first update, each fact before anything depends on it.
//
// All are collective. LS_COMM on all ranks, with a table, if ranks differ where they must not; a difference that is
// allowed becomes plan->info.warning.
#ifndef LS_TRAIN_STARTUP_CHECK_H
#define LS_TRAIN_STARTUP_CHECK_H

#include "train/run_session.h"

LS_CHECKED ls_status ls_startup_check_programs(ls_run_plan *plan);                               // and options
LS_CHECKED ls_status ls_startup_check_devices(ls_run_plan *plan, const ls_run_session *session); // the device is open
// Data and initial weights; also sets plan->info.arithmetic.
LS_CHECKED ls_status ls_startup_check_state(ls_run_plan *plan, const ls_run_session *session);
LS_CHECKED ls_status ls_startup_check_data(ls_run_plan *plan); // again, after the training pictures are verified

#endif
