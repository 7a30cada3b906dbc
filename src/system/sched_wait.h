// sched_wait.h - how long threads that could run have waited for a core.
#ifndef LS_SYSTEM_SCHED_WAIT_H
#define LS_SYSTEM_SCHED_WAIT_H

// Seconds in the run queue since they began, summed over this process's threads that are still there; 0 where the
// system does not count it. Source: run_delay in /proc/self/task/*/schedstat (Linux,
// Documentation/scheduler/sched-stats).
double ls_sched_wait_seconds(void);

#endif
