// sync_time.c - preloaded (LD_PRELOAD) into a run on a GPU: counts the CUDA calls
// in which the host waits for the device, and the time spent in them, and prints one line at the end.
// It stands between the plugin and the CUDA runtime.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

static double seconds;
static long calls, waits; // waits: calls that took longer than 20 us: the device was not yet there

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int timed(const char *name, void *argument) {
    static const char *const runtimes[] = { "libcudart.so.13", "libcudart.so.12" }; // the plugin has loaded one of them
    int (*real)(void *) = NULL;
    for (int i = 0; i < 2 && !real; i++) {
        void *runtime = dlopen(runtimes[i], RTLD_NOW | RTLD_NOLOAD);
        if (!runtime) continue;
        *(void **)&real = dlsym(runtime, name);
        dlclose(runtime);
    }
    double begin = now();
    int rc = real ? real(argument) : 999;
    double took = now() - begin;
    seconds += took;
    calls++;
    waits += took > 20e-6;
    return rc;
}

int cudaStreamSynchronize(void *stream) {
    return timed("cudaStreamSynchronize", stream);
}

int cudaEventSynchronize(void *event) {
    return timed("cudaEventSynchronize", event);
}

__attribute__((destructor)) static void print(void) {
    fprintf(stderr, "sync_time: %ld calls that may wait, %ld of them did (over 20 us), %.3f s in all\n", calls, waits,
        seconds);
}
