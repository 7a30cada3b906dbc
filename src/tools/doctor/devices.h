// devices.h - this host's devices, the GPUs' libraries, what is missing or does not fit together and the fix, and what
// device.type = auto takes: `train devices`, and a part of `train doctor`.
#ifndef LS_TOOLS_DOCTOR_DEVICES_H
#define LS_TOOLS_DOCTOR_DEVICES_H

#include "system/cpus.h"
#include "base/json.h"
#include "device/device.h"
#include "device/gpu/plugin.h"

enum { LS_DEVICES_FEATURES_MAX = 4 };

typedef struct {
    ls_cpus cpus;
    int threads; // of a rank
    size_t memory_bytes;
    const char *features[LS_DEVICES_FEATURES_MAX]; // up to NULL
    ls_gpu_machine machine[LS_GPU_PLUGIN_COUNT];
    // device.type = auto; "" until one of the two below is called
    const char *chosen; // "cpu"; NULL: none opens
    ls_device_info info;
    const char *why; // "": nothing is missing
} ls_devices;

void ls_devices_look(ls_devices *devices);
// Not a guess: opens the device as a run of one rank would, and closes it.
void ls_devices_try(ls_devices *devices);
// The same of one that is open already; NULL: none opens. why: as ls_device_open says it, or NULL.
void ls_devices_take(ls_devices *devices, const ls_device *device, const char *why);
void ls_devices_print(const ls_devices *devices, FILE *file);
void ls_devices_json(const ls_devices *devices, cJSON *tree);

#endif
