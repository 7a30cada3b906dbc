// devices.h - this host's devices, the libraries for GPUs, each missing or unsuitable part with its fix, and the device
// that device.type = auto takes. `train devices` prints it, and `train doctor` as a part of its report.
#ifndef LS_TOOLS_DOCTOR_DEVICES_H
#define LS_TOOLS_DOCTOR_DEVICES_H

#include "system/cpus.h"
#include "base/json.h"
#include "device/device.h"
#include "device/gpu/plugin.h"

enum { LS_DEVICES_FEATURES_MAX = 5 };

typedef struct {
    ls_cpus cpus;
    int threads; // number of threads of a rank
    size_t memory_bytes;
    const char *features[LS_DEVICES_FEATURES_MAX]; // instruction sets of the processor, "AVX2"; NULL after the last
    ls_gpu_machine machine[LS_GPU_PLUGIN_COUNT];
    // The result for device.type = auto, after ls_devices_try or ls_devices_take:
    const char *chosen; // the device that is taken, "cpu"; NULL: no device can be opened
    ls_device_info info;
    const char *why; // one line: why no GPU is used, or why no device can be opened; "": nothing is missing
} ls_devices;

void ls_devices_look(ls_devices *devices);
// Finds the device that device.type = auto takes, and fills in chosen, info and why. Opens the device, as a run of one
// rank would, and closes it.
void ls_devices_try(ls_devices *devices);
// Fills in chosen, info and why like ls_devices_try, but from a device that is open already; device NULL: no device can
// be opened. why: why no GPU is used or, if device is NULL, why no device can be opened; NULL: nothing to say.
void ls_devices_take(ls_devices *devices, const ls_device *device, const char *why);
void ls_devices_print(const ls_devices *devices, FILE *file);
void ls_devices_json(const ls_devices *devices, cJSON *tree);

#endif
