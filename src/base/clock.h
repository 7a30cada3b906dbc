// clock.h - time.
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

double ls_clock_seconds(void); // monotonic, from an arbitrary start
// Returns the seconds since the process began, as the kernel recorded it (resolution 10 ms); in one of several runs of
// the process (scope.h), since that run began. Without /proc: the CPU time of the process, a lower bound.
double ls_clock_since_start(void);
double ls_clock_unix_seconds(void); // wall clock, seconds since 1970
void ls_clock_sleep(double seconds);

#endif
