#include "device/gpu/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "system/installed.h"
#include "base/memory.h"

const ls_gpu_vendor ls_gpu_none = { NULL, NULL, NULL };
#define PLUGIN(NAME, name, vendor, needs) extern const ls_gpu_vendor ls_gpu_##vendor;
#include "config/plugins.def"

const ls_gpu_plugin_row ls_gpu_plugins[LS_GPU_PLUGIN_COUNT] = {
#define PLUGIN(NAME, name, vendor, needs) \
    { #name, #NAME, &ls_gpu_##vendor, "lockstep_" #name "_plugin", "LOCKSTEP_" #NAME "_PLUGIN", needs },
#include "config/plugins.def"
};

// Finds the plugin's file beside the program. If there are several, for several versions of the vendor's libraries, the
// vendor chooses.
static ls_status find_file(const ls_gpu_plugin_row *row, char *path, size_t bytes) {
    char folder[PATH_MAX], name[64];
    const char *file = NULL, *missing = NULL;
    snprintf(name, sizeof name, "lockstep_%s%s.so", row->type, row->vendor->missing ? "*" : "");
    LS_TRY(ls_program_folder(folder, sizeof folder));
    LS_TRY(ls_path_join(path, bytes, folder, name));
    if (row->vendor->missing)
        missing = row->vendor->missing(&file);
    else if (ls_path_exists(path))
        file = path;
    if (!file)
        return ls_fail(LS_DEVICE,
            "this build has no %s device: %s is not there; it is in the package lockstep-%s, and is made where %s",
            row->title, path, row->type, row->needs);
    if (missing) return ls_fail(LS_DEVICE, "%s", missing);
    return file == path ? LS_SUCCESS : ls_path_join(path, bytes, "", file);
}

ls_status ls_gpu_plugin_check(const ls_gpu_plugin *plugin, const char *path) {
    if (plugin->abi != LS_DEVICE_ABI || plugin->device->abi != LS_DEVICE_ABI)
        return ls_fail(LS_DEVICE,
            "%s was made for version %u of the device interface, this program has version %d: build both from the same "
            "sources",
            path, plugin->abi != LS_DEVICE_ABI ? plugin->abi : plugin->device->abi, LS_DEVICE_ABI);
    if (plugin->size < sizeof *plugin || plugin->device->size < sizeof *plugin->device)
        return ls_fail(LS_DEVICE,
            "%s has tables of %u and %u bytes, this program expects %zu and %zu: build both from the same sources",
            path, plugin->size, plugin->device->size, sizeof *plugin, sizeof *plugin->device);
    return LS_SUCCESS;
}

int ls_gpu_expected(void) {
    for (int i = 0; i < LS_GPU_PLUGIN_COUNT; i++) {
        const ls_gpu_plugin_row *row = &ls_gpu_plugins[i];
        if (getenv(row->variable) || !row->vendor->expected || row->vendor->expected()) return 1;
    }
    return 0;
}

ls_status ls_gpu_plugin_open(const ls_gpu_plugin_row *row, const ls_gpu_plugin **out) {
    char path[PATH_MAX];
    const char *named = getenv(row->variable);
    LS_TRY(named ? ls_path_join(path, sizeof path, "", named) : find_file(row, path, sizeof path));
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file) return ls_fail(LS_DEVICE, "cannot load the %s device: %s", row->title, dlerror());
    const ls_gpu_plugin *plugin = dlsym(file, row->symbol);
    if (!plugin) // the file stays open: GPU libraries do not survive being closed
        // cppcheck-suppress resourceLeak
        return ls_fail(LS_DEVICE, "%s is not Lockstep's %s device: it has no symbol %s", path, row->title, row->symbol);
    LS_TRY(ls_gpu_plugin_check(plugin, path));
    if (plugin->set_end) plugin->set_end(ls_out_of_memory_as);
    *out = plugin;
    return LS_SUCCESS;
}
