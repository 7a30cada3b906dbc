#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char no_cuda[] = "this build has no CUDA device: it was made without the plugin lockstep_cuda.so";

static const ls_device_api *const built_in[] = { &ls_device_cpu, &ls_device_ref, &ls_device_null };

ls_status ls_device_open(
    const char *type, const ls_device_options *options, ls_device **out, const char **why_not_cuda) {
    int is_auto = strcmp(type, "auto") == 0;
    if (why_not_cuda) *why_not_cuda = is_auto ? no_cuda : NULL;
    if (strcmp(type, "cuda") == 0) return ls_fail(LS_DEVICE, "%s; use device.type = cpu or auto", no_cuda);
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
