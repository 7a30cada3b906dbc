// fake_plugin.c - a plugin that only says that it was reached, and for which CUDA it is: compiled by tests/cli/test_devices.sh
// and tests/system/test_machine.c, with -DRUNTIME=12040 -DCAPABILITY=70 as the one for CUDA 12.
#include <stdio.h>
#include <stdlib.h>
#include "device/gpu/plugin.h"
#include "system/plugin_build.h"

#ifndef RUNTIME
#define RUNTIME 13000
#define CAPABILITY 75
#endif

__attribute__((section(LS_PLUGIN_BUILD_SECTION), used)) static const ls_plugin_build build = { RUNTIME, CAPABILITY,
    "" };

static char reached[128];

static ls_status fake_open(const ls_device_options *options, ls_device **out) {
    (void)options, (void)out;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(reached, sizeof reached, "the plugin for CUDA %d was reached%s%s", RUNTIME / 1000,
        visible ? ", of GPU " : "", visible ? visible : "");
    return (ls_status){ LS_DEVICE, reached };
}

static ls_status fake_list(ls_device_gpu *gpus, int most, int *count) {
    (void)most;
    gpus[0] = (ls_device_gpu){ .name = "Fake GPU", .uuid = "GPU-0" };
    *count = 1;
    return LS_SUCCESS;
}

static const ls_device_api device = {
    .abi = LS_DEVICE_ABI, .size = sizeof(ls_device_api), .name = "cuda", .open = fake_open, .list = fake_list
};
const ls_gpu_plugin lockstep_cuda_plugin = { LS_DEVICE_ABI, sizeof lockstep_cuda_plugin, &device };
