// plugin.h - the CUDA device in a file of its own, lockstep_cuda.so, which stands beside the program and is opened
// when it is needed: `train` itself needs no CUDA library.
//
// The file exports one symbol, `lockstep_cuda_plugin`. It is never closed: CUDA's libraries do not survive that.
// LOCKSTEP_CUDA_PLUGIN in the environment names another file, for tests: the emulated device. Driver, card and
// libraries are then not looked for.
#ifndef LS_DEVICE_GPU_PLUGIN_H
#define LS_DEVICE_GPU_PLUGIN_H

#include "device/device.h"

typedef struct {
    uint32_t abi;  // LS_DEVICE_ABI
    uint32_t size; // sizeof(ls_gpu_plugin)
    const ls_device_api *device;
} ls_gpu_plugin;

extern const ls_gpu_plugin lockstep_cuda_plugin; // only the plugin has it; found by dlsym

// LS_DEVICE, one line: no such file, no driver, card or library that it needs, not loadable, made for another version.
LS_CHECKED ls_status ls_gpu_plugin_open(const ls_gpu_plugin **out);
// Whether this program can use what it found in the file `path`.
LS_CHECKED ls_status ls_gpu_plugin_check(const ls_gpu_plugin *plugin, const char *path);

#endif
