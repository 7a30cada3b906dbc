#include "system/nvidia.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/text.h"
#include "system/installed.h"
#include "system/library_search.h"
#include "system/pci.h"
#include "system/plugin_build.h"

_Static_assert((int)LS_NVIDIA_LIBRARY_COUNT <= (int)LS_GPU_LIBRARIES_MAX, "a machine has places for all libraries");

typedef struct {
    const char *folders;               // libraries and plugins are searched in these only; NULL: everywhere
    int whole;                         // 1: do not stop at the first problem
    int major;                         // major version of CUDA for which libraries are searched
    char *places;                      // folders in which libraries for `major` are searched, separated by ':'
    char cudnn[LS_LIBRARY_PATH_BYTES]; // the cuDNN that was opened; a process can have only one
} search;

static int is_everywhere(const search *where) {
    return where->folders == NULL;
}

// --- versions ------------------------------------------------------------------------------------
// CUDA's own numbers count thousands: 13000 is 13.0. The libraries' numbers count ten thousands: 91900 is 9.19.0.

typedef enum { OF_CUDA, OF_LIBRARY } numbering;

static void version_text(numbering kind, int number, char *text, size_t bytes) {
    if (kind == OF_CUDA) {
        ls_text_cut(text, bytes, "%d.%d", number / 1000, number % 1000 / 10);
    } else if (number < 10000) { // cuDNN 8, and NCCL before 2.9
        ls_text_cut(text, bytes, "%d.%d.%d", number / 1000, number % 1000 / 100, number % 100);
    } else {
        ls_text_cut(text, bytes, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    }
}

// The major versions of CUDA, the newest first, and the oldest driver that supports each (source: CUDA toolkit release
// notes, minor version compatibility).
static const struct {
    int major;
    const char *driver;
} cudas[] = { { 13, "580.65.06" }, { 12, "525.60.13" } };
enum { CUDAS = sizeof cudas / sizeof *cudas };
_Static_assert((int)CUDAS <= (int)LS_GPU_BUILDS_MAX, "a machine has places for the plugins of all versions");

static const char *driver_for(int cuda_major) {
    for (int i = 0; i < CUDAS; i++)
        if (cudas[i].major == cuda_major) return cudas[i].driver;
    return NULL;
}

// Writes for example "580.65.06 or later (CUDA 13)"; returns text.
static const char *driver_needed(int cuda_major, char *text, size_t bytes) {
    const char *release = driver_for(cuda_major);
    if (release)
        ls_text_cut(text, bytes, "%s or later (CUDA %d)", release, cuda_major);
    else
        ls_text_cut(text, bytes, "for CUDA %d or later", cuda_major);
    return text;
}

// --- driver and cards ----------------------------------------------------------------------------

typedef struct {
    void *handle;
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *count);
    int (*get)(int *device, int index);
    int (*name)(char *name, int bytes, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*memory)(size_t *bytes, int device);
    int (*uuid)(unsigned char uuid[16], int device);
    int (*pci)(char *text, int bytes, int device);
    int (*error_text)(int error, const char **text);
} driver_api;

enum { ERROR_STUB = 34, ERROR_NO_DEVICE = 100, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76 };

// Advice for errors of cuInit that a user can fix (source: cuda.h, enum cudaError_enum).
static const struct {
    int error;
    const char *fix;
} init_fixes[] = {
    { 2, "free memory on the card: nvidia-smi lists the processes that use it" },
    { 46, "another process uses the card exclusively: nvidia-smi -q -d COMPUTE shows the mode" },
    { 802, "wait, or start the service nvidia-fabricmanager" },
    { 803, "the driver was updated while in use: restart the machine" },
    { 804, "take the CUDA compatibility library's folder out of LD_LIBRARY_PATH" },
    { 999, "load the kernel module nvidia_uvm (nvidia-modprobe -u), or restart the machine" },
};

static const char *init_fix(int error) {
    for (size_t i = 0; i < sizeof init_fixes / sizeof *init_fixes; i++)
        if (init_fixes[i].error == error) return init_fixes[i].fix;
    return "check that nvidia-smi works, and restart the machine after an update of the driver";
}

static int driver_open(void *handle, driver_api *api) {
    *api = (driver_api){ .handle = handle };
    int complete = ls_library_search_find(handle, "cuInit", &api->init) &&
                   ls_library_search_find(handle, "cuDriverGetVersion", &api->version) &&
                   ls_library_search_find(handle, "cuDeviceGetCount", &api->count) &&
                   ls_library_search_find(handle, "cuDeviceGet", &api->get) &&
                   ls_library_search_find(handle, "cuDeviceGetName", &api->name) &&
                   ls_library_search_find(handle, "cuDeviceGetAttribute", &api->attribute) &&
                   ls_library_search_find(handle, "cuDeviceTotalMem_v2", &api->memory);
    // version 2 of the function distinguishes the slices of a card
    if (!ls_library_search_find(handle, "cuDeviceGetUuid_v2", &api->uuid))
        ls_library_search_find(handle, "cuDeviceGetUuid", &api->uuid);
    ls_library_search_find(handle, "cuDeviceGetPCIBusId", &api->pci);
    ls_library_search_find(handle, "cuGetErrorString", &api->error_text);
    return complete;
}

// Reads the driver's release, the first word that has only digits and dots:
//   "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul ..."
static void read_release(const char *path, char *release, size_t bytes) {
    char line[512];
    FILE *file = fopen(path, "r");
    if (!file) return;
    if (fgets(line, sizeof line, file)) {
        for (char *rest = line, *word; (word = strsep(&rest, " \t\n"));) {
            if (word[0] < '0' || word[0] > '9' || !strchr(word, '.')) continue;
            if (word[strspn(word, "0123456789.")]) continue;
            ls_text_cut(release, bytes, "%s", word);
            break;
        }
    }
    fclose(file);
}

static void no_card(const driver_api *api, int error, const ls_plugin_build *oldest, ls_gpu_machine *machine) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *words = NULL;
    char fix[160] = "check that nvidia-smi lists a card (in a container: start it with --gpus all)";
    if (visible)
        ls_text_cut(fix, sizeof fix, "CUDA_VISIBLE_DEVICES=%.40s hides all cards or names none: unset it", visible);
    if (error == 0 || error == ERROR_NO_DEVICE) {
        ls_text_cut(machine->card_problem, sizeof machine->card_problem,
            "no GPU: the NVIDIA driver%s%s lists 0 cards; this build needs a card of compute capability %d.%d or more; "
            "%s",
            machine->driver_release[0] ? " " : "", machine->driver_release, oldest->capability / 10,
            oldest->capability % 10, fix);
        return;
    }
    if (api->error_text) (void)api->error_text(error, &words);
    ls_text_cut(machine->driver_problem, sizeof machine->driver_problem,
        "the NVIDIA driver does not start: cuInit says error %d (%.120s); %s", error, words ? words : "unknown",
        init_fix(error));
}

static int read_card(const driver_api *api, int index, ls_gpu_card *card) {
    int device = 0, major = 0, minor = 0;
    unsigned char id[16];
    *card = (ls_gpu_card){ .capability = 0 };
    if (api->get(&device, index) != 0 || api->name(card->name, sizeof card->name, device) != 0 ||
        api->attribute(&major, ATTRIBUTE_MAJOR, device) != 0 || api->attribute(&minor, ATTRIBUTE_MINOR, device) != 0 ||
        api->memory(&card->memory_bytes, device) != 0)
        return 0;
    card->capability = major * 10 + minor;
    if (api->uuid && api->uuid(id, device) == 0)
        ls_text_cut(card->uuid, sizeof card->uuid,
            "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2], id[3],
            id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]);
    if (!api->pci || api->pci(card->pci, sizeof card->pci, device) != 0) card->pci[0] = '\0';
    return 1;
}

static void read_cards(const driver_api *api, const ls_plugin_build *oldest, ls_gpu_machine *machine) {
    int count = 0, error = api->count(&count);
    if (error || count <= 0) no_card(api, error, oldest, machine);
    for (int i = 0; i < count && i < LS_GPU_CARDS_MAX; i++)
        machine->card_count += read_card(api, i, &machine->cards[machine->card_count]);
}

// Notes a problem if no card is new enough for a build.
static void check_cards(const ls_plugin_build *build, ls_gpu_machine *machine) {
    const ls_gpu_card none = { .name = "none that answers" }, *best = &none;
    for (int i = 0; i < machine->card_count; i++) {
        ls_gpu_card *card = &machine->cards[i];
        card->new_enough = card->capability >= build->capability;
        if (card->capability > best->capability) best = card;
    }
    if (best->new_enough) return;
    ls_text_cut(machine->card_problem, sizeof machine->card_problem,
        "no GPU that is new enough: found %s of compute capability %d.%d; this build needs %d.%d or more; use another "
        "card, or device.type = cpu",
        best->name, best->capability / 10, best->capability % 10, build->capability / 10, build->capability % 10);
}

// Notes a problem if the driver is older than the major version of the CUDA runtime. Within a major version, every
// driver supports every runtime.
static void check_driver_age(int runtime_cuda, ls_gpu_machine *machine) {
    char needed[64];
    if (machine->driver_runs <= 0 || machine->driver_runs >= runtime_cuda / 1000 * 1000 || machine->driver_problem[0])
        return;
    ls_text_cut(machine->driver_problem, sizeof machine->driver_problem,
        "the NVIDIA driver is too old: found %s%sCUDA %d.%d%s; this build needs %s; install a newer driver",
        machine->driver_release, machine->driver_release[0] ? " (" : "", machine->driver_runs / 1000,
        machine->driver_runs % 1000 / 10, machine->driver_release[0] ? ")" : "",
        driver_needed(runtime_cuda / 1000, needed, sizeof needed));
}

// Opens the driver and reads its cards. Notes a problem that stands in the way of every build.
static void find_driver(const search *where, const ls_plugin_build *oldest, ls_gpu_machine *machine) {
    ls_library_file file;
    driver_api api;
    const char *needed = driver_needed(oldest->runtime / 1000, machine->driver_needed, sizeof machine->driver_needed);
    const char *folders = is_everywhere(where) ? getenv("LD_LIBRARY_PATH") : where->folders;
    if (!ls_library_search_open(folders, is_everywhere(where), "libcuda.so.1", &file)) {
        if (file.error[0])
            ls_text_cut(machine->driver_problem, sizeof machine->driver_problem,
                "the NVIDIA driver's library cannot be loaded: %.200s; this build needs driver %s; install it again",
                file.error, needed);
        else
            ls_text_cut(machine->driver_problem, sizeof machine->driver_problem,
                "no NVIDIA driver: libcuda.so.1 not found; this build needs driver %s; install it (in a container: "
                "start it with --gpus all)",
                needed);
        return;
    }
    ls_text_cut(machine->driver_path, sizeof machine->driver_path, "%s", file.path);
    read_release("/proc/driver/nvidia/version", machine->driver_release, sizeof machine->driver_release);
    if (!driver_open(file.handle, &api)) {
        ls_text_cut(machine->driver_problem, sizeof machine->driver_problem,
            "%.200s: found, but it lacks functions of an NVIDIA driver; this build needs driver %s; install it again",
            file.path, needed);
        return;
    }
    int error = api.init(0);
    if (error == ERROR_STUB) {
        ls_text_cut(machine->driver_problem, sizeof machine->driver_problem,
            "no NVIDIA driver: found the CUDA toolkit's stub, %.200s; this build needs driver %s; take the stub's "
            "folder out of LD_LIBRARY_PATH, or install the driver",
            file.path, needed);
        return;
    }
    if (api.version(&machine->driver_runs) != 0) machine->driver_runs = 0;
    check_driver_age(oldest->runtime, machine);
    if (error != 0)
        no_card(&api, error, oldest, machine);
    else
        read_cards(&api, oldest, machine);
}

// --- libraries -----------------------------------------------------------------------------------

typedef enum { RETURNS_SIZE, FILLS_INT, FILLS_TEXT } version_call;

// A version function returns its number as a size_t, or fills an int, or (NVML) fills a text. minimum: in the numbering
// `numbers`; 0: any version. major 0: the library is CUDA's, its major version is CUDA's, and its minimum is that major
// version times `minimum`. The other majors are only searched in order to report that another version was found.
static const struct {
    const char *name, *use, *stem; // file name: stem.MAJOR
    int major, other_majors[4];
    const char *version_function;
    version_call call;
    numbering numbers;
    int minimum;
} rows[LS_NVIDIA_LIBRARY_COUNT] = {
    [LS_NVIDIA_RUNTIME] = { "CUDA runtime", "required", "libcudart.so", 0, { 14, 13, 12, 11 }, "cudaRuntimeGetVersion",
        FILLS_INT, OF_CUDA, 1000 },
    [LS_NVIDIA_CUDNN] = { "cuDNN", "required", "libcudnn.so", 9, { 10, 9, 8, 7 }, "cudnnGetVersion", RETURNS_SIZE,
        OF_LIBRARY, 90800 },
    [LS_NVIDIA_CUBLASLT] = { "cuBLASLt", "required", "libcublasLt.so", 0, { 14, 13, 12, 11 }, "cublasLtGetVersion",
        RETURNS_SIZE, OF_LIBRARY, 10000 },
    [LS_NVIDIA_NCCL] = { "NCCL", "several GPUs", "libnccl.so", 2, { 0 }, "ncclGetVersion", FILLS_INT, OF_LIBRARY,
        21800 },
    [LS_NVIDIA_NVML] = { "NVML", "optional", "libnvidia-ml.so", 1, { 0 }, "nvmlSystemGetNVMLVersion", FILLS_TEXT,
        OF_LIBRARY, 0 },
};

// libcudnn.so.9 contains no functions of its own. The first call of each function opens, by name, the part that
// contains it, and ends the process if the loader does not find that part. These parts are needed by convolutions.
static const char *const cudnn_parts[] = { "libcudnn_graph.so", "libcudnn_heuristic.so",
    "libcudnn_engines_precompiled.so", "libcudnn_engines_runtime_compiled.so" };

static int major_of(const search *where, int id) {
    return rows[id].major ? rows[id].major : where->major;
}

static int minimum_of(const search *where, int id) {
    return rows[id].major ? rows[id].minimum : rows[id].minimum * where->major;
}

static int is_required(int id) {
    return strcmp(rows[id].use, "required") == 0;
}

static void nvml_versions(void *handle, ls_gpu_library *library, ls_gpu_machine *machine) {
    int (*init)(void), (*shutdown)(void), (*text)(char *, unsigned);
    if (!ls_library_search_find(handle, "nvmlInit_v2", &init) ||
        !ls_library_search_find(handle, "nvmlShutdown", &shutdown) || init() != 0)
        return;
    if (ls_library_search_find(handle, "nvmlSystemGetNVMLVersion", &text) &&
        text(library->version, sizeof library->version) != 0)
        library->version[0] = '\0';
    char *release = machine->driver_release;
    if (!release[0] && ls_library_search_find(handle, "nvmlSystemGetDriverVersion", &text) &&
        text(release, sizeof machine->driver_release) != 0)
        release[0] = '\0';
    shutdown();
}

// Returns the library's version number, or 0 if it is unknown.
static int version_number(int id, void *handle) {
    int (*fill)(int *number), number = 0;
    size_t (*give)(void);
    if (rows[id].call == RETURNS_SIZE && ls_library_search_find(handle, rows[id].version_function, &give))
        return (int)give();
    if (rows[id].call == FILLS_INT && ls_library_search_find(handle, rows[id].version_function, &fill) &&
        fill(&number) == 0)
        return number;
    return 0;
}

// Searches for a missing library with another major version, for the message. None of its functions is called, because
// its requirements are unknown.
static int find_other_major(const search *where, int id, ls_library_file *file) {
    for (int i = 0; i < 4 && rows[id].other_majors[i]; i++) {
        char soname[64];
        ls_text_cut(soname, sizeof soname, "%s.%d", rows[id].stem, rows[id].other_majors[i]);
        if (rows[id].other_majors[i] != major_of(where, id) &&
            ls_library_search_open(where->places, is_everywhere(where), soname, file))
            return 1;
    }
    return 0;
}

static void describe_missing(const search *where, int id, const char *soname, const char *error, ls_gpu_library *out) {
    ls_library_file other;
    if (id == LS_NVIDIA_NVML) return; // NVML comes with the driver, and nothing depends on it
    if (error[0])
        ls_text_cut(out->problem, sizeof out->problem, "%s cannot be loaded: %.200s; this build needs %s", out->name,
            error, out->needed);
    else if (find_other_major(where, id, &other))
        ls_text_cut(out->problem, sizeof out->problem,
            "%s has the wrong major version: found %.160s; this build needs %s (%s)", out->name, other.path,
            out->needed, soname);
    else
        ls_text_cut(out->problem, sizeof out->problem, "%s is missing: %s not found; this build needs %s", out->name,
            soname, out->needed);
}

static int folder_bytes(const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? (int)(slash - path) : 0;
}

// Gets "9.19.0" from ".../libcudnn_graph.so.9.19.0", with links followed; "" if the file name has only the major
// version.
static void full_version(const char *path, char version[32]) {
    char *real = realpath(path, NULL);
    const char *at = real ? strstr(real, ".so.") : NULL;
    ls_text_cut(version, 32, "%s", at && strchr(at + 4, '.') ? at + 4 : "");
    free(real);
}

// Notes a problem and returns 1 if a part of cuDNN has another version than cuDNN itself: an update replaced only some
// of its files.
static int is_of_two_versions(const char *part, ls_gpu_library *out) {
    char version[32], other[32];
    full_version(out->path, version);
    full_version(part, other);
    if (!version[0] || !other[0] || strcmp(version, other) == 0) return 0;
    ls_text_cut(out->problem, sizeof out->problem,
        "cuDNN's files are of two versions: found %.120s (%s) beside %.120s (%s); install one complete version",
        out->path, version, part, other);
    return 1;
}

// Opens cuDNN's parts, which are next to it or next to the file that it links to. Returns 1 if all are found. Once a
// part is open, the loader finds it by name for any caller. This is needed because a sanitizer's dlopen does not look
// next to the calling library.
static int open_cudnn_parts(ls_gpu_library *out) {
    char beside[LS_LIBRARY_PATH_BYTES + PATH_MAX];
    char *target = realpath(out->path, NULL);
    ls_text_cut(beside, sizeof beside, "%.*s:%.*s", folder_bytes(out->path), out->path, folder_bytes(target),
        target ? target : "");
    free(target);
    for (size_t i = 0; i < sizeof cudnn_parts / sizeof *cudnn_parts; i++) {
        char part[64];
        ls_library_file file;
        ls_text_cut(part, sizeof part, "%s.%d", cudnn_parts[i], rows[LS_NVIDIA_CUDNN].major);
        if (ls_library_search_open(beside, 0, part, &file)) {
            if (is_of_two_versions(file.path, out)) return 0;
            continue;
        }
        if (file.error[0])
            ls_text_cut(out->problem, sizeof out->problem,
                "a part of cuDNN cannot be loaded: %.200s; this build needs %s", file.error, out->needed);
        else
            ls_text_cut(out->problem, sizeof out->problem,
                "cuDNN is incomplete: found %.160s without %s; this build needs %s", out->path, part, out->needed);
        return 0;
    }
    return 1;
}

// Notes a problem if cuDNN was made for another major version of CUDA. Its file name does not say for which, so cuDNN
// is asked.
static void check_cudnn_cuda(const search *where, void *handle, ls_gpu_library *out) {
    size_t (*made_for)(void);
    const int major = where->major;
    if (!ls_library_search_find(handle, "cudnnGetCudartVersion", &made_for)) return;
    size_t number = made_for();
    if (number == 0 || (int)(number / 1000) == major) return;
    ls_text_cut(out->problem, sizeof out->problem,
        "%s %s is built for another CUDA version: found %.160s for CUDA %d; this build needs one for CUDA %d",
        out->name, out->version, out->path, (int)(number / 1000), major);
}

static int has_file(const char *folder, int length, const char *stem, int major) {
    char path[LS_LIBRARY_PATH_BYTES];
    ls_text_cut(path, sizeof path, "%.*s/%s.%d", length, folder, stem, major);
    return access(path, F_OK) == 0;
}

// Whether the folder holds a toolkit of other versions of CUDA only. cuDNN's file name does not say for which CUDA it
// is, and a process can have one cuDNN, so this is asked before cuDNN is opened.
static int is_of_other_cuda(const search *where, const char *folder, int length) {
    int others = 0;
    for (int i = 0; i < 4; i++)
        others |= has_file(folder, length, rows[LS_NVIDIA_CUBLASLT].stem, rows[LS_NVIDIA_CUBLASLT].other_majors[i]);
    return others && !has_file(folder, length, rows[LS_NVIDIA_CUBLASLT].stem, where->major);
}

static int open_cudnn(search *where, const char *soname, ls_library_file *file) {
    if (where->cudnn[0]) return ls_library_search_open(NULL, 1, where->cudnn, file);
    char *places = ls_new_text(where->places), *to = places;
    for (const char *from = where->places; *from;) {
        const int length = (int)strcspn(from, ":"), step = length + (from[length] == ':');
        if (!is_of_other_cuda(where, from, length)) to = (char *)memcpy(to, from, (size_t)step) + step;
        from += step;
    }
    *to = 0;
    const int found = ls_library_search_open(places, is_everywhere(where), soname, file) ||
                      ls_library_search_open(where->places, 0, soname, file);
    free(places);
    if (found) ls_text_cut(where->cudnn, sizeof where->cudnn, "%s", file->path);
    return found;
}

static int open_library(search *where, int id, const char *soname, ls_library_file *file) {
    if (id == LS_NVIDIA_CUDNN) return open_cudnn(where, soname, file);
    const int of_driver = id == LS_NVIDIA_NVML && is_everywhere(where);
    return ls_library_search_open(
        of_driver ? getenv("LD_LIBRARY_PATH") : where->places, is_everywhere(where), soname, file);
}

static void find_library(search *where, int id, ls_gpu_machine *machine) {
    ls_gpu_library *out = &machine->libraries[id];
    char soname[64];
    ls_library_file file;
    ls_text_cut(soname, sizeof soname, "%s.%d", rows[id].stem, major_of(where, id));
    if (!open_library(where, id, soname, &file)) {
        describe_missing(where, id, soname, file.error, out);
        return;
    }
    ls_text_cut(out->path, sizeof out->path, "%s", file.path);
    if (rows[id].call == FILLS_TEXT) {
        nvml_versions(file.handle, out, machine);
        return;
    }
    if (id == LS_NVIDIA_CUDNN && !open_cudnn_parts(out)) return;
    int number = version_number(id, file.handle);
    if (number > 0) version_text(rows[id].numbers, number, out->version, sizeof out->version);
    if (number < minimum_of(where, id))
        ls_text_cut(out->problem, sizeof out->problem, "%s is too old: found %s, %.200s; this build needs %s",
            out->name, number > 0 ? out->version : "no version", out->path, out->needed);
    else if (id == LS_NVIDIA_CUDNN)
        check_cudnn_cuda(where, file.handle, out);
    else if (id == LS_NVIDIA_RUNTIME)
        check_driver_age(number, machine);
}

static void find_and_check_library(search *where, int id, ls_gpu_machine *machine) {
    char advice[LS_GPU_TEXT_BYTES];
    char *problem = machine->libraries[id].problem;
    find_library(where, id, machine);
    const size_t used = strlen(problem);
    if (used > 0)
        ls_text_cut(problem + used, LS_GPU_TEXT_BYTES - used, "; %s",
            ls_library_search_advice(where->major, advice, sizeof advice));
}

// --- the plugin's builds -------------------------------------------------------------------------

// Finds the builds of the plugin in `folders`, the newest CUDA first.
static void find_builds(const char *folders, ls_gpu_machine *machine) {
    for (int i = 0; i < CUDAS; i++) {
        for (const char *folder = folders; *folder;) {
            const int length = (int)strcspn(folder, ":");
            ls_gpu_build *build = &machine->builds[machine->build_count];
            ls_text_cut(build->path, sizeof build->path, "%.*s/lockstep_cuda%d.so", length, folder, cudas[i].major);
            if (access(build->path, F_OK) == 0) {
                ls_plugin_build facts;
                const int known = ls_plugin_build_read(build->path, &facts);
                build->runtime = known ? facts.runtime : cudas[i].major * 1000;
                machine->build_count++;
                break;
            }
            folder += length + (folder[length] == ':');
        }
    }
}

// Reads the facts about a build. If its file has no facts, only `runtime` is set; without a build, to the newest CUDA.
static ls_plugin_build facts_of(const ls_gpu_machine *machine, int index) {
    ls_plugin_build facts;
    if (index >= 0 && index < machine->build_count && ls_plugin_build_read(machine->builds[index].path, &facts))
        return facts;
    return (
        ls_plugin_build){ .runtime = machine->build_count ? machine->builds[index].runtime : cudas[0].major * 1000 };
}

static const char *first_problem(const ls_gpu_machine *machine) {
    if (machine->driver_problem[0]) return machine->driver_problem;
    if (machine->card_problem[0]) return machine->card_problem;
    for (int id = 0; id < LS_NVIDIA_LIBRARY_COUNT; id++)
        if (is_required(id) && machine->libraries[id].problem[0]) return machine->libraries[id].problem;
    return "";
}

static void forget_libraries(const search *where, ls_gpu_machine *machine) {
    for (int id = 0; id < LS_NVIDIA_LIBRARY_COUNT; id++) {
        ls_gpu_library *library = &machine->libraries[id];
        *library = (ls_gpu_library){ .name = rows[id].name, .use = rows[id].use };
        if (rows[id].minimum == 0) continue;
        char version[24];
        version_text(rows[id].numbers, minimum_of(where, id), version, sizeof version);
        ls_text_cut(library->needed, sizeof library->needed, "%s or later", version);
    }
}

// Looks for the libraries of a build: all, or the required ones until the first problem. Returns the number of required
// ones before the first problem.
static int find_libraries(search *where, const ls_plugin_build *facts, int all, ls_gpu_machine *machine) {
    int fitting = 0;
    where->major = facts->runtime / 1000;
    where->places =
        where->folders ? ls_new_text(where->folders) : ls_library_search_folders(where->major, facts->folders);
    forget_libraries(where, machine);
    for (int id = 0; id < LS_NVIDIA_LIBRARY_COUNT; id++) {
        const int well = !first_problem(machine)[0];
        if (!all && (!is_required(id) || !well)) continue;
        find_and_check_library(where, id, machine);
        fitting += is_required(id) && !first_problem(machine)[0];
    }
    free(where->places);
    return fitting;
}

// Describes the machine for one build. Returns the number of its needs that are met before the first problem.
static int try_build(search *where, int index, int all, ls_gpu_machine *machine) {
    const ls_plugin_build facts = facts_of(machine, index);
    machine->build = index;
    machine->driver_problem[0] = machine->card_problem[0] = 0;
    driver_needed(facts.runtime / 1000, machine->driver_needed, sizeof machine->driver_needed);
    check_driver_age(facts.runtime, machine);
    int met = !machine->driver_problem[0];
    check_cards(&facts, machine);
    met += met && !machine->card_problem[0];
    met += find_libraries(where, &facts, all, machine);
    const char *slash = strrchr(machine->builds[index].path, '/'), *problem = first_problem(machine);
    if (machine->build_count > 1 && problem[0])
        ls_text_cut(machine->builds[index].problem, LS_GPU_TEXT_BYTES, "%s: %.440s", slash + 1, problem);
    else
        ls_text_cut(machine->builds[index].problem, LS_GPU_TEXT_BYTES, "%s", problem);
    return met;
}

// Chooses the newest build that this machine can use, or else the build that lacks least.
static void choose_build(search *where, ls_gpu_machine *machine) {
    int best = 0, most = -1;
    for (int i = 0; i < machine->build_count; i++) {
        const int met = try_build(where, i, 0, machine);
        if (met > most) best = i;
        if (met > most) most = met;
        if (!machine->builds[i].problem[0]) break;
    }
    if (where->whole || machine->build != best) try_build(where, best, where->whole, machine);
    ls_text_cut(machine->problem, sizeof machine->problem, "%s", machine->builds[best].problem);
}

static void fill_machine(search *where, ls_gpu_machine *machine) {
    char folder[LS_LIBRARY_PATH_BYTES] = "";
    memset(machine, 0, sizeof *machine);
    machine->library_count = LS_NVIDIA_LIBRARY_COUNT;
    if (!where->folders && ls_failed(ls_program_folder(folder, sizeof folder))) folder[0] = 0;
    find_builds(where->folders ? where->folders : folder, machine);
    const ls_plugin_build oldest = facts_of(machine, machine->build_count - 1), newest = facts_of(machine, 0);
    find_driver(where, &oldest, machine);
    if (machine->build_count && !first_problem(machine)[0]) {
        choose_build(where, machine);
        return;
    }
    if (machine->card_count > 0) check_cards(&newest, machine);
    find_libraries(where, &newest, where->whole, machine);
    ls_text_cut(machine->problem, sizeof machine->problem, "%s", first_problem(machine));
}

static void fill_machine_from_everywhere(ls_gpu_machine *machine) {
    fill_machine(&(search){ .whole = 1 }, machine);
}

void ls_nvidia_look_in(const char *folders, int whole, ls_gpu_machine *machine) {
    fill_machine(&(search){ .folders = folders, .whole = whole }, machine);
}

// Written once, in look_once. missing_text "": nothing is missing. missing_file "": no plugin is there.
static char missing_text[LS_GPU_TEXT_BYTES], missing_file[LS_LIBRARY_PATH_BYTES];

static void look_once(void) {
    ls_gpu_machine *machine = malloc(sizeof *machine);
    if (machine) {
        fill_machine(&(search){ .whole = 0 }, machine);
        if (machine->build_count) strcpy(missing_file, machine->builds[machine->build].path);
    }
    ls_text_cut(missing_text, sizeof missing_text, "%s", machine ? machine->problem : "no memory to look for CUDA");
    free(machine);
}

static const char *missing(const char **file) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_once);
    if (file) *file = missing_file[0] ? missing_file : NULL;
    return missing_text[0] ? missing_text : NULL;
}

static int expected(void) {
    ls_library_file file;
    return ls_pci_displays("0x10de") || ls_library_search_open(getenv("LD_LIBRARY_PATH"), 1, "libcuda.so.1", &file) ||
           file.error[0];
}

const ls_gpu_vendor ls_gpu_nvidia = { fill_machine_from_everywhere, missing, expected };
