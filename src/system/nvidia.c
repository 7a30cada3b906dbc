#include "system/nvidia.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "system/library_search.h"
#include "system/pci.h"
#include "lockstep_cuda_build.h" // the plugin's build configuration, from cmake/cuda.cmake

_Static_assert((int)LS_NVIDIA_LIBRARY_COUNT <= (int)LS_GPU_LIBRARIES_MAX, "a machine has places for all libraries");

typedef struct {
    const char *folders; // NULL: search everywhere
    int whole;
} search;

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

// The oldest driver that supports a CUDA major version (source: CUDA toolkit release notes, minor version
// compatibility).
static const char *driver_for(int cuda_major) {
    static const struct {
        int major;
        const char *release;
    } rows[] = { { 11, "450.80.02" }, { 12, "525.60.13" }, { 13, "580.65.06" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].major == cuda_major) return rows[i].release;
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

enum { CAPABILITY_MIN = 80, ERROR_STUB = 34, ERROR_NO_DEVICE = 100, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76 };

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

static void no_card(const driver_api *api, int error, ls_gpu_machine *machine) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *words = NULL;
    char fix[160] = "check that nvidia-smi lists a card (in a container: start it with --gpus all)";
    if (visible)
        ls_text_cut(fix, sizeof fix, "CUDA_VISIBLE_DEVICES=%.40s hides all cards or names none: unset it", visible);
    if (error == 0 || error == ERROR_NO_DEVICE) {
        ls_text_cut(machine->card_problem, sizeof machine->card_problem,
            "no GPU: the NVIDIA driver%s%s lists 0 cards; this build needs a card of compute capability %d.%d or more; "
            "%s",
            machine->driver_release[0] ? " " : "", machine->driver_release, CAPABILITY_MIN / 10, CAPABILITY_MIN % 10,
            fix);
        return;
    }
    if (api->error_text) (void)api->error_text(error, &words);
    ls_text_cut(machine->driver_problem, sizeof machine->driver_problem,
        "the NVIDIA driver does not start: cuInit says error %d (%.120s); %s", error, words ? words : "unknown",
        init_fix(error));
}

static void look_at_cards(const driver_api *api, ls_gpu_machine *machine) {
    int count = 0, error = api->count(&count), best = -1;
    if (error || count <= 0) {
        no_card(api, error, machine);
        return;
    }
    for (int i = 0; i < count && i < LS_GPU_CARDS_MAX; i++) {
        int device = 0, major = 0, minor = 0;
        unsigned char id[16];
        ls_gpu_card *card = &machine->cards[machine->card_count];
        *card = (ls_gpu_card){ .capability = 0 };
        if (api->get(&device, i) != 0 || api->name(card->name, sizeof card->name, device) != 0 ||
            api->attribute(&major, ATTRIBUTE_MAJOR, device) != 0 ||
            api->attribute(&minor, ATTRIBUTE_MINOR, device) != 0 || api->memory(&card->memory_bytes, device) != 0)
            continue;
        card->capability = major * 10 + minor;
        card->new_enough = card->capability >= CAPABILITY_MIN;
        if (api->uuid && api->uuid(id, device) == 0)
            ls_text_cut(card->uuid, sizeof card->uuid,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2], id[3],
                id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]);
        if (!api->pci || api->pci(card->pci, sizeof card->pci, device) != 0) card->pci[0] = '\0';
        if (best < 0 || card->capability > machine->cards[best].capability) best = machine->card_count;
        machine->card_count++;
    }
    if (best >= 0 && machine->cards[best].new_enough) return;
    ls_text_cut(machine->card_problem, sizeof machine->card_problem,
        "no GPU that is new enough: found %s of compute capability %d.%d; this build needs %d.%d (Ampere) or more; "
        "use another card, or device.type = cpu",
        best >= 0 ? machine->cards[best].name : "none that answers",
        best >= 0 ? machine->cards[best].capability / 10 : 0, best >= 0 ? machine->cards[best].capability % 10 : 0,
        CAPABILITY_MIN / 10, CAPABILITY_MIN % 10);
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

static void find_and_check_driver(const search *where, ls_gpu_machine *machine) {
    ls_library_file file;
    driver_api api;
    const char *needed =
        driver_needed(LS_CUDA_BUILD_RUNTIME / 1000, machine->driver_needed, sizeof machine->driver_needed);
    if (!ls_library_search_open(where->folders, "libcuda.so.1", 1, &file)) {
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
    check_driver_age(LS_CUDA_BUILD_RUNTIME, machine);
    if (error != 0)
        no_card(&api, error, machine);
    else
        look_at_cards(&api, machine);
}

// --- libraries -----------------------------------------------------------------------------------

typedef enum { RETURNS_SIZE, FILLS_INT, FILLS_TEXT } version_call;

// A version function returns its number as a size_t, or fills an int, or (NVML) fills a text. minimum: in the numbering
// `numbers`; 0: any version. The build's major version is used; the other majors are only searched in order to report
// that another version was found.
static const struct {
    const char *name, *use, *stem; // file name: stem.MAJOR
    int major, other_majors[4];
    const char *version_function;
    version_call call;
    numbering numbers;
    int minimum;
} rows[LS_NVIDIA_LIBRARY_COUNT] = {
    [LS_NVIDIA_RUNTIME] = { "CUDA runtime", "required", "libcudart.so", LS_CUDA_BUILD_RUNTIME / 1000,
        { 14, 13, 12, 11 }, "cudaRuntimeGetVersion", FILLS_INT, OF_CUDA, LS_CUDA_BUILD_RUNTIME / 1000 * 1000 },
    [LS_NVIDIA_CUDNN] = { "cuDNN", "required", "libcudnn.so", LS_CUDA_BUILD_CUDNN / 10000, { 10, 9, 8, 7 },
        "cudnnGetVersion", RETURNS_SIZE, OF_LIBRARY, 90800 },
    [LS_NVIDIA_CUBLASLT] = { "cuBLASLt", "required", "libcublasLt.so", LS_CUDA_BUILD_RUNTIME / 1000, { 14, 13, 12, 11 },
        "cublasLtGetVersion", RETURNS_SIZE, OF_LIBRARY, LS_CUDA_BUILD_RUNTIME / 1000 * 10000 },
    [LS_NVIDIA_NCCL] = { "NCCL", "several GPUs", "libnccl.so", 2, { 0 }, "ncclGetVersion", FILLS_INT, OF_LIBRARY,
        21800 },
    [LS_NVIDIA_NVML] = { "NVML", "optional", "libnvidia-ml.so", 1, { 0 }, "nvmlSystemGetNVMLVersion", FILLS_TEXT,
        OF_LIBRARY, 0 },
};

// libcudnn.so.9 contains no functions of its own. The first call of each function opens, by name, the part that
// contains it, and ends the process if the loader does not find that part. These parts are needed by convolutions.
static const char *const cudnn_parts[] = { "libcudnn_graph.so", "libcudnn_heuristic.so",
    "libcudnn_engines_precompiled.so", "libcudnn_engines_runtime_compiled.so" };

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
        if (rows[id].other_majors[i] != rows[id].major && ls_library_search_open(where->folders, soname, 0, file))
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
        if (ls_library_search_open(beside, part, 0, &file)) {
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
static void check_cudnn_cuda(void *handle, ls_gpu_library *out) {
    size_t (*made_for)(void);
    const int major = LS_CUDA_BUILD_RUNTIME / 1000;
    if (!ls_library_search_find(handle, "cudnnGetCudartVersion", &made_for)) return;
    size_t number = made_for();
    if (number == 0 || (int)(number / 1000) == major) return;
    ls_text_cut(out->problem, sizeof out->problem,
        "%s %s is built for another CUDA version: found %.160s for CUDA %d; this build needs one for CUDA %d",
        out->name, out->version, out->path, (int)(number / 1000), major);
}

static void find_library(const search *where, int id, ls_gpu_machine *machine) {
    ls_gpu_library *out = &machine->libraries[id];
    char soname[64];
    ls_library_file file;
    ls_text_cut(soname, sizeof soname, "%s.%d", rows[id].stem, rows[id].major);
    if (!ls_library_search_open(where->folders, soname, id == LS_NVIDIA_NVML, &file)) {
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
    if (number < rows[id].minimum)
        ls_text_cut(out->problem, sizeof out->problem, "%s is too old: found %s, %.200s; this build needs %s",
            out->name, number > 0 ? out->version : "no version", out->path, out->needed);
    else if (id == LS_NVIDIA_CUDNN)
        check_cudnn_cuda(file.handle, out);
    else if (id == LS_NVIDIA_RUNTIME)
        check_driver_age(number, machine);
}

static void find_and_check_library(const search *where, int id, ls_gpu_machine *machine) {
    char advice[LS_GPU_TEXT_BYTES];
    char *problem = machine->libraries[id].problem;
    find_library(where, id, machine);
    const size_t used = strlen(problem);
    if (used > 0)
        ls_text_cut(problem + used, LS_GPU_TEXT_BYTES - used, "; %s", ls_library_search_advice(advice, sizeof advice));
}

// --- all of it -----------------------------------------------------------------------------------

static const search everywhere = { NULL, 1 }, until_a_problem = { NULL, 0 };

static void fill_machine(const search *where, ls_gpu_machine *machine) {
    memset(machine, 0, sizeof *machine);
    machine->library_count = LS_NVIDIA_LIBRARY_COUNT;
    for (int id = 0; id < LS_NVIDIA_LIBRARY_COUNT; id++) {
        ls_gpu_library *library = &machine->libraries[id];
        library->name = rows[id].name;
        library->use = rows[id].use;
        if (rows[id].minimum == 0) continue;
        char version[24];
        version_text(rows[id].numbers, rows[id].minimum, version, sizeof version);
        ls_text_cut(library->needed, sizeof library->needed, "%s or later", version);
    }
    find_and_check_driver(where, machine);
    for (int id = 0; id < LS_NVIDIA_LIBRARY_COUNT; id++) {
        if (!where->whole && (!is_required(id) || ls_nvidia_problem(machine))) continue;
        find_and_check_library(where, id, machine);
    }
}

static void fill_machine_from_everywhere(ls_gpu_machine *machine) {
    fill_machine(&everywhere, machine);
}

void ls_nvidia_look_in(const char *folders, int whole, ls_gpu_machine *machine) {
    fill_machine(&(search){ folders, whole }, machine);
}

const char *ls_nvidia_problem(const ls_gpu_machine *machine) {
    if (machine->driver_problem[0]) return machine->driver_problem;
    if (machine->card_problem[0]) return machine->card_problem;
    for (int id = 0; id < LS_NVIDIA_LIBRARY_COUNT; id++)
        if (is_required(id) && machine->libraries[id].problem[0]) return machine->libraries[id].problem;
    return NULL;
}

static char missing_text[LS_GPU_TEXT_BYTES]; // "": nothing is missing; written once, in look_once

static void look_once(void) {
    ls_gpu_machine *machine = malloc(sizeof *machine);
    const char *problem = "no memory to look for CUDA";
    if (machine) {
        fill_machine(&until_a_problem, machine);
        problem = ls_nvidia_problem(machine);
    }
    ls_text_cut(missing_text, sizeof missing_text, "%s", problem ? problem : "");
    free(machine);
}

static const char *missing(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_once);
    return missing_text[0] ? missing_text : NULL;
}

static int expected(void) {
    ls_library_file file;
    return ls_pci_displays("0x10de") || ls_library_search_open(NULL, "libcuda.so.1", 1, &file) || file.error[0];
}

const ls_gpu_vendor ls_gpu_nvidia = { fill_machine_from_everywhere, missing, expected };
