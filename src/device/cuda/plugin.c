// plugin.c - the one symbol that lockstep_cuda.so exports.
#include "device/cuda_plugin.h"
#include "device/cuda/cuda.h"

__attribute__((visibility("default"))) const ls_cuda_plugin lockstep_cuda_plugin = {
    .abi = LS_DEVICE_ABI,
    .size = sizeof(ls_cuda_plugin),
    .device = &ls_device_cuda,
};
