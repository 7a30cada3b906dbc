// device_open.c - opens devices by the value of device.type: the program's own devices, and GPUs through plugins.
#include "device/device.h"

#include <stdio.h>
#include <string.h>

#include "device/gpu/plugin.h"

static const ls_device_api *const built_in[] = { &ls_device_cpu, &ls_device_ref };

static int is_type(const ls_gpu_plugin_row *row, const char *type) {
    return strcmp(type, "auto") == 0 || strcmp(type, row->type) == 0;
}

int ls_device_is_gpu(const char *type) {
    for (int i = 0; i < LS_GPU_PLUGIN_COUNT; i++)
        if (strcmp(ls_gpu_plugins[i].type, type) == 0) return 1;
    return 0;
}

// Appends a plugin's failure to *all, whose message joins the failures of all plugins in one line.
static void add_failure(ls_status *all, ls_status status) {
    *all = ls_failed(*all) ? ls_fail(all->code, "%s; %s", all->text, status.text) : status;
}

ls_status ls_device_gpus(const char *type, ls_device_gpu *gpus, int most, int *count, const char **found) {
    ls_status none = LS_SUCCESS;
    *count = 0;
    *found = NULL;
    for (int i = 0; i < LS_GPU_PLUGIN_COUNT; i++) {
        const ls_gpu_plugin_row *row = &ls_gpu_plugins[i];
        const ls_gpu_plugin *plugin;
        if (!is_type(row, type)) continue;
        ls_status status = ls_gpu_plugin_open(row, &plugin);
        if (!ls_failed(status)) status = plugin->device->list(gpus, most, count);
        *found = row->type;
        if (!ls_failed(status)) return status;
        add_failure(&none, status);
    }
    return none;
}

// Opens a GPU with the first plugin of `type` that can open one. Fails with the messages of all plugins if none can.
static ls_status open_gpu(const char *type, const ls_device_options *options, ls_device **out) {
    ls_status none = LS_SUCCESS;
    for (int i = 0; i < LS_GPU_PLUGIN_COUNT; i++) {
        const ls_gpu_plugin *plugin;
        if (!is_type(&ls_gpu_plugins[i], type)) continue;
        ls_status status = ls_gpu_plugin_open(&ls_gpu_plugins[i], &plugin);
        if (!ls_failed(status)) status = plugin->device->open(options, out);
        if (!ls_failed(status)) return status;
        add_failure(&none, status);
    }
    return none;
}

static const char there_are[] = "auto, cpu, ref"
#define PLUGIN(NAME, name, vendor, needs) ", " #name
#include "config/plugins.def"
    ;

ls_status ls_device_open(
    const char *type, const ls_device_options *options, ls_device **out, const char **why_not_gpu) {
    int is_auto = strcmp(type, "auto") == 0;
    if (why_not_gpu) *why_not_gpu = NULL;
    if (is_auto || ls_device_is_gpu(type)) {
        ls_status status = open_gpu(type, options, out);
        if (!ls_failed(status)) return status;
        if (!is_auto) return ls_fail(status.code, "device.type = %s: %s", type, status.text);
        if (why_not_gpu) *why_not_gpu = ls_fail(LS_DEVICE, "no GPU is used: %s", status.text).text;
    }
    const char *name = is_auto ? "cpu" : type;
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        if (strcmp(built_in[i]->name, name) == 0) return built_in[i]->open(options, out);
    }
    return ls_fail(LS_USAGE, "device.type = %s: no such device; there are %s", type, there_are);
}

static const ls_collective_row collectives[] = {
#define COLLECTIVE(NAME, name, plugin, network_sums) \
    { #name, #NAME, #plugin, "LOCKSTEP_" #NAME "_SHARED_GPU", network_sums },
#include "config/plugins.def"
};

const ls_collective_row *ls_collective_find(const char *name) {
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(collectives[i].name, name) == 0) return &collectives[i];
    return NULL;
}
