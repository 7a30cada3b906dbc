// slow_files.c - preloaded (LD_PRELOAD) into a training run: opening a file takes long.
//
// Environment
//   LOCKSTEP_TEST_SLOW_MS    so many milliseconds longer
//   LOCKSTEP_TEST_SLOW_NAME  files whose names end like this
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static void wait_for(const char *path) {
    const char *name = getenv("LOCKSTEP_TEST_SLOW_NAME"), *ms = getenv("LOCKSTEP_TEST_SLOW_MS");
    const size_t length = strlen(path), ends = name ? strlen(name) : 0;
    if (!name || !ms || length < ends || strcmp(path + length - ends, name) != 0) return;
    nanosleep(&(struct timespec){ .tv_nsec = atol(ms) * 1000000 }, NULL);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
    va_end(args);
    wait_for(path);
    return ((__typeof__(&openat))dlsym(RTLD_NEXT, "openat"))(folder, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return openat(AT_FDCWD, path, flags, mode);
}
