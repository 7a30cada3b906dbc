// jobs.h - starts the runs of a sweep as processes, `jobs` of them at a time. Each process gets its share of the
// machine: a GPU, or some of the cores that this process may use.
//
// A request to stop (SIGTERM, SIGUSR1, SIGINT) is passed on to all processes: they write a checkpoint and end. A second
// SIGINT ends all at once. After a failed run the sweep continues; but while no run has succeeded, it starts no more
// runs once three have failed (or `jobs`, if that is more).
#ifndef LS_SWEEP_JOBS_H
#define LS_SWEEP_JOBS_H

#include "sweep/results.h"

enum { LS_SWEEP_JOBS_MAX = 256 };

// Starts all runs that are not complete in `results`, and updates `results` as they end. LS_STOPPED: stopped on request
// or by a run's time limit; the same call goes on. If runs failed: the code and the message of the failed run with the
// lowest number. LS_USAGE: more jobs than GPUs. LS_DATA: see ls_sweep_check_data.
LS_CHECKED ls_status ls_sweep_jobs(const ls_sweep_plan *plan, ls_sweep_result *results, int jobs, int quiet);

#endif
