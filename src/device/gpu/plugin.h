// plugin.h - a GPU device in a file of its own next to the program: lockstep_<name>.so, or lockstep_<name><version>.so
// if its vendor finds files for several versions of its libraries (system/machine.h). It is opened only when needed, so
// `train` itself needs no GPU library. plugins.def lists the plugins.
//
// The file exports one symbol, `lockstep_<name>_plugin`. It is never closed, because GPU libraries do not survive that.
// For tests, the environment variable LOCKSTEP_<NAME>_PLUGIN names another file: the emulated device. Driver, card and
// libraries are then not checked.
#ifndef LS_DEVICE_GPU_PLUGIN_H
#define LS_DEVICE_GPU_PLUGIN_H

#include "device/device.h"
#include "system/machine.h"

enum {
#define PLUGIN(NAME, name, vendor, needs) LS_GPU_PLUGIN_##NAME,
#include "config/plugins.def"
    LS_GPU_PLUGIN_COUNT
};

// The plugin's exported symbol.
typedef struct {
    uint32_t abi;  // LS_DEVICE_ABI
    uint32_t size; // sizeof(ls_gpu_plugin)
    const ls_device_api *device;
    // ls_out_of_memory_set_end of the plugin's own copy of base/. With it, a small allocation that fails in the plugin
    // ends the program in the same way as one in the program. NULL: the plugin allocates nothing.
    void (*set_end)(void (*end)(const char *text));
} ls_gpu_plugin;

// defined only in the plugin's file
#define PLUGIN(NAME, name, vendor, needs) extern const ls_gpu_plugin lockstep_##name##_plugin;
#include "config/plugins.def"

// A row of plugins.def.
typedef struct {
    const char *type;              // value of device.type: "cuda"
    const char *title;             // "CUDA"
    const ls_gpu_vendor *vendor;   // never NULL
    const char *symbol, *variable; // "lockstep_cuda_plugin", "LOCKSTEP_CUDA_PLUGIN"
    const char *needs;             // completes the sentence "it is made where ..."
} ls_gpu_plugin_row;

extern const ls_gpu_plugin_row ls_gpu_plugins[LS_GPU_PLUGIN_COUNT];

// Fails with LS_DEVICE and one line: the file does not exist, a needed driver, card or library is missing, it cannot be
// loaded, or it was made for another version.
LS_CHECKED ls_status ls_gpu_plugin_open(const ls_gpu_plugin_row *row, const ls_gpu_plugin **out);
// Whether a user of this machine probably expects a GPU to be used. 0: there is no card and no driver of any vendor, so
// nothing is missing.
int ls_gpu_expected(void);
// Checks that this program can use the tables that it found in the file `path`.
LS_CHECKED ls_status ls_gpu_plugin_check(const ls_gpu_plugin *plugin, const char *path);

#endif
