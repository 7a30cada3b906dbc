#include "tools/doctor/devices.h"

#include <string.h>
#include <unistd.h>
#include "base/text.h"

static void list_features(const ls_cpus *cpus, const char *features[LS_DEVICES_FEATURES_MAX]) {
    const struct {
        int has;
        const char *name;
    } rows[LS_DEVICES_FEATURES_MAX] = { { !cpus->has_avx2, LS_CPUS_BASELINE }, { cpus->has_avx2, "AVX2" },
        { cpus->has_avx512, "AVX-512" }, { cpus->has_avx512_bf16, "AVX512-BF16" }, { cpus->has_amx_bf16, "AMX-BF16" } };
    int count = 0;
    for (int i = 0; i < LS_DEVICES_FEATURES_MAX; i++)
        if (rows[i].has) features[count++] = rows[i].name;
}

void ls_devices_look(ls_devices *f) {
    memset(f, 0, sizeof *f);
    ls_cpus_detect(&f->cpus);
    f->threads = ls_cpus_threads_per_rank(&f->cpus, 1);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    f->memory_bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
    list_features(&f->cpus, f->features);
    for (int p = 0; p < LS_GPU_PLUGIN_COUNT; p++)
        if (ls_gpu_plugins[p].vendor->fill) ls_gpu_plugins[p].vendor->fill(&f->machine[p]);
    f->why = "";
}

void ls_devices_take(ls_devices *f, const ls_device *device, const char *why) {
    f->why = why ? why : "";
    f->chosen = device ? device->api->name : NULL;
    if (device) device->api->info(device, &f->info);
}

void ls_devices_try(ls_devices *f) {
    ls_device *device = NULL;
    const char *why = NULL;
    ls_status status = ls_device_open("auto", &(ls_device_options){ .threads = f->threads }, &device, &why);
    ls_devices_take(f, device, ls_failed(status) ? status.text : why);
    ls_device_close(device);
}

// --- for people --------------------------------------------------------------------------------

static void print_cards(FILE *file, const ls_gpu_plugin_row *plugin, const ls_gpu_machine *machine) {
    for (int i = 0; i < machine->card_count; i++) {
        const ls_gpu_card *card = &machine->cards[i];
        char memory[24];
        fprintf(file, "  %s %-2d %s, compute capability %d.%d%s, %s, driver %s, %s, %s\n", plugin->type, i, card->name,
            card->capability / 10, card->capability % 10, card->new_enough ? "" : " (too old)",
            ls_text_bytes(memory, card->memory_bytes), machine->driver_release[0] ? machine->driver_release : "unknown",
            card->uuid[0] ? card->uuid : "no UUID", card->pci[0] ? card->pci : "no PCI address");
    }
}

static void print_devices(FILE *file, const ls_devices *f) {
    char memory[24];
    fprintf(file, "devices\n  cpu     %s, %d core%s, %d thread%s a rank", f->cpus.model, f->cpus.mask_cores,
        f->cpus.mask_cores == 1 ? "" : "s", f->threads, f->threads == 1 ? "" : "s");
    for (int i = 0; i < LS_DEVICES_FEATURES_MAX && f->features[i]; i++) fprintf(file, ", %s", f->features[i]);
    fprintf(file, ", %s\n", ls_text_bytes(memory, f->memory_bytes));
    for (int p = 0; p < LS_GPU_PLUGIN_COUNT; p++) print_cards(file, &ls_gpu_plugins[p], &f->machine[p]);
}

static void print_library(
    FILE *file, const char *name, const char *version, const char *needed, const char *use, const char *path) {
    fprintf(file, "  %-13s %-11s %-29s %-13s %s\n", name, version[0] ? version : "-", needed[0] ? needed : "any", use,
        path[0] ? path : "not found");
}

static void print_libraries(FILE *file, const ls_gpu_plugin_row *plugin, const ls_gpu_machine *machine) {
    char version[32] = "", title[32];
    if (machine->driver_runs)
        snprintf(version, sizeof version, "%s %d.%d", plugin->title, machine->driver_runs / 1000,
            machine->driver_runs % 1000 / 10);
    snprintf(title, sizeof title, "for %s", plugin->title);
    fprintf(file, "\n%-15s %-11s %-29s %-13s %s\n", title, "found", "needed", "use", "path");
    print_library(file, "driver", machine->driver_release[0] ? machine->driver_release : version,
        machine->driver_needed, "required", machine->driver_path);
    for (int i = 0; i < machine->library_count; i++) {
        const ls_gpu_library *library = &machine->libraries[i];
        print_library(file, library->name, library->version, library->needed, library->use, library->path);
    }
}

// Says which of the plugin's files is taken, and why not the ones for a newer CUDA. A single file's problem is printed
// by print_problems.
static void print_builds(FILE *file, const ls_gpu_plugin_row *plugin, const ls_gpu_machine *machine) {
    if (machine->build_count == 0 || (machine->problem[0] && machine->build_count == 1)) return;
    fprintf(file, "\nplugins for %s\n", plugin->title);
    for (int i = 0; i < machine->build_count; i++) {
        const ls_gpu_build *build = &machine->builds[i];
        const int taken = i == machine->build && !machine->problem[0];
        fprintf(file, "  %d.%-3d %s%s\n", build->runtime / 1000, build->runtime % 1000 / 10,
            build->problem[0] ? build->problem : strrchr(build->path, '/') + 1,
            build->problem[0]     ? ""
            : taken               ? " is taken: the newest that driver, cards and libraries serve"
            : machine->problem[0] ? " cannot be used"
                                  : " is not needed");
    }
}

static void print_problems(FILE *file, const ls_gpu_plugin_row *plugin, const ls_gpu_machine *machine) {
    const char *lines[LS_GPU_LIBRARIES_MAX + 2] = { machine->driver_problem, machine->card_problem };
    int printed = 0;
    for (int i = 0; i < machine->library_count; i++) lines[i + 2] = machine->libraries[i].problem;
    for (int i = 0; i < machine->library_count + 2; i++) {
        if (!lines[i][0]) continue;
        if (printed++ == 0) fprintf(file, "\nto be done before %s can be used\n", plugin->title);
        fprintf(file, "  %s\n", lines[i]);
    }
}

void ls_devices_print(const ls_devices *f, FILE *file) {
    print_devices(file, f);
    for (int p = 0; p < LS_GPU_PLUGIN_COUNT; p++) {
        if (!ls_gpu_plugins[p].vendor->fill) continue;
        print_libraries(file, &ls_gpu_plugins[p], &f->machine[p]);
        print_builds(file, &ls_gpu_plugins[p], &f->machine[p]);
        print_problems(file, &ls_gpu_plugins[p], &f->machine[p]);
    }
    if (f->chosen)
        fprintf(
            file, "\ndevice.type = auto takes %s (%s)%s%s\n", f->chosen, f->info.name, f->why[0] ? ": " : "", f->why);
    else
        fprintf(file, "\ndevice.type = auto takes nothing: %s\n", f->why);
}

// --- for a program -------------------------------------------------------------------------------

static void add_cpu(cJSON *devices, const ls_devices *f) {
    cJSON *device = ls_json_append(devices, cJSON_CreateObject());
    ls_json_add_known(device, "type", "cpu");
    ls_json_add_known(device, "name", f->cpus.model);
    ls_json_add_int(device, "cores", f->cpus.mask_cores);
    ls_json_add_int(device, "threads", f->threads);
    ls_json_add_int(device, "memory_bytes", (int64_t)f->memory_bytes);
    cJSON *features = ls_json_add_array(device, "features");
    for (int i = 0; i < LS_DEVICES_FEATURES_MAX && f->features[i]; i++)
        ls_json_append(features, cJSON_CreateString(f->features[i]));
}

static void add_card(cJSON *devices, const ls_gpu_plugin_row *plugin, const ls_gpu_machine *machine, int index) {
    const ls_gpu_card *card = &machine->cards[index];
    char capability[16];
    snprintf(capability, sizeof capability, "%d.%d", card->capability / 10, card->capability % 10);
    cJSON *device = ls_json_append(devices, cJSON_CreateObject());
    ls_json_add_known(device, "type", plugin->type);
    ls_json_add_int(device, "index", index);
    ls_json_add_known(device, "name", card->name);
    ls_json_add_known(device, "compute_capability", capability);
    ls_json_add_bool(device, "new_enough", card->new_enough);
    ls_json_add_int(device, "memory_bytes", (int64_t)card->memory_bytes);
    ls_json_add_known(device, "driver", machine->driver_release);
    ls_json_add_known(device, "uuid", card->uuid);
    ls_json_add_known(device, "pci", card->pci);
}

static void add_builds(cJSON *tree, const ls_gpu_machine *machine) {
    cJSON *builds = ls_json_add_array(tree, "plugins");
    for (int i = 0; i < machine->build_count; i++) {
        cJSON *build = ls_json_append(builds, cJSON_CreateObject());
        ls_json_add_known(build, "path", machine->builds[i].path);
        ls_json_add_int(build, "runtime", machine->builds[i].runtime);
        ls_json_add_bool(build, "taken", i == machine->build && !machine->problem[0]);
        ls_json_add_known(build, "problem", machine->builds[i].problem);
    }
}

static void add_libraries(cJSON *tree, const ls_gpu_plugin_row *plugin, const ls_gpu_machine *machine) {
    cJSON *driver = ls_json_add_object(tree, "driver");
    ls_json_add_known(driver, "version", machine->driver_release);
    ls_json_add_int(driver, plugin->type, machine->driver_runs);
    ls_json_add_known(driver, "needed", machine->driver_needed);
    ls_json_add_known(driver, "path", machine->driver_path);
    ls_json_add_known(driver, "problem", machine->driver_problem);
    ls_json_add_known(driver, "card_problem", machine->card_problem);
    add_builds(tree, machine);
    cJSON *libraries = ls_json_add_array(tree, "libraries");
    for (int i = 0; i < machine->library_count; i++) {
        const ls_gpu_library *from = &machine->libraries[i];
        cJSON *library = ls_json_append(libraries, cJSON_CreateObject());
        ls_json_add_known(library, "name", from->name);
        ls_json_add_known(library, "version", from->version);
        ls_json_add_known(library, "needed", from->needed);
        ls_json_add_known(library, "use", from->use);
        ls_json_add_known(library, "path", from->path);
        ls_json_add_known(library, "problem", from->problem);
    }
}

void ls_devices_json(const ls_devices *f, cJSON *tree) {
    cJSON *devices = ls_json_add_array(tree, "devices");
    add_cpu(devices, f);
    for (int p = 0; p < LS_GPU_PLUGIN_COUNT; p++) {
        const ls_gpu_plugin_row *plugin = &ls_gpu_plugins[p];
        for (int i = 0; i < f->machine[p].card_count; i++) add_card(devices, plugin, &f->machine[p], i);
        // the first plugin's libraries are members of tree itself, those of other plugins are below the plugin's name
        if (plugin->vendor->fill)
            add_libraries(p == 0 ? tree : ls_json_add_object(tree, plugin->type), plugin, &f->machine[p]);
    }
    cJSON *chosen = ls_json_add_object(tree, "auto");
    ls_json_add_known(chosen, "device", f->chosen ? f->chosen : "");
    ls_json_add_known(chosen, "name", f->info.name);
    ls_json_add_known(chosen, "why_not_cuda", f->why);
}
