// clock.h - time.
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

double ls_clock_seconds(void);             // monotonic, from an arbitrary start
double ls_clock_since_process_start(void); // seconds; the kernel recorded the start (resolution 10 ms)
double ls_clock_unix_seconds(void);        // wall clock, seconds since 1970
void ls_clock_sleep(double seconds);

#endif
