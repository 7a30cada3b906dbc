// stuck_clock.c - preloaded (LD_PRELOAD) into a training run: the wall clock stands still at the beginning of 1970,
// as on a machine without a battery. The kernel's own wall clock is right, so a wait on it is over at once.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return (int)syscall(SYS_clock_gettime, clock, now);
    *now = (struct timespec){ .tv_sec = 10 };
    return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    *now = (struct timeval){ .tv_sec = 10 };
    return 0;
}

time_t time(time_t *now) {
    if (now) *now = 10;
    return 10;
}
