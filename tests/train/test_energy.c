// What is in a run's energy, and what is said of the rest: by made-up counters of processors, and samples of GPUs.
#include "train/energy.h"

#include <math.h>
#include <unistd.h>
#include "base/text.h"
#include "support/cmocka.h"
#include "support/temp.h"

static void put_package(const temp_folder *root, const char *microjoules) {
    temp_file(root, "sys/class/powercap/intel-rapl:0/name", "package-0\n");
    temp_file(root, "sys/class/powercap/intel-rapl:0/max_energy_range_uj", "65532610987\n");
    temp_file(root, "sys/class/powercap/intel-rapl:0/energy_uj", microjoules);
}

enum { RANKS = 4 };

typedef struct {
    const char *name;
    int processors; // can be read
    int ranks;      // as the communicator of the test says; one in truth
    ls_rank_info places[RANKS];
    int sampled; // GPUs are
    ls_gpu_sample samples[RANKS];
    double joules, at_last; // before the end, and at it; NAN: unknown
    const char *sources, *missing;
} situation;

#define CARD(number) \
    { .host = "a", .uuid = "GPU-" number, .pci = "0000:0" number ":00.0" }
#define SLICE(number, card) \
    { .host = "a", .uuid = "MIG-" number, .pci = "0000:0" card ":00.0" }
#define COUNTED(watts_seconds) \
    { .samples = 3, .joules = watts_seconds }
#define INTEGRATED(watts_seconds) \
    { .samples = 3, .joules = watts_seconds, .integrated = 1 }

static const situation situations[] = {
    { "nothing", 0, 1, { { .host = "a" } }, 0, { { 0 } }, NAN, NAN, "",
        "processors: no ROOT/sys/class/powercap/intel-rapl:*: the kernel shows no energy counter of this processor (as "
        "in most "
        "virtual machines)" },
    { "processors", 1, 1, { { .host = "a" } }, 0, { { 0 } }, 2, 2, "1 processor package (RAPL)", "" },
    { "processors and a GPU", 1, 1, { CARD("1") }, 1, { COUNTED(40) }, 42, 42,
        "1 processor package (RAPL), 1 GPU (NVML's energy counter)", "" },
    { "a GPU that has no sample yet", 1, 1, { CARD("1") }, 1, { { .samples = 0 } }, NAN, 2,
        "1 processor package (RAPL)", "1 of 1 GPU: NVML does not report its energy or power" },
    { "a GPU without NVML", 1, 1, { CARD("1") }, 0, { { 0 } }, 2, 2, "1 processor package (RAPL)",
        "1 of 1 GPU: NVML does not report its energy or power" },
    { "GPUs of two kinds", 1, 3, { CARD("1"), CARD("2"), CARD("3") }, 1, { COUNTED(40), INTEGRATED(7), COUNTED(3) }, 52,
        52, "1 processor package (RAPL), 2 GPUs (NVML's energy counter), 1 GPU (NVML's power over time)", "" },
    { "a GPU that two ranks share", 1, 3, { CARD("1"), CARD("1"), CARD("2") }, 1,
        { COUNTED(40), COUNTED(40), COUNTED(3) }, 45, 45, "1 processor package (RAPL), 2 GPUs (NVML's energy counter)",
        "" },
    { "slices of a card", 1, 2, { SLICE("1", "1"), SLICE("2", "1") }, 1, { COUNTED(40), COUNTED(40) }, 42, 42,
        "1 processor package (RAPL), 1 GPU (NVML's energy counter)", "" },
    { "the same address on another host", 1, 2, { CARD("1"), { .host = "b", .pci = "0000:01:00.0" } }, 1,
        { COUNTED(40), COUNTED(4) }, 46, 46, "1 processor package (RAPL), 2 GPUs (NVML's energy counter)", "" },
    { "a GPU that reports nothing", 1, 2, { CARD("1"), CARD("2") }, 1, { COUNTED(40), COUNTED(NAN) }, 42, 42,
        "1 processor package (RAPL), 1 GPU (NVML's energy counter)",
        "1 of 2 GPUs: NVML does not report its energy or power" },
};

static void describe(const ls_run_energy *energy, char *text, size_t bytes) {
    char source[LS_ENERGY_SOURCE_BYTES];
    ls_text_room room = { text, bytes };
    text[0] = '\0';
    for (int i = 0; ls_run_energy_source(energy, i, source); i++) ls_text_put(&room, "%s%s", i ? ", " : "", source);
}

static int same(double a, double b) {
    return isnan(a) ? isnan(b) : fabs(a - b) < 1e-9;
}

// "no /tmp/x/sys" as "no ROOT/sys".
static const char *without_root(const char *text, const char *root, char *dst, size_t bytes) {
    const char *at = strstr(text, root);
    snprintf(dst, bytes, "%.*s%s%s", at ? (int)(at - text) : (int)strlen(text), text, at ? "ROOT" : "",
        at ? at + strlen(root) : "");
    return dst;
}

static void look(const situation *row) {
    temp_folder root = temp_folder_new();
    ls_comm *comm;
    ls_energy *energy;
    ls_run_energy before, last;
    char sources[512], missing[LS_ENERGY_TEXT_BYTES];
    if (row->processors) put_package(&root, "5000000\n");
    assert_int_equal(ls_comm_self(&comm).code, LS_OK);
    // The ranks are rank 0's alone to look at: their places and samples.
    ((ls_comm_info *)(uintptr_t)ls_comm_get_info(comm))->world_size = row->ranks;
    assert_int_equal(ls_energy_start(comm, root.path, row->places, &energy).code, LS_OK);
    if (row->processors) put_package(&root, "7000000\n");
    assert_int_equal(ls_energy_read(energy, row->sampled ? row->samples : NULL, 0, &before).code, LS_OK);
    assert_int_equal(ls_energy_read(energy, row->sampled ? row->samples : NULL, 1, &last).code, LS_OK);
    describe(&last, sources, sizeof sources);
    without_root(last.missing, root.path, missing, sizeof missing);
    if (!same(before.joules, row->joules) || !same(last.joules, row->at_last) || strcmp(sources, row->sources) != 0 ||
        strcmp(missing, row->missing) != 0)
        fail_msg("%s: %g and %g J of '%s' without '%s'", row->name, before.joules, last.joules, sources, missing);
    ls_energy_free(energy);
    ls_comm_finish(comm);
    temp_folder_remove(&root);
}

static void sources(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof situations / sizeof *situations; s++) look(&situations[s]);
}

// A counter that is there at the start only.
static void a_counter_that_goes(void **state) {
    (void)state;
    temp_folder root = temp_folder_new();
    const ls_rank_info place = { .host = "a" };
    ls_comm *comm;
    ls_energy *energy;
    ls_run_energy got;
    char path[512];
    put_package(&root, "5000000\n");
    assert_int_equal(ls_comm_self(&comm).code, LS_OK);
    assert_int_equal(ls_energy_start(comm, root.path, &place, &energy).code, LS_OK);
    snprintf(path, sizeof path, "%s/sys/class/powercap/intel-rapl:0/energy_uj", root.path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ls_energy_read(energy, NULL, 1, &got).code, LS_OK);
    assert_true(isnan(got.joules));
    assert_string_equal(got.missing, "processors: their counters could be read at the start, and no more at the end");
    ls_energy_free(energy);
    ls_comm_finish(comm);
    temp_folder_remove(&root);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(sources), cmocka_unit_test(a_counter_that_goes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
