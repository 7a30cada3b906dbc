// plugin.h - a GPU device in a file of its own, lockstep_<name>.so, which stands beside the program and is opened when it
// is needed: `train` itself needs no library of a GPU's. plugins.def lists them.
//
// The file exports one symbol, `lockstep_<name>_plugin`. It is never closed: a GPU's libraries do not survive that.
// LOCKSTEP_<NAME>_PLUGIN in the environment names another file, for tests: the emulated device. Driver, card and
// libraries are then not looked for.
#ifndef LS_DEVICE_GPU_PLUGIN_H
#define LS_DEVICE_GPU_PLUGIN_H

#include "device/device.h"
#include "device/gpu/machine.h"

enum {
#define PLUGIN(NAME, name, vendor, needs) LS_GPU_PLUGIN_##NAME,
#include "base/plugins.def"
    LS_GPU_PLUGIN_COUNT
};

// What the file exports.
typedef struct {
    uint32_t abi;  // LS_DEVICE_ABI
    uint32_t size; // sizeof(ls_gpu_plugin)
    const ls_device_api *device;
} ls_gpu_plugin;

#define PLUGIN(NAME, name, vendor, needs) extern const ls_gpu_plugin lockstep_##name##_plugin; // only the file has it
#include "base/plugins.def"

// A row of plugins.def.
typedef struct {
    const char *type;                     // the word of device.type: "cuda"
    const char *title;                    // "CUDA"
    const ls_gpu_vendor *vendor;          // never NULL
    const char *file, *symbol, *variable; // "lockstep_cuda.so", "lockstep_cuda_plugin", "LOCKSTEP_CUDA_PLUGIN"
    const char *needs;                    // completes "it is made where ..."
} ls_gpu_plugin_row;

extern const ls_gpu_plugin_row ls_gpu_plugins[LS_GPU_PLUGIN_COUNT];

// LS_DEVICE, one line: no such file, no driver, card or library that it needs, not loadable, made for another version.
LS_CHECKED ls_status ls_gpu_plugin_open(const ls_gpu_plugin_row *row, const ls_gpu_plugin **out);
// Does someone at this machine count on a GPU? 0: there is no card and no driver of any vendor, so that nothing is missing.
int ls_gpu_expected(void);
// Whether this program can use what it found in the file `path`.
LS_CHECKED ls_status ls_gpu_plugin_check(const ls_gpu_plugin *plugin, const char *path);

#endif
