// fake_plugin.c - a lockstep_cuda.so that only says that it was reached: compiled by tests/cli/test_devices.sh.
#include <stdio.h>
#include <stdlib.h>
#include "device/gpu/plugin.h"

static char reached[128];

static ls_status fake_open(const ls_device_options *options, ls_device **out) {
    (void)options, (void)out;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    snprintf(reached, sizeof reached, "the plugin was reached%s%s", visible ? ", of GPU " : "", visible ? visible : "");
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
