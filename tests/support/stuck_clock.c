// stuck_clock.c - preloaded (LD_PRELOAD) into a training run: the wall clock stands still at the beginning of 1970,
// as on a machine without a battery. The kernel's own wall clock is right, so a wait on it is over at once. The clock
// goes until main begins, because UCX (with Open MPI 5) waits on it while it is loaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static int stands;

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*end)(void),
    void (*end_of_loader)(void), void *stack) {
    int (*start)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    stands = 1;
    return start(main, argc, argv, init, end, end_of_loader, stack);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!stands || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return (int)syscall(SYS_clock_gettime, clock, now);
    *now = (struct timespec){ .tv_sec = 10 };
    return 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    *now = (struct timeval){ .tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000 };
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
