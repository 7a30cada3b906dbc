// What binds a run and what is worth changing: what is said of times as runs have them. Gains are worked out by hand, by
// Amdahl's law.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "support/cmocka.h"
#include "support/must.h"
#include "train/diagnose/verdict.h"

enum { RANKS = 4, SETS = 6 };
static const double GB = 1e9;

// Of 100 s; a GPU's where enqueue is not 0.
typedef struct {
    double compute, loader, communication, evaluation, checkpoint, enqueue, cores, convolution, gradients;
} times;

typedef struct {
    const char *what;
    times time;
    const char *sets[SETS];
    int threads, room_threads; // 0: 2
    double cores;              // 0: 2
    double memory;             // left on the device
    int ranks;                 // 0: 1
    int64_t samples;           // 0: 60000
    int64_t parameters;
    double wait[RANKS], loader[RANKS], core_wait[RANKS];
    ls_binds binds;
    const char *option, *value; // NULL: none
    double gain;
    int changes;
    const char *text; // that is in it; NULL: whatever
} row;

static const row rows[] = {
    { "all computes", { .compute = 96 },
        .text = "computation binds: it takes 96 % of the time; no single setting is worth 3 %" },
    { "fewer threads than cores", { .compute = 90 }, { "device.threads=1" }, 1, 4, 4, .option = "device.threads",
        .value = "0", .gain = 1 / (1 - 0.9 * 0.75),
        .text = "device.threads = 0 instead of 1 would make it at most 3.1 times as fast (a rank has cores for 4 "
                "threads)" },
    { "fewer threads than cores, which others have", { .compute = 90, .cores = 30 }, { "device.threads=1" }, 1, 4, 4,
        .binds = LS_BINDS_CORES },
    { "the default's threads", { .compute = 90 }, { NULL }, 1, 4, 4, .binds = LS_BINDS_COMPUTE },
    { "more threads than cores", { .compute = 95, .cores = 4 * 40 }, { "device.threads=4" }, 4, 1, 1,
        .binds = LS_BINDS_CORES, .option = "device.threads", .value = "0",
        .text = "cores bind: threads wait for one 40 % of the time (a rank has 4 threads and 1 core)" },
    { "crowded, and the loader waits more", { .compute = 40, .loader = 60, .cores = 4 * 40 }, { "device.threads=4" }, 4,
        1, 1, .binds = LS_BINDS_CORES, .option = "device.threads", .value = "0" },
    { "more ranks than cores", { .compute = 60, .communication = 30, .cores = 45 }, .threads = 1, .room_threads = 1,
        .cores = 0.5, .ranks = 4, .wait = { 3, 3, 3, 3 }, .core_wait = { 45, 45, 45, 45 }, .binds = LS_BINDS_CORES,
        .text = "a rank has 1 thread and 0.5 core: start fewer ranks)" },
    { "others on the cores", { .compute = 90, .cores = 2 * 30 }, .binds = LS_BINDS_CORES,
        .text = "cores bind: threads wait for one 30 % of the time (others run on them, too); no single" },
    { "pictures decoded in every epoch", { .compute = 30, .loader = 65 }, { "data.dataset=folder", "data.cache=off" },
        .binds = LS_BINDS_LOADER, .option = "data.cache", .value = "auto", .gain = 1 / (1 - 0.65),
        .text = "the loader binds: training waits for it 65 % of the time; data.cache = auto instead of off" },
    { "packed pictures, free cores", { .compute = 35, .loader = 60 }, { "data.dataset=folder" }, 2, 2, 8,
        .binds = LS_BINDS_LOADER, .option = "data.workers", .value = "3", .gain = 1 / 0.4,
        .text = "would make it about 2.5 times as fast" },
    { "packed pictures, no free core", { .compute = 35, .loader = 60 }, { "data.dataset=folder" }, 2, 2, 1,
        .binds = LS_BINDS_LOADER, .text = "no single setting" },
    { "cores for a part", { .compute = 35, .loader = 60 }, { "data.dataset=folder" }, 2, 2, 2, .binds = LS_BINDS_LOADER,
        .option = "data.workers", .value = "2", .gain = 1 / 0.9 },
    { "slots for three workers", { .compute = 5, .loader = 92 }, { NULL }, 1, 1, 64, .binds = LS_BINDS_LOADER,
        .option = "data.workers", .value = "3", .gain = 3 },
    { "workers without slots", { .compute = 5, .loader = 92 }, { "data.workers=6" }, 1, 1, 64, .binds = LS_BINDS_LOADER,
        .option = "data.prefetch", .value = "12", .gain = 2,
        .text = "data.prefetch = 12 instead of 4 would make it about 2.0 times as fast (4 slots keep 3 of 6 workers "
                "busy)" },
    { "a GPU's loader, the set fits", { .compute = 30, .loader = 65, .enqueue = 10 }, { NULL }, 1, 1, 2,
        .memory = 40 * 1e9, .binds = LS_BINDS_LOADER, .option = "data.loader", .value = "resident", .gain = 1 / 0.35 },
    { "a GPU's loader, the set does not fit", { .compute = 30, .loader = 65, .enqueue = 10 },
        { "train.precision=bf16" }, 1, 1, 4, .memory = 1e9, .binds = LS_BINDS_LOADER, .option = "data.workers",
        .value = "2", .gain = 2 },
    { "no graphs", { .compute = 97, .enqueue = 95 }, { "device.graphs=false" }, .binds = LS_BINDS_LAUNCHES,
        .option = "device.graphs", .value = "true", .gain = 1 / 0.05 },
    { "graphs, small micro-batches", { .compute = 97, .enqueue = 90 }, { "train.micro_batch=16" }, .memory = 40 * 1e9,
        .binds = LS_BINDS_LAUNCHES, .option = "train.micro_batch", .value = "32", .gain = 1 / 0.55, .changes = 1,
        .text = ", but changes results: batch norm's statistics are of a micro-batch" },
    { "no memory for larger ones", { .compute = 97, .enqueue = 90 }, { "train.micro_batch=16" }, .memory = 1e8,
        .binds = LS_BINDS_LAUNCHES, .text = "no single setting" },
    { "a GPU computes in fp32", { .compute = 95, .enqueue = 60 }, .option = "train.precision", .value = "bf16",
        .gain = 1 / (1 - 0.475), .changes = 1, .text = "but changes results: it rounds" },
    { "a GPU computes in bf16", { .compute = 95, .enqueue = 60 }, { "train.precision=bf16" },
        .binds = LS_BINDS_COMPUTE },
    { "sums are waited for", { .compute = 40, .communication = 55 }, .ranks = 2, .wait = { 55, 55 },
        .binds = LS_BINDS_COMMUNICATION, .option = "train.global_batch", .value = "256", .gain = 1 / (1 - 0.275),
        .changes = 1, .text = "communication binds: sums over ranks hold training up 55 % of the time" },
    { "sums, without overlap", { .compute = 60, .communication = 35 }, { "dist.overlap=false" }, .ranks = 2,
        .wait = { 35, 35 }, .binds = LS_BINDS_COMMUNICATION, .option = "dist.overlap", .value = "true",
        .gain = 1 / (1 - 0.35) },
    { "sums, and the batch is all there is", { .compute = 40, .communication = 55 }, { "train.global_batch=8192" },
        .ranks = 2, .wait = { 55, 55 }, .binds = LS_BINDS_COMMUNICATION, .option = "dist.reduce_dtype", .value = "bf16",
        .gain = 1 / (1 - 0.275), .changes = 1 },
    { "a larger micro-batch would leave one sample", { .compute = 40, .communication = 55 }, .ranks = 2,
        .samples = 60033, .wait = { 55, 55 }, .binds = LS_BINDS_COMMUNICATION, .option = "dist.reduce_dtype",
        .value = "bf16", .gain = 1 / (1 - 0.275), .changes = 1 },
    { "as many terms as fixed point has room for", { .compute = 40, .communication = 55 },
        { "run.deterministic=true", "train.micro_batch=1", "train.global_batch=4096" }, .ranks = 2, .samples = 10000000,
        .wait = { 55, 55 }, .binds = LS_BINDS_COMMUNICATION },
    { "one is slow, its data", { .compute = 40, .communication = 55 }, .ranks = 4, .wait = { 55, 55, 5, 54 },
        .loader = { 1, 1, 50, 1 }, .cores = 1, .binds = LS_BINDS_LOADER,
        .text = "the loader binds: training waits for it 50 % of the time; rank 2 is the slowest: the others wait for "
                "it 50 % of" },
    { "one is slow, its cores", { .compute = 40, .communication = 55 }, .ranks = 4, .wait = { 55, 55, 5, 54 },
        .core_wait = { 0, 0, 90, 0 }, .binds = LS_BINDS_CORES, .text = "rank 2 is the slowest" },
    { "evaluations of every epoch", { .compute = 60, .evaluation = 38 }, { "train.epochs=100" },
        .option = "train.eval_every", .value = "8", .gain = 1 / (1 - 0.38 * 0.87),
        .text = "13 of 100 evaluations are left" },
    { "the only evaluation", { .compute = 60, .evaluation = 38 }, { "train.epochs=1" }, .binds = LS_BINDS_COMPUTE },
    { "evaluations that end the run", { .compute = 60, .evaluation = 38 },
        { "train.epochs=100", "train.patience=3", "data.validation_fraction=0.1" }, .binds = LS_BINDS_COMPUTE },
    { "checkpoints", { .compute = 70, .checkpoint = 26 }, { "checkpoint.every_updates=10" },
        .option = "checkpoint.every_updates", .value = "52", .gain = 1 / (1 - 0.26 * 42 / 52) },
    { "checkpoints of epochs", { .compute = 70, .checkpoint = 26 }, .option = "checkpoint.every_epochs", .value = "5",
        .gain = 1 / (1 - 0.26 * 0.8) },
    { "fixed point", { .compute = 97, .gradients = 30 }, { "run.deterministic=true" }, .option = "run.deterministic",
        .value = "false", .gain = 1 / 0.7, .changes = 1 },
    { "direct convolutions", { .compute = 97, .convolution = 81 }, { "device.winograd=off" },
        .option = "device.winograd", .value = "auto", .gain = 1 / (1 - 0.45), .changes = 1 },
    { "what changes results counts half", { .compute = 80, .evaluation = 18, .convolution = 36 },
        { "device.winograd=off", "train.epochs=100" }, .option = "train.eval_every", .value = "4",
        .gain = 1 / (1 - 0.135) },
    { "a second forward pass, and room for it", { .compute = 96, .enqueue = 60 },
        { "train.recompute=blocks", "train.precision=bf16" }, .memory = 40 * 1e9, .option = "train.recompute",
        .value = "off", .gain = 1 / 0.76 },
    { "a second forward pass, and no room", { .compute = 96, .enqueue = 60 },
        { "train.recompute=blocks", "train.precision=bf16" }, .memory = 1e8 },
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
        .parameters = r->parameters,
        .updates = LS_VERDICT_UPDATES_MIN,
        .room = { .cores = r->cores > 0 ? r->cores : 2,
            .threads = r->room_threads ? r->room_threads : 2,
            .memory_bytes = r->memory,
            .resident_bytes = 2 * GB,
            .activation_bytes = GB,
            .kept_bytes = 2 * GB },
        .time = { .seconds = seconds,
            .compute = t->compute * part,
            .loader_wait = t->loader * part,
            .communication = t->communication * part,
            .evaluation = t->evaluation * part,
            .checkpoint = t->checkpoint * part,
            .kinds_known = t->enqueue == 0,
            .kind = { [LS_OP_KIND_CONVOLUTION] = t->convolution * part, [LS_OP_KIND_GRADIENTS] = t->gradients * part },
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
    if (fabs(v->gain - r->gain) > 1e-9 || v->changes_results != r->changes)
        fail_msg("%s: gain %.9g, changes results %d; expected %.9g, %d", r->what, v->gain, v->changes_results, r->gain,
            r->changes);
    if (r->text && !strstr(v->text, r->text)) fail_msg("%s: \"%s\", expected \"...%s...\"", r->what, v->text, r->text);
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

// Whatever is recommended, the configuration takes: it would not refuse to start.
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
