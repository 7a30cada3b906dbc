// sched_wait.h - how long this process's runnable threads have waited for a core.
#ifndef LS_SYSTEM_SCHED_WAIT_H
#define LS_SYSTEM_SCHED_WAIT_H

// Returns the seconds that the living threads of this process have spent in the run queue, summed since each began; 0
// if the system does not count them. Source: run_delay in /proc/self/task/*/schedstat (Linux,
// Documentation/scheduler/sched-stats).
double ls_sched_wait_seconds(void);

#endif
