// run_clock.h - measures how this rank spends the time of a run, from the end of its first update on.
//
// The thread that drives a run does one thing at a time, and each phase adds its time here. The loader and the reducer
// count how long the thread waited for them. On a device whose operators run at once, every instruction is timed. So
// the parts do not overlap. The rest of the total is time that no part claims: records, comparisons, bookkeeping.
#ifndef LS_TRAIN_RUN_CLOCK_H
#define LS_TRAIN_RUN_CLOCK_H

#include "train/run_progress.h"
#include "train/run_session.h"

typedef struct {
    double start_s;           // when the first update ended; 0: it has not ended yet
    double updates;           // seconds spent in updates since start_s
    double core_looked_s;     // when core_wait was last read
    ls_run_time before, last; // before: the counters' values at start_s; last: the last reading
} ls_run_clock;

typedef enum { LS_RUN_UPDATES, LS_RUN_EVALUATION, LS_RUN_CHECKPOINT } ls_run_phase;

// Starts the clock. Call at the end of the first update.
void ls_run_clock_start(ls_run_clock *clock, const ls_run_session *session, const ls_run_progress *progress);
// Adds the time that a phase took. Does nothing before the clock is started.
void ls_run_clock_add(ls_run_clock *clock, ls_run_phase phase, double seconds);
// Returns the times so far. All are 0 before the clock is started.
const ls_run_time *ls_run_clock_read(
    ls_run_clock *clock, const ls_run_session *session, const ls_run_progress *progress);

#endif
