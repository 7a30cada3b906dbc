// run_clock.h - where the time of a run goes on this rank, from the end of its first update on.
//
// The thread that drives a run does one thing after the other, and its phases add their time up here; loader and
// reducer count for how long they made it wait, and on a device whose operators run at once every instruction is
// timed. So the parts never overlap, and what they leave of the whole is what nobody claims: records, comparisons,
// bookkeeping.
#ifndef LS_TRAIN_RUN_CLOCK_H
#define LS_TRAIN_RUN_CLOCK_H

#include "train/run_progress.h"
#include "train/run_session.h"

typedef struct {
    double start_s;           // 0: the first update is under way
    double updates;           // seconds in them since then
    double core_looked_s;     // when core_wait was looked at last
    ls_run_time before, last; // before: what counters had at start_s; last: the last reading
} ls_run_clock;

typedef enum { LS_RUN_UPDATES, LS_RUN_EVALUATION, LS_RUN_CHECKPOINT } ls_run_phase;

// The first update is done.
void ls_run_clock_start(ls_run_clock *clock, const ls_run_session *session, const ls_run_progress *progress);
// A phase took so long; before the start it does not count.
void ls_run_clock_add(ls_run_clock *clock, ls_run_phase phase, double seconds);
// All 0 before the start.
const ls_run_time *ls_run_clock_read(
    ls_run_clock *clock, const ls_run_session *session, const ls_run_progress *progress);

#endif
