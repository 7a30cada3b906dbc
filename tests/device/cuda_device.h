// cuda_device.h - opens the CUDA device for tests: the emulated one beside the test programs, or, with
// LOCKSTEP_TEST_GPU=1 in the environment, this machine's GPU.
#ifndef TESTS_DEVICE_CUDA_DEVICE_H
#define TESTS_DEVICE_CUDA_DEVICE_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"

static inline int cuda_is_real(void) {
    const char *real = getenv("LOCKSTEP_TEST_GPU");
    return real && strcmp(real, "1") == 0;
}

// 0, or 77 (a skipped test) where the emulated device was not built. Call it first in main.
static inline int cuda_choose(void) {
    if (cuda_is_real()) return 0;
    char path[PATH_MAX + 64] = "";
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0) return 1;
    char *slash = strrchr(path, '/');
    strcpy(slash, "/emulated/lockstep_cuda.so");
    if (access(path, R_OK) != 0) {
        printf("skipped: %s is not there; it needs a C++ compiler when Lockstep is built\n", path);
        return 77;
    }
    return setenv("LOCKSTEP_CUDA_PLUGIN", path, 1);
}

static inline ls_device *cuda_open_with(const ls_device_options *options) {
    ls_device *device = NULL;
    ls_status status = ls_device_open("cuda", options, &device, NULL);
    if (ls_failed(status)) {
        fprintf(stderr, "%s\n", status.text);
        exit(1);
    }
    return device;
}

// fp32 is fp32, and convolutions go by the rule: what can be compared most sharply.
static inline ls_device *cuda_open(void) {
    return cuda_open_with(&(ls_device_options){ .index = 0 });
}

#endif
