// plugin.c - the only symbol that lockstep_cuda.so exports.
#include "base/memory.h"
#include "device/gpu/plugin.h"
#include "device/cuda/cuda.h"

__attribute__((visibility("default"))) const ls_gpu_plugin lockstep_cuda_plugin = {
    .abi = LS_DEVICE_ABI,
    .size = sizeof(ls_gpu_plugin),
    .device = &ls_device_cuda,
    .set_end = ls_out_of_memory_set_end,
};
