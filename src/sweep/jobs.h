// jobs.h - the runs of a sweep as processes, so many at a time, each with its share of the machine: cores of the processors
// that this process may use, or a GPU.
//
// A request to stop (SIGTERM, SIGUSR1, SIGINT) goes to all of them: they save and end; a second SIGINT ends all at once. A run
// that fails does not stop the others, unless none has come through and three (or as many as run at a time) have failed.
#ifndef LS_SWEEP_JOBS_H
#define LS_SWEEP_JOBS_H

#include "sweep/results.h"

enum { LS_SWEEP_JOBS_MAX = 256 };

// Runs all that are not complete by `results`, and renews those. LS_STOPPED: on request, the same again goes on; else the code of
// the first run that failed, with its message. LS_USAGE: more jobs than GPUs; LS_DATA: as ls_sweep_check_data.
LS_CHECKED ls_status ls_sweep_jobs(const ls_sweep_plan *plan, ls_sweep_result *results, int jobs, int quiet);

#endif
