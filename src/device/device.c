#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "device/gpu/plugin.h"

static const ls_device_api *const built_in[] = { &ls_device_cpu, &ls_device_ref, &ls_device_null };

static ls_status cuda_open(const ls_device_options *options, ls_device **out) {
    const ls_gpu_plugin *plugin;
    LS_TRY(ls_gpu_plugin_open(&plugin));
    return plugin->device->open(options, out);
}

ls_status ls_device_gpus(ls_device_gpu *gpus, int most, int *count) {
    const ls_gpu_plugin *plugin;
    *count = 0;
    LS_TRY(ls_gpu_plugin_open(&plugin));
    return plugin->device->list(gpus, most, count);
}

ls_status ls_device_open(
    const char *type, const ls_device_options *options, ls_device **out, const char **why_not_cuda) {
    int is_auto = strcmp(type, "auto") == 0;
    if (why_not_cuda) *why_not_cuda = NULL;
    if (is_auto || strcmp(type, "cuda") == 0) {
        ls_status status = cuda_open(options, out);
        if (!ls_failed(status)) return status;
        if (!is_auto) return ls_fail(status.code, "device.type = cuda: %s", status.text);
        if (why_not_cuda) *why_not_cuda = ls_fail(LS_DEVICE, "no GPU is used: %s", status.text).text;
    }
    const char *name = is_auto ? "cpu" : type;
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        if (strcmp(built_in[i]->name, name) == 0) return built_in[i]->open(options, out);
    }
    return ls_fail(LS_USAGE, "device.type = %s: no such device; there are auto, cpu, cuda, ref and null", type);
}

void ls_device_close(ls_device *device) {
    if (device) device->api->close(device);
}

void *ls_buffer_host(ls_buffer buffer) {
    if (!buffer.slab) return NULL;
    assert(buffer.slab->host_visible && "the host reads device memory");
    return buffer.slab->address + buffer.offset;
}
