// jobs.h - starts the runs of a sweep, `jobs` of them at a time: as processes, or as threads of this one. If there are
// several at a time, each gets its share of the machine: some of the cores that this process may use; or, of GPUs, one
// for each process or the same one for all threads of a rank.
//
// At a request to stop (SIGTERM, SIGUSR1, SIGINT) all runs write a checkpoint and end. A SIGINT after that ends all
// at once. After a failed run the sweep continues; but a rank of which no run has succeeded starts no more runs once
// three of its runs have failed (or `jobs`, if that is more).
//
// A thread whose run the device fails (LS_DEVICE) beside other threads has probably found too little memory. The run
// begins again later, and from then on this rank has one run fewer at a time.
#ifndef LS_SWEEP_JOBS_H
#define LS_SWEEP_JOBS_H

#include "sweep/results.h"
#include "sweep/worker.h"

enum { LS_SWEEP_JOBS_MAX = 256 };

typedef struct {
    int jobs;            // number of runs at a time
    ls_run_words *train; // NULL: runs are processes; otherwise threads of this process, which call `train`
    int quiet;
    // The ranks that train the runs: each takes the next run that no rank has taken. Several ranks need `train`.
    ls_comm *comm;
} ls_sweep_jobs_options;

// Starts the runs that are not complete in `results`, and updates `results` as they end. Collective over the ranks of
// options->comm. LS_STOPPED: stopped on request or by a run's time limit; a later call continues the runs. If runs of
// this rank failed: the code and the message of its failed run with the lowest number. LS_USAGE: more processes than
// GPUs. LS_DATA: see ls_sweep_check_data.
LS_CHECKED ls_status ls_sweep_jobs(
    const ls_sweep_plan *plan, ls_sweep_result *results, const ls_sweep_jobs_options *options);
// Checks that the runs may train `*jobs` at a time on this rank, as threads. *jobs 0: it is set to as many as the rank
// may use threads (ls_cpus_threads_per_rank), at most 8 if there is a GPU for them, else at most LS_SWEEP_JOBS_MAX.
LS_CHECKED ls_status ls_sweep_together(const ls_sweep_plan *plan, const ls_comm_info *comm, int *jobs);

#endif
