// What is said about a machine's driver, cards and libraries, right and wrong, by fake ones (support/fake_cuda.c).
#include "system/nvidia.h"
#include "support/cmocka.h"
#include "support/temp.h"

enum {
    DRIVER = 1,
    RUNTIME = 2,
    CUDNN = 4,
    CUBLASLT = 8,
    NCCL = 16,
    NVML = 32,
    GRAPH = 64, // parts of cuDNN
    HEURISTIC = 128,
    ENGINES = 256,
    COMPILED_ENGINES = 512,
    PLUGIN_13 = 1024,
    PLUGIN_12 = 2048,
    LIBRARIES = RUNTIME | CUDNN | CUBLASLT | NCCL | GRAPH | HEURISTIC | ENGINES | COMPILED_ENGINES,
    ALL = LIBRARIES | DRIVER | NVML | PLUGIN_13,
    FILES = 12,
    VALUES_MAX = 4,
    TEXTS_MAX = 5
};

// Numbers are for the CUDA version that this program is built for, `major`:
// "%d" stands for it, "%p" for the one before.
typedef struct {
    const char *name;
    int files;                      // fakes that are there
    const char *also;               // one more, by this name
    const char *damaged;            // this one is no library
    const char *values[VALUES_MAX]; // of the environment, "NAME=VALUE"
    const char *texts[TEXTS_MAX];   // all in the one line, in order; none: nothing is missing
} machine_case;

static const machine_case cases[] = {
    { "everything right", ALL, NULL, NULL, { NULL }, { NULL } },
    { "without NCCL and NVML", ALL & ~(NCCL | NVML), NULL, NULL, { NULL }, { NULL } },
    { "NCCL too old", ALL, NULL, NULL, { "FAKE_NCCL=2404" }, { NULL } },
    { "a newer driver", ALL, NULL, NULL, { "FAKE_DRIVER=99020" }, { NULL } },
    { "the oldest card", ALL, NULL, NULL, { "FAKE_CAPABILITY=75" }, { NULL } },
    { "no driver", ALL & ~DRIVER, NULL, NULL, { NULL },
        { "no NVIDIA driver", "libcuda.so.1 not found", "this build needs driver", "(CUDA %d)", "install it" } },
    { "nothing at all", 0, NULL, NULL, { NULL }, { "no NVIDIA driver", "this build needs driver", "install it" } },
    { "a damaged driver", ALL, NULL, "libcuda.so.1", { NULL },
        { "driver's library cannot be loaded", "libcuda.so.1", "this build needs driver", "install it again" } },
    { "the toolkit's stub", ALL, NULL, NULL, { "FAKE_INIT=34" },
        { "no NVIDIA driver", "found the CUDA toolkit's stub", "libcuda.so.1", "this build needs driver",
            "take the stub's folder out of LD_LIBRARY_PATH" } },
    { "the driver does not start", ALL, NULL, NULL, { "FAKE_INIT=803" },
        { "the NVIDIA driver does not start", "error 803 (fake words)", "restart" } },
    { "no card", ALL, NULL, NULL, { "FAKE_INIT=100" },
        { "no GPU", "lists 0 cards", "this build needs a card of compute capability 7.5 or more", "nvidia-smi" } },
    { "no card is counted", ALL, NULL, NULL, { "FAKE_CARDS=0" },
        { "no GPU", "lists 0 cards", "this build needs a card of compute capability 7.5 or more", "nvidia-smi" } },
    { "all cards hidden", ALL, NULL, NULL, { "FAKE_CARDS=0", "CUDA_VISIBLE_DEVICES=" },
        { "no GPU", "lists 0 cards", "this build needs",
            "CUDA_VISIBLE_DEVICES= hides all cards or names none: unset it" } },
    { "a card too old", ALL, NULL, NULL, { "FAKE_CAPABILITY=70" },
        { "no GPU that is new enough", "found Fake GPU 0 of compute capability 7.0", "this build needs 7.5 or more",
            "use another card, or device.type = cpu" } },
    { "a driver too old", ALL, NULL, NULL, { "FAKE_DRIVER=%p020" },
        { "driver is too old", "found", "CUDA %p.2", "this build needs", "install a newer driver" } },
    { "a driver too old and no card", ALL, NULL, NULL, { "FAKE_DRIVER=%p020", "FAKE_INIT=100" },
        { "driver is too old", "CUDA %p.2", "this build needs" } },
    { "no CUDA runtime", ALL & ~RUNTIME, NULL, NULL, { NULL },
        { "CUDA runtime is missing", "libcudart.so.%d not found", "this build needs %d.0 or later", "fetch-cuda.sh" } },
    { "CUDA runtime of another major version", ALL & ~RUNTIME, "libcudart.so.%p", NULL, { NULL },
        { "CUDA runtime has the wrong major version", "found", "/libcudart.so.%p",
            "this build needs %d.0 or later (libcudart.so.%d)", "fetch-cuda.sh" } },
    { "no cuDNN", ALL & ~CUDNN, NULL, NULL, { NULL },
        { "cuDNN is missing", "libcudnn.so.9 not found", "this build needs 9.8.0 or later", "fetch-cuda.sh",
            "LD_LIBRARY_PATH" } },
    { "cuDNN too old", ALL, NULL, NULL, { "FAKE_CUDNN=90101" },
        { "cuDNN is too old", "found 9.1.1", "libcudnn.so.9", "this build needs 9.8.0 or later", "fetch-cuda.sh" } },
    { "cuDNN of another major version", ALL & ~CUDNN, "libcudnn.so.8", NULL, { NULL },
        { "cuDNN has the wrong major version", "found", "/libcudnn.so.8",
            "this build needs 9.8.0 or later (libcudnn.so.9)", "fetch-cuda.sh" } },
    { "cuDNN for another CUDA", ALL, NULL, NULL, { "FAKE_CUDNN_CUDA=%p080" },
        { "cuDNN 9.19.0 is built for another CUDA version", "libcudnn.so.9 for CUDA %p",
            "this build needs one for CUDA %d", "fetch-cuda.sh" } },
    { "a damaged cuDNN", ALL, NULL, "libcudnn.so.9", { NULL },
        { "cuDNN cannot be loaded", "libcudnn.so.9", "this build needs 9.8.0 or later", "fetch-cuda.sh" } },
    { "cuDNN without a part", ALL & ~GRAPH, NULL, NULL, { NULL },
        { "cuDNN is incomplete: found", "/libcudnn.so.9 without libcudnn_graph.so.9", "this build needs 9.8.0 or later",
            "fetch-cuda.sh", "LD_LIBRARY_PATH" } },
    { "cuDNN without any part", ALL & ~(GRAPH | HEURISTIC | ENGINES | COMPILED_ENGINES), NULL, NULL, { NULL },
        { "cuDNN is incomplete: found", "/libcudnn.so.9 without libcudnn_graph.so.9" } },
    { "cuDNN without its heuristics", ALL & ~HEURISTIC, NULL, NULL, { NULL },
        { "cuDNN is incomplete: found", "/libcudnn.so.9 without libcudnn_heuristic.so.9" } },
    { "cuDNN without its engines", ALL & ~ENGINES, NULL, NULL, { NULL },
        { "cuDNN is incomplete: found", "/libcudnn.so.9 without libcudnn_engines_precompiled.so.9" } },
    { "cuDNN without what compiles engines", ALL & ~COMPILED_ENGINES, NULL, NULL, { NULL },
        { "cuDNN is incomplete: found", "/libcudnn.so.9 without libcudnn_engines_runtime_compiled.so.9" } },
    { "a damaged part of cuDNN", ALL, NULL, "libcudnn_graph.so.9", { NULL },
        { "a part of cuDNN cannot be loaded", "libcudnn_graph.so.9", "this build needs 9.8.0 or later",
            "fetch-cuda.sh" } },
    { "no cuBLASLt", ALL & ~CUBLASLT, NULL, NULL, { NULL },
        { "cuBLASLt is missing", "libcublasLt.so.%d not found", "this build needs %d.0.0 or later", "fetch-cuda.sh" } },
    { "cuBLASLt without a version", ALL, NULL, NULL, { "FAKE_CUBLASLT=0" },
        { "cuBLASLt is too old", "found no version", "libcublasLt.so.%d", "this build needs %d.0.0 or later" } },
};

static int major; // of CUDA, as this program wants it

// "%d" and "%p" in a text; valid until the fourth next call.
static const char *expand(const char *text) {
    static char texts[4][256];
    static int next;
    char *to = texts[next++ % 4];
    size_t used = 0;
    for (; *text; text++) {
        if (text[0] == '%')
            used += (size_t)snprintf(to + used, sizeof texts[0] - used, "%d", *++text == 'd' ? major : major - 1);
        else
            to[used++] = *text;
    }
    to[used] = '\0';
    return to;
}

static void put(const temp_folder *folder, const char *name, const char *bytes, size_t count) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, expand(name));
    assert_int_equal(ls_write_file(path, bytes, count).code, LS_OK);
}

static void set_values(const char *const *values, int on) {
    for (int i = 0; i < VALUES_MAX && values[i]; i++) {
        char pair[128];
        snprintf(pair, sizeof pair, "%s", expand(values[i]));
        char *equals = strchr(pair, '=');
        *equals = '\0';
        assert_int_equal(on ? setenv(pair, equals + 1, 1) : unsetenv(pair), 0);
    }
}

typedef struct {
    char *bytes;
    size_t count;
} content;

typedef struct {
    content library, part, plugin_12, plugin_13;
} fake_files;

static const content *content_of(const fake_files *fake, int file) {
    return file == PLUGIN_12   ? &fake->plugin_12
           : file == PLUGIN_13 ? &fake->plugin_13
           : file >= GRAPH     ? &fake->part
                               : &fake->library;
}

// Puts the chosen files into the folder, with the names that they have for a major version of CUDA.
static void put_all(const temp_folder *folder, const char *below, const fake_files *fake, int files, int cuda) {
    static const char *const names[FILES] = { "libcuda.so.1", "libcudart.so.*", "libcudnn.so.9", "libcublasLt.so.*",
        "libnccl.so.2", "libnvidia-ml.so.1", "libcudnn_graph.so.9", "libcudnn_heuristic.so.9",
        "libcudnn_engines_precompiled.so.9", "libcudnn_engines_runtime_compiled.so.9", "lockstep_cuda13.so",
        "lockstep_cuda12.so" };
    for (int i = 0; i < FILES; i++) {
        char name[128];
        const int length = (int)strcspn(names[i], "*");
        if (!(files >> i & 1)) continue;
        snprintf(name, sizeof name, "%s%.*s", below, length, names[i]);
        if (names[i][length]) snprintf(name + strlen(name), 8, "%d", cuda);
        put(folder, name, content_of(fake, 1 << i)->bytes, content_of(fake, 1 << i)->count);
    }
}

static void look(const fake_files *fake, const machine_case *row, int whole, ls_gpu_machine *machine) {
    temp_folder folder = temp_folder_new(); // a new one a row: the loader never opens a path twice
    put_all(&folder, "", fake, row->files, major);
    if (row->also) put(&folder, row->also, fake->library.bytes, fake->library.count);
    if (row->damaged) put(&folder, row->damaged, "no library", 10);
    set_values(row->values, 1);
    ls_nvidia_look_in(folder.path, whole, machine);
    set_values(row->values, 0);
    temp_folder_remove(&folder);
}

static void messages(void **state) {
    const fake_files *fake = *state;
    ls_gpu_machine *machine = malloc(sizeof *machine);
    assert_non_null(machine);
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++) {
        for (int whole = 0; whole < 2; whole++) {
            look(fake, &cases[row], whole, machine);
            const char *problem = machine->problem[0] ? machine->problem : NULL, *at = problem;
            if (!problem != !cases[row].texts[0])
                fail_msg("%s: '%s'; expected %s", cases[row].name, problem ? problem : "nothing missing",
                    cases[row].texts[0] ? "a problem" : "nothing missing");
            for (int i = 0; i < TEXTS_MAX && cases[row].texts[i]; i++) {
                const char *found = strstr(at, expand(cases[row].texts[i]));
                if (!found)
                    fail_msg("%s: '%s' does not have (in order) '%s'", cases[row].name, problem,
                        expand(cases[row].texts[i]));
                at = found + 1;
            }
            if (problem && (strchr(problem, '\n') || strlen(problem) > LS_GPU_TEXT_BYTES - 32))
                fail_msg("%s: not one line, or cut: '%s'", cases[row].name, problem);
        }
    }
    free(machine);
}

static void cards_and_versions(void **state) {
    static const machine_case two_cards = { "two cards", ALL, NULL, NULL, { "FAKE_CARDS=2" }, { NULL } };
    ls_gpu_machine *machine = malloc(sizeof *machine);
    assert_non_null(machine);
    look(*state, &two_cards, 1, machine);
    assert_int_equal(machine->card_count, 2);
    const ls_gpu_card *card = &machine->cards[1];
    assert_string_equal(card->name, "Fake GPU 1");
    assert_int_equal(card->capability, 90);
    assert_true(card->memory_bytes == (size_t)80 << 30);
    assert_string_equal(card->uuid, "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
    assert_string_equal(card->pci, "0000:3c:00.0");
    assert_true(strlen(machine->driver_release) > 0); // the kernel's, or else NVML's
    assert_int_equal(machine->driver_runs, 13000);
    const struct {
        ls_nvidia_library id;
        const char *name, *version, *file;
    } expected[] = {
        { LS_NVIDIA_RUNTIME, "CUDA runtime", "13.0", "libcudart.so.%d" },
        { LS_NVIDIA_CUDNN, "cuDNN", "9.19.0", "libcudnn.so.9" },
        { LS_NVIDIA_CUBLASLT, "cuBLASLt", "13.1.0", "libcublasLt.so.%d" },
        { LS_NVIDIA_NCCL, "NCCL", "2.28.9", "libnccl.so.2" },
        { LS_NVIDIA_NVML, "NVML", "13.580.65.06", "libnvidia-ml.so.1" },
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const ls_gpu_library *library = &machine->libraries[expected[i].id];
        assert_string_equal(library->name, expected[i].name);
        assert_string_equal(library->version, expected[i].version);
        assert_non_null(strstr(library->path, expand(expected[i].file)));
        assert_string_equal(library->problem, "");
    }
    free(machine);
}

// NCCL is reported though it is not required; a quick look stops at the first problem.
static void how_far_it_looks(void **state) {
    static const machine_case no_nccl = { "no NCCL", ALL & ~NCCL, NULL, NULL, { NULL }, { NULL } };
    static const machine_case no_driver = { "no driver", ALL & ~DRIVER, NULL, NULL, { NULL }, { NULL } };
    ls_gpu_machine *machine = malloc(sizeof *machine);
    assert_non_null(machine);
    look(*state, &no_nccl, 1, machine);
    assert_non_null(strstr(machine->libraries[LS_NVIDIA_NCCL].problem, "NCCL is missing: libnccl.so.2 not found"));
    look(*state, &no_driver, 0, machine);
    assert_string_equal(machine->libraries[LS_NVIDIA_CUDNN].path, "");
    look(*state, &no_driver, 1, machine);
    assert_non_null(strstr(machine->libraries[LS_NVIDIA_CUDNN].path, "libcudnn.so.9"));
    free(machine);
}

// Which of two plugins is chosen, by the driver and by the libraries in the folders cuda/ and cuda12/. Where neither can be
// used, the line is about the one that lacks least.
typedef struct {
    const char *name;
    int in_13, in_12; // files in cuda/, for CUDA 13, and in cuda12/, for CUDA 12
    const char *old[3],
        *new[3]; // with a driver of 525 to 575, and of 580 or later: the chosen file, or the line's parts
} mixture;

static const char file_12[] = "/lockstep_cuda12.so", file_13[] = "/lockstep_cuda13.so";
static const mixture mixtures[] = {
    { "libraries of 12", 0, LIBRARIES, { file_12 }, { file_12 } },
    { "libraries of 13", LIBRARIES, 0,
        { "lockstep_cuda12.so: CUDA runtime has the wrong major version: found ",
            "/cuda/libcudart.so.13; this build needs 12.0 or later (libcudart.so.12)", "fetch-cuda.sh 12 gets it" },
        { file_13 } },
    { "libraries of both", LIBRARIES, LIBRARIES, { file_12 }, { file_13 } },
    { "no libraries", 0, 0,
        { "lockstep_cuda12.so: CUDA runtime is missing: libcudart.so.12 not found; this build needs 12.0 or later",
            "fetch-cuda.sh 12 gets it" },
        { "lockstep_cuda13.so: CUDA runtime is missing: libcudart.so.13 not found; this build needs 13.0 or later",
            "fetch-cuda.sh 13 gets it" } },
    { "cuBLASLt of 13, the others of 12", CUBLASLT, LIBRARIES & ~CUBLASLT,
        { "lockstep_cuda12.so: cuBLASLt has the wrong major version: found ",
            "/cuda/libcublasLt.so.13; this build needs 12.0.0 or later (libcublasLt.so.12)" },
        { "lockstep_cuda12.so: cuBLASLt has the wrong major version: found ", "/cuda/libcublasLt.so.13" } },
    // a process can have one cuDNN: that of 12 is not tried after it
    { "cuDNN of 13 without a part, 12 complete", LIBRARIES & ~GRAPH, LIBRARIES, { file_12 },
        { "lockstep_cuda13.so: cuDNN is incomplete: found ", "/cuda/libcudnn.so.9 without libcudnn_graph.so.9" } },
    { "cuDNN of 12, the others of 13", LIBRARIES & ~CUDNN, LIBRARIES & ~(RUNTIME | CUBLASLT),
        { "lockstep_cuda12.so: CUDA runtime has the wrong major version" },
        { "lockstep_cuda13.so: cuDNN 9.19.0 is built for another CUDA version: found ",
            "/cuda12/libcudnn.so.9 for CUDA 12; this build needs one for CUDA 13", "fetch-cuda.sh 13 gets it" } },
};

static const struct {
    const char *release, *runs;
    int is_new;
} drivers[] = { { "525.60.13", "12000", 0 }, { "550.54.14", "12040", 0 }, { "566.14", "12070", 0 },
    { "575.51.02", "12090", 0 }, { "580.65.06", "13000", 1 }, { "590.44.01", "13010", 1 } };

static void check_choice(const char *row, const char *const expected[3], const ls_gpu_machine *machine) {
    const int is_file = expected[0][0] == '/';
    const char *at = is_file ? machine->builds[machine->build].path : machine->problem;
    if (is_file && machine->problem[0]) fail_msg("%s: '%s'; expected %s", row, machine->problem, expected[0]);
    for (int i = 0; i < 3 && expected[i]; i++) {
        const char *found = strstr(at, expected[i]);
        if (!found) fail_msg("%s: '%s' does not have (in order) '%s'", row, at, expected[i]);
        at = found + 1;
    }
    if (!is_file && strchr(machine->problem, '\n')) fail_msg("%s: not one line: '%s'", row, machine->problem);
}

static void look_at_mixture(
    const fake_files *fake, const mixture *row, int plugins, int whole, ls_gpu_machine *machine) {
    temp_folder folder = temp_folder_new();
    char folders[1024], below[512];
    snprintf(folders, sizeof folders, "%s:%s/cuda:%s/cuda12", folder.path, folder.path, folder.path);
    for (int i = 0; i < 2; i++) {
        snprintf(below, sizeof below, "%s/cuda%s", folder.path, i ? "12" : "");
        assert_int_equal(ls_make_folders(below).code, LS_OK);
    }
    put_all(&folder, "", fake, DRIVER | NVML | plugins, 0);
    put_all(&folder, "cuda/", fake, row->in_13, 13);
    put_all(&folder, "cuda12/", fake, row->in_12, 12);
    ls_nvidia_look_in(folders, whole, machine);
    temp_folder_remove(&folder);
}

static void the_plugin_goes_by_driver_and_libraries(void **state) {
    ls_gpu_machine *machine = malloc(sizeof *machine);
    assert_non_null(machine);
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        for (size_t d = 0; d < sizeof drivers / sizeof *drivers; d++) {
            char row[128];
            const int whole = (int)(i + d) % 2;
            snprintf(row, sizeof row, "driver %s, %s", drivers[d].release, mixtures[i].name);
            setenv("FAKE_DRIVER", drivers[d].runs, 1);
            setenv("FAKE_RELEASE", drivers[d].release, 1);
            look_at_mixture(*state, &mixtures[i], PLUGIN_12 | PLUGIN_13, whole, machine);
            check_choice(row, drivers[d].is_new ? mixtures[i].new : mixtures[i].old, machine);
        }
    }
    unsetenv("FAKE_DRIVER");
    unsetenv("FAKE_RELEASE");
    free(machine);
}

// Cards that only CUDA 12 serves, drivers that are too old for all, and a single plugin that does not fit.
static void the_plugin_goes_by_cards_and_files(void **state) {
    static const mixture both = { "", LIBRARIES, LIBRARIES, { NULL }, { NULL } };
    static const struct {
        const char *name;
        int plugins;
        const char *driver, *capability, *expected[3];
    } rows[] = {
        { "a V100", PLUGIN_12 | PLUGIN_13, "13000", "70", { file_12 } },
        { "a T4", PLUGIN_12 | PLUGIN_13, "13000", "75", { file_13 } },
        { "a P100", PLUGIN_12 | PLUGIN_13, "13000", "60",
            { "no GPU that is new enough: found Fake GPU 0 of compute capability 6.0; this build needs 7." } },
        { "a driver too old for both", PLUGIN_12 | PLUGIN_13, "11080", "80",
            { "the NVIDIA driver is too old: found", "CUDA 11.8", "this build needs 525.60.13 or later (CUDA 12)" } },
        { "13 alone, an old driver", PLUGIN_13, "12040", "80",
            { "the NVIDIA driver is too old: found", "CUDA 12.4", "this build needs 580.65.06 or later (CUDA 13)" } },
        { "12 alone, a new driver", PLUGIN_12, "13010", "80", { file_12 } },
        { "12 alone, a V100", PLUGIN_12, "12000", "70", { file_12 } },
    };
    ls_gpu_machine *machine = malloc(sizeof *machine);
    assert_non_null(machine);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("FAKE_DRIVER", rows[i].driver, 1);
        setenv("FAKE_CAPABILITY", rows[i].capability, 1);
        look_at_mixture(*state, &both, rows[i].plugins, 0, machine);
        check_choice(rows[i].name, rows[i].expected, machine);
    }
    unsetenv("FAKE_DRIVER");
    unsetenv("FAKE_CAPABILITY");
    free(machine);
}

static int compile(const char *options, content *out) {
    temp_folder folder = temp_folder_new();
    char command[512], path[300];
    snprintf(path, sizeof path, "%s/fake.so", folder.path);
    snprintf(command, sizeof command, "cc -shared -fPIC -o %s %s", path, options);
    int made = system(command) == 0 && !ls_failed(ls_read_file(path, &out->bytes, &out->count));
    temp_folder_remove(&folder);
    return made;
}

int main(void) {
    fake_files fake = { .library = { .count = 0 } };
    if (!compile("tests/support/fake_cuda.c", &fake.library) ||
        !compile("-DPART -Wl,-soname,libcudnn_graph.so.9 tests/support/fake_cuda.c", &fake.part) ||
        !compile("-Isrc -DRUNTIME=12040 -DCAPABILITY=70 tests/support/fake_plugin.c", &fake.plugin_12) ||
        !compile("-Isrc tests/support/fake_plugin.c", &fake.plugin_13)) {
        puts("skipped: no C compiler for the fake libraries");
        return 77;
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    static ls_gpu_machine nothing;
    ls_nvidia_look_in("", 0, &nothing);
    major = atoi(nothing.libraries[LS_NVIDIA_RUNTIME].needed);
    const struct CMUnitTest tests[] = { cmocka_unit_test_prestate(messages, &fake),
        cmocka_unit_test_prestate(cards_and_versions, &fake), cmocka_unit_test_prestate(how_far_it_looks, &fake),
        cmocka_unit_test_prestate(the_plugin_goes_by_driver_and_libraries, &fake),
        cmocka_unit_test_prestate(the_plugin_goes_by_cards_and_files, &fake) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(fake.library.bytes);
    free(fake.part.bytes);
    free(fake.plugin_12.bytes);
    free(fake.plugin_13.bytes);
    return failed;
}
