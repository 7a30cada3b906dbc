// The verdict on a run: what it waited for and which suggestion is made, for times as runs have them.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "support/cmocka.h"
#include "support/must.h"
#include "train/diagnose/verdict.h"

enum { RANKS = 4, SETS = 3 };
static const double GB = 1e9;

// Seconds of a run of 100 s. enqueue is above 0 for a GPU only.
typedef struct {
    double compute, loader, communication, enqueue, cores;
} times;

typedef struct {
    const char *what;
    times time;
    const char *sets[SETS];
    int threads, room_threads; // 0: 2
    double cores;              // 0: 2; -1: unknown
    double memory;             // left on the device
    int ranks;                 // 0: 1
    int64_t samples;           // 0: 60000
    int accumulation;          // 0: 2 micro-batches of 16 samples
    double wait[RANKS], loader[RANKS], core_wait[RANKS];
    ls_binds binds;
    const char *option, *value; // NULL: no setting is suggested
    const char *text;           // the whole of it
} row;

static const row rows[] = {
    { "all computes", { .compute = 96 }, .text = "the run waited for computation 96 % of the time" },
    { "fewer threads than cores", { .compute = 90 }, { "device.threads=1" }, 1, 4, 4, .option = "device.threads",
        .value = "0",
        .text = "the run waited for computation 90 % of the time; set device.threads = 0 instead of 1 (a rank has "
                "cores for 4 threads)" },
    { "fewer threads than cores, which others have", { .compute = 90, .cores = 30 }, { "device.threads=1" }, 1, 4, 4,
        .binds = LS_BINDS_CORES, .text = "the run waited for a core 30 % of the time: other processes use its cores" },
    { "the default's threads", { .compute = 90 }, { NULL }, 1, 4, 4,
        .text = "the run waited for computation 90 % of the time" },
    { "fewer threads than cores of a GPU's host", { .compute = 90, .enqueue = 10 }, { "device.threads=1" }, 1, 4, 4,
        .text = "the run waited for computation 90 % of the time" },
    { "more threads than cores", { .compute = 95, .cores = 4 * 40 }, { "device.threads=4" }, 4, 1, 1,
        .binds = LS_BINDS_CORES, .option = "device.threads", .value = "0",
        .text = "the run waited for a core 40 % of the time: a rank has 4 threads and 1 core; "
                "set device.threads = 0 instead of 4 (a rank has cores for 1 thread)" },
    { "more threads than cores, and the loader takes longer", { .compute = 40, .loader = 60, .cores = 4 * 40 },
        { "device.threads=4" }, 4, 1, 1, .binds = LS_BINDS_CORES, .option = "device.threads", .value = "0",
        .text = "the run waited for a core 40 % of the time: a rank has 4 threads and 1 core; "
                "set device.threads = 0 instead of 4 (a rank has cores for 1 thread)" },
    { "more ranks than cores", { .compute = 60, .communication = 30, .cores = 45 }, .threads = 1, .room_threads = 1,
        .cores = 0.5, .ranks = 4, .wait = { 3, 3, 3, 3 }, .core_wait = { 45, 45, 45, 45 }, .binds = LS_BINDS_CORES,
        .text = "the run waited for a core 45 % of the time: a rank has 1 thread and 0.5 core; start at most 2 ranks" },
    { "four ranks on one core", { .compute = 60, .cores = 45 }, { "device.threads=1" }, .threads = 1, .room_threads = 1,
        .cores = 0.25, .ranks = 4, .core_wait = { 45, 45, 45, 45 }, .binds = LS_BINDS_CORES,
        .text = "the run waited for a core 45 % of the time: a rank has 1 thread and 0.25 core; start at most 1 rank" },
    { "others on the cores", { .compute = 90, .cores = 2 * 30 }, .binds = LS_BINDS_CORES,
        .text = "the run waited for a core 30 % of the time: other processes use its cores" },
    { "a loader, and idle cores", { .compute = 35, .loader = 60 }, { "data.prefetch=8" }, 2, 2, 5.5,
        .binds = LS_BINDS_LOADER, .option = "data.workers", .value = "5",
        .text = "the run waited for the loader 60 % of the time; set data.workers = 5 instead of 1 (cores are idle)" },
    { "a loader, and less than half a core idle", { .compute = 35, .loader = 60 }, { NULL }, 2, 2, 2,
        .binds = LS_BINDS_LOADER, .text = "the run waited for the loader 60 % of the time" },
    { "a loader, and the number of cores is unknown", { .compute = 35, .loader = 60 }, { NULL }, 2, 2, -1,
        .binds = LS_BINDS_LOADER, .text = "the run waited for the loader 60 % of the time" },
    { "a loader, and slots for three workers", { .compute = 5, .loader = 92 }, { NULL }, 1, 1, 64,
        .binds = LS_BINDS_LOADER, .option = "data.workers", .value = "3",
        .text = "the run waited for the loader 92 % of the time; set data.workers = 3 instead of 1 (cores are idle)" },
    { "a loader, and no slots for more workers", { .compute = 5, .loader = 92 }, { "data.workers=6" }, 1, 1, 64,
        .binds = LS_BINDS_LOADER, .text = "the run waited for the loader 92 % of the time" },
    { "a GPU's loader", { .compute = 30, .loader = 65, .enqueue = 10 }, { NULL }, 1, 1, 64, .binds = LS_BINDS_LOADER,
        .option = "data.workers", .value = "4",
        .text = "the run waited for the loader 65 % of the time; set data.workers = 4 instead of 1 (cores are idle)" },
    { "small micro-batches on a GPU", { .compute = 97, .enqueue = 90 }, { NULL }, .memory = 2e9,
        .binds = LS_BINDS_LAUNCHES, .option = "train.micro_batch", .value = "32",
        .text = "the GPU waited for its host, which enqueued operators 90 % of the time; set train.micro_batch = 32 "
                "instead of 16 (half as many launches; batch norm's statistics will change)" },
    { "no memory for larger micro-batches", { .compute = 97, .enqueue = 90 }, { NULL }, .memory = 1.9e9,
        .binds = LS_BINDS_LAUNCHES, .text = "the GPU waited for its host, which enqueued operators 90 % of the time" },
    { "an odd number of micro-batches", { .compute = 97, .enqueue = 90 }, { NULL }, .memory = 40e9, .accumulation = 3,
        .binds = LS_BINDS_LAUNCHES, .text = "the GPU waited for its host, which enqueued operators 90 % of the time" },
    { "a larger micro-batch would leave one sample", { .compute = 97, .enqueue = 90 }, { NULL }, .memory = 40e9,
        .samples = 60001, .binds = LS_BINDS_LAUNCHES,
        .text = "the GPU waited for its host, which enqueued operators 90 % of the time" },
    { "a GPU computes", { .compute = 95, .enqueue = 60 }, .text = "the run waited for computation 95 % of the time" },
    { "a GPU computes, and threads of its host wait for cores", { .compute = 95, .enqueue = 60, .cores = 2 * 60 },
        .text = "the run waited for computation 95 % of the time" },
    { "sums are waited for", { .compute = 40, .communication = 55 }, .ranks = 2, .wait = { 55, 55 },
        .binds = LS_BINDS_COMMUNICATION, .text = "the run waited for sums over ranks 55 % of the time" },
    { "sums take less than a tenth", { .compute = 90, .communication = 9 }, .ranks = 2, .wait = { 9, 9 },
        .text = "the run waited for computation 90 % of the time" },
    { "a rank is slow, its loader", { .compute = 40, .communication = 55 }, .ranks = 4, .wait = { 55, 55, 5, 54 },
        .loader = { 1, 1, 50, 1 }, .cores = 1, .binds = LS_BINDS_LOADER,
        .text = "the run waited for the loader 50 % of the time; rank 2 is the slowest: the others waited for it 50 % "
                "of the time" },
    { "a rank is slow, its cores", { .compute = 40, .communication = 55 }, .ranks = 4, .wait = { 55, 55, 5, 54 },
        .core_wait = { 0, 0, 90, 0 }, .binds = LS_BINDS_CORES,
        .text = "the run waited for a core 40 % of the time: other processes use its cores; rank 2 is the slowest: the "
                "others waited for it 50 % of the time" },
};

static ls_verdict verdict_of(const row *r, double seconds, ls_config *cfg) {
    const double part = seconds / 100;
    const times *t = &r->time;
    ls_rank_time each[RANKS];
    ls_config_defaults(cfg);
    for (int i = 0; i < SETS && r->sets[i]; i++) must(ls_config_set(cfg, r->sets[i]));
    must(ls_config_check(cfg));
    for (int i = 0; i < r->ranks; i++)
        each[i] = (ls_rank_time){ .wait = r->wait[i] * part,
            .loader_wait = r->loader[i] * part,
            .core_wait = r->core_wait[i] * part,
            .compute = t->compute * part };
    return ls_verdict_find(&(ls_verdict_facts){ .cfg = cfg,
        .ranks = r->ranks ? r->ranks : 1,
        .threads = r->threads ? r->threads : 2,
        .train_samples = r->samples ? r->samples : 60000,
        .micro_batch = 16,
        .accumulation = r->accumulation ? r->accumulation : 2,
        .updates = LS_VERDICT_UPDATES_MIN,
        .room = { .cores = r->cores < 0   ? 0
                           : r->cores > 0 ? r->cores
                                          : 2,
            .threads = r->room_threads ? r->room_threads : 2,
            .memory_bytes = r->memory,
            .activation_bytes = GB },
        .time = { .seconds = seconds,
            .compute = t->compute * part,
            .loader_wait = t->loader * part,
            .communication = t->communication * part,
            .kinds_known = t->enqueue == 0,
            .enqueue = t->enqueue > 0 ? t->enqueue * part : NAN,
            .core_wait = t->cores * part },
        .each = r->ranks > 1 ? each : NULL,
        .each_seconds = seconds });
}

static void expect(const row *r, const ls_verdict *v) {
    const char *option = r->option ? r->option : "", *value = r->option ? r->value : "";
    if (v->binds != r->binds || strcmp(v->option, option) != 0 || strcmp(v->value, value) != 0)
        fail_msg("%s: binds %d, option '%s' = '%s'; expected %d, '%s' = '%s' (%s)", r->what, (int)v->binds, v->option,
            v->value, (int)r->binds, option, value, v->text);
    if (strcmp(v->text, r->text) != 0) fail_msg("%s: \"%s\", expected \"%s\"", r->what, v->text, r->text);
}

// The same in long and in short runs.
static void verdicts(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_config cfg;
        const ls_verdict long_run = verdict_of(&rows[i], 1e5, &cfg), short_run = verdict_of(&rows[i], 1.01, &cfg);
        expect(&rows[i], &long_run);
        expect(&rows[i], &short_run);
    }
}

static void too_short(void **state) {
    (void)state;
    ls_config cfg;
    assert_string_equal(verdict_of(&rows[0], 0.99, &cfg).text, "");
    assert_string_equal(ls_verdict_find(&(ls_verdict_facts){ .cfg = &cfg, .ranks = 1 }).text, "");
    assert_string_equal(
        ls_verdict_find(
            &(ls_verdict_facts){ .cfg = &cfg, .ranks = 1, .updates = 9, .time.seconds = 60, .time.compute = 60 })
            .text,
        "");
    assert_string_not_equal(
        ls_verdict_find(
            &(ls_verdict_facts){ .cfg = &cfg, .ranks = 1, .updates = 10, .time.seconds = 60, .time.compute = 60 })
            .text,
        "");
}

// The configuration accepts every suggested setting.
static void never_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_config cfg;
        const ls_verdict v = verdict_of(&rows[i], 100, &cfg);
        char assignment[128];
        if (!v.option[0]) continue;
        snprintf(assignment, sizeof assignment, "%s=%s", v.option, v.value);
        must(ls_config_set(&cfg, assignment));
        must(ls_config_check(&cfg));
    }
}

static void shares(void **state) {
    (void)state;
    char text[LS_VERDICT_SHARES_BYTES];
    ls_run_time t = { .seconds = 200,
        .compute = 122,
        .loader_wait = 4,
        .communication = 50,
        .evaluation = 10,
        .checkpoint = 0.8,
        .kinds_known = 1,
        .kind = { [LS_OP_KIND_NORM] = 30, [LS_OP_KIND_CONVOLUTION] = 90, [LS_OP_KIND_LOSS] = 1.9 } };
    assert_string_equal(ls_verdict_shares(&t, text),
        "compute 61 % (convolution 45, norm 15), loader 2 %, communication 25 %, evaluation 5 %, other 7 %");
    t.kinds_known = 0;
    assert_string_equal(
        ls_verdict_shares(&t, text), "compute 61 %, loader 2 %, communication 25 %, evaluation 5 %, other 7 %");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(verdicts), cmocka_unit_test(too_short),
        cmocka_unit_test(never_refused), cmocka_unit_test(shares) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
