// plugin.c - the only symbol that the plugin exports, and the facts about its build that are read from its file.
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/gpu/plugin.h"
#include "system/plugin_build.h"

__attribute__((section(LS_PLUGIN_BUILD_SECTION), used)) static const ls_plugin_build build = {
    .runtime = CUDART_VERSION, .capability = LS_CUDA_LOWEST, .folders = LS_CUDA_BUILD_FOLDERS
};

__attribute__((visibility("default"))) const ls_gpu_plugin lockstep_cuda_plugin = {
    .abi = LS_DEVICE_ABI,
    .size = sizeof(ls_gpu_plugin),
    .device = &ls_device_cuda,
    .set_end = ls_out_of_memory_set_end,
};
