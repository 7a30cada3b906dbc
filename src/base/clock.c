#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/scope.h"

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double ls_clock_seconds(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double ls_clock_unix_seconds(void) {
    return read_clock(CLOCK_REALTIME);
}

// Returns the seconds from boot to the start of this process; not positive if unknown. Reads field 22 of
// /proc/self/stat: clock ticks since boot (man 5 proc). The program's name in field 2 may contain spaces and ')', so
// the search starts at the last ')'.
static double process_start_since_boot(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    const char *field = strrchr(text, ')'); // ends field 2
    for (int i = 2; i < 22 && field; i++) field = strchr(field + 1, ' ');
    return field ? strtod(field, NULL) / (double)sysconf(_SC_CLK_TCK) : -1;
}

double ls_clock_since_start(void) {
    if (ls_scope_now()->started_s > 0) return ls_clock_seconds() - ls_scope_now()->started_s;
    double start = process_start_since_boot(), age = read_clock(CLOCK_BOOTTIME) - start;
    // Without a usable /proc: the CPU time of the process, a lower bound.
    return start > 0 && age >= 0 ? age : read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void ls_clock_sleep(double seconds) {
    if (!(seconds > 0)) return;
    struct timespec left = { .tv_sec = (time_t)seconds };
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}
