// What is said of a loss or gradient that is not finite: for each planted cause the layer, tensor, direction and cause
// that are named are the planted ones, on ref, cpu and the emulated GPU, and an inspection finds them again.
#include <math.h>
#include <sys/stat.h>
#include "base/atomic_file.h"
#include "device/cuda_device.h"
#include "train/diagnose/nonfinite_search.h"
#include "train/whole_run.h"

// s1 and s2 are there to make values large in one direction: a row sets their factors.
static const char network_format[] =
    "[network]\ninput = 3x6x6\n"
    "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\n"
    "[s1]\nlayer = scale\nfactor = %g\n[r1]\nlayer = relu\n"
    "[c2]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, r1\n[r2]\nlayer = relu\n"
    "[p2]\nlayer = maxpool2d\nkernel = 2\n"
    "[c3]\nlayer = conv2d\nout_channels = 12\nkernel = 3\npadding = 1\nbias = false\n"
    "[n3]\nlayer = batchnorm2d\n[r3]\nlayer = relu\n"
    "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[s2]\nlayer = scale\nfactor = %g\n"
    "[d]\nlayer = dropout\np = 0.2\n[l]\nlayer = linear\nout_features = 10\n";

enum { REF = 1, CPU = 2, CUDA = 4, ANY = REF | CPU | CUDA, HALF = REF | CUDA }; // cpu has no fp16
enum { FORWARD, BACKWARD };
static const char *const device_options[] = { "device.type=ref", "device.type=cpu", "device.type=cuda" };
enum { DEVICES = 3 };

typedef struct {
    const char *name;
    int devices;
    const char *param; // planted: this element of it becomes value; -1: all elements are multiplied by it
    int64_t element;
    double value;
    double times_l; // l.weight is multiplied by it; 0: it is not
    double s1, s2;  // factors; 0: 1
    const char *options[8];
    ls_nonfinite_cause cause;
    int direction;
    const char *layer, *tensor; // NULL: not told beforehand
    int64_t bad;                // elements; 0: not told beforehand
} row;

#define FP16 "train.precision=fp16", "loss_scale.max_skips=1"
static const row rows[] = {
    { .name = "NaN in the first weight",
        .devices = ANY,
        .param = "c1.weight",
        .element = 5,
        .value = NAN,
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c1",
        .tensor = "c1.weight",
        .bad = 1 },
    { .name = "NaN in a weight in the middle",
        .devices = ANY,
        .param = "c3.weight",
        .element = 863,
        .value = NAN,
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c3",
        .tensor = "c3.weight",
        .bad = 1 },
    { .name = "NaN in the last weight",
        .devices = ANY,
        .param = "l.weight",
        .element = 119,
        .value = NAN,
        .cause = LS_CAUSE_WEIGHT,
        .layer = "l",
        .tensor = "l.weight",
        .bad = 1 },
    { .name = "infinity in a bias",
        .devices = ANY,
        .param = "c2.bias",
        .element = 7,
        .value = INFINITY,
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c2",
        .tensor = "c2.bias",
        .bad = 1 },
    { .name = "NaN in a norm's weight",
        .devices = ANY,
        .param = "n3.weight",
        .element = 11,
        .value = NAN,
        .cause = LS_CAUSE_WEIGHT,
        .layer = "n3",
        .tensor = "n3.weight",
        .bad = 1 },
    { .name = "NaN, with accumulation",
        .devices = ANY,
        .param = "c2.weight",
        .element = 0,
        .value = NAN,
        .options = { "train.micro_batch=4" },
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c2",
        .tensor = "c2.weight",
        .bad = 1 },
    { .name = "NaN, resident data",
        .devices = ANY,
        .param = "c2.weight",
        .element = 0,
        .value = NAN,
        .options = { "data.loader=resident", "train.micro_batch=4" },
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c2",
        .tensor = "c2.weight",
        .bad = 1 },
    { .name = "NaN, recomputation",
        .devices = ANY,
        .param = "c3.weight",
        .element = 1,
        .value = NAN,
        .options = { "train.recompute=blocks" },
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c3",
        .tensor = "c3.weight",
        .bad = 1 },
    { .name = "NaN, ordered mode",
        .devices = ANY,
        .param = "c3.weight",
        .element = 1,
        .value = NAN,
        .options = { "run.deterministic=true" },
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c3",
        .tensor = "c3.weight",
        .bad = 1 },
    { .name = "NaN in a weight, fp16",
        .devices = HALF,
        .param = "c2.weight",
        .element = 9,
        .value = NAN,
        .options = { "train.precision=fp16" },
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c2",
        .tensor = "c2.weight",
        .bad = 1 },
    { .name = "NaN in a weight, bf16",
        .devices = HALF,
        .param = "c2.weight",
        .element = 9,
        .value = NAN,
        .options = { "train.precision=bf16" },
        .cause = LS_CAUSE_WEIGHT,
        .layer = "c2",
        .tensor = "c2.weight",
        .bad = 1 },
    { .name = "pictures that cannot be normalised",
        .devices = ANY,
        .options = { "data.std=1e-40, 1, 1" },
        .cause = LS_CAUSE_INPUT,
        .layer = "input",
        .tensor = "output" },
    { .name = "exploding rate",
        .devices = ANY,
        .options = { "optimizer.lr=1000", "optimizer.momentum=0.99", "optimizer.weight_decay=1" },
        .cause = LS_CAUSE_DIVERGED },
    { .name = "fp32 overflow, forward",
        .devices = ANY,
        .param = "c2.weight",
        .element = -1,
        .value = 2e38,
        .s1 = 1e3,
        .cause = LS_CAUSE_DIVERGED,
        .layer = "c2",
        .tensor = "output" },
    { .name = "fp32 overflow, backward",
        .devices = ANY,
        .param = "n3.weight",
        .element = -1,
        .value = 1e-36,
        .times_l = 1e36,
        .s2 = 1e4,
        .cause = LS_CAUSE_DIVERGED,
        .direction = BACKWARD,
        .layer = "s2",
        .tensor = "gradient of its input" },
    { .name = "fp16 overflow, forward, early",
        .devices = HALF,
        .s1 = 1e6,
        .options = { FP16 },
        .cause = LS_CAUSE_F16,
        .layer = "s1",
        .tensor = "output" },
    { .name = "fp16 overflow, forward, late",
        .devices = HALF,
        .s2 = 1e6,
        .options = { FP16 },
        .cause = LS_CAUSE_F16,
        .layer = "s2",
        .tensor = "output" },
    { .name = "fp16 overflow of a weight",
        .devices = HALF,
        .param = "c3.weight",
        .element = 70,
        .value = 1e5,
        .options = { FP16 },
        .cause = LS_CAUSE_F16,
        .layer = "c3",
        .tensor = "c3.weight",
        .bad = 1 },
    { .name = "fp16 overflow, backward, at the loss",
        .devices = HALF,
        .options = { FP16, "loss_scale.initial=16777216" },
        .cause = LS_CAUSE_F16,
        .direction = BACKWARD,
        .layer = "loss",
        .tensor = "gradient of the logits" },
    { .name = "fp16 overflow, backward, late in the network",
        .devices = HALF,
        .param = "n3.weight",
        .element = -1,
        .value = 1e-3,
        .s2 = 3e4,
        .options = { FP16, "loss_scale.initial=1024" },
        .cause = LS_CAUSE_F16,
        .direction = BACKWARD,
        .layer = "s2",
        .tensor = "gradient of its input" },
    { .name = "more than fixed point holds",
        .devices = ANY,
        .param = "l.weight",
        .element = -1,
        .value = 3e4,
        .options = { "run.deterministic=true" },
        .cause = LS_CAUSE_FIXED_POINT,
        .direction = BACKWARD },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static int with_cuda;
static char work[] = "/tmp/lockstep_forensics_XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(work) ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", work);
    return system(command);
}

// element -1: all of them are multiplied.
static void plant(ls_trainer *t, const char *name, int64_t element, double value) {
    for (int p = 0; p < t->plan.graph->param_count; p++) {
        const ls_param *param = &t->plan.graph->params[p];
        if (strcmp(param->name, name) != 0) continue;
        int64_t count = ls_param_count(&param->shape);
        float *values = malloc((size_t)count * sizeof *values);
        ls_param_store_export(t->session.compute.store, p, values);
        assert_true(element < count);
        for (int64_t i = 0; i < count && element < 0; i++) values[i] *= (float)value;
        if (element >= 0) values[element] = (float)value;
        ls_param_store_import(t->session.compute.store, p, values);
        free(values);
        ls_session_weights_changed(&t->session.compute);
        return;
    }
    fail_msg("no %s", name);
}

// The run until it ends; its files below work/NAME.
static ls_status run_row(run *a, const row *r, const char *device, const char *folder, const char *network) {
    static const char *const common[] = { "data.dataset=synthetic", "device.threads=2", "device.tf32=false",
        "data.shape=3x6x6", "data.train_samples=54", "data.test_samples=20", "train.global_batch=16",
        "optimizer.lr=0.01", "train.epochs=30", "data.flip=true", "data.pad=1", NULL };
    const char *const chosen[] = { device, NULL };
    char text[sizeof network_format + 64];
    snprintf(text, sizeof text, network_format, r->s1 != 0 ? r->s1 : 1, r->s2 != 0 ? r->s2 : 1);
    must(ls_write_file(network, text, strlen(text)));
    must(run_open(a, network, (const char *const *const[RUN_LISTS_MAX]){ common, chosen, r->options }));
    must(ls_make_folders(folder));
    must(ls_trainer_set_folder(a->trainer, folder));
    if (r->param) plant(a->trainer, r->param, r->element, r->value);
    if (r->times_l != 0) plant(a->trainer, "l.weight", -1, r->times_l);
    ls_train_summary summary;
    return ls_trainer_run(a->trainer, NULL, 0, &summary);
}

static void expect_text(const row *r, const char *device, const char *what, const char *seen, const char *expected) {
    if (!strstr(seen, expected)) fail_msg("%s, %s: %s lacks '%s': %s", r->name, device, what, expected, seen);
}

static void expect_number(const row *r, const char *device, const char *what, int64_t seen, int64_t expected) {
    if (seen != expected)
        fail_msg("%s, %s: %s is %lld, expected %lld", r->name, device, what, (long long)seen, (long long)expected);
}

static void check_report(const row *r, const char *device, const ls_nonfinite *n, ls_status status) {
    const ls_tensor_stats *stats = &n->bad;
    if (n->cause != r->cause)
        fail_msg("%s, %s: the cause is %s, expected %s: %s", r->name, device, ls_nonfinite_cause_name(n->cause),
            ls_nonfinite_cause_name(r->cause), status.text);
    expect_number(r, device, "rank", n->rank, 0);
    if (stats->kind != LS_TENSOR_STATS_STATISTIC)
        expect_number(r, device, "backward", stats->backward, r->direction == BACKWARD);
    if (r->layer) expect_text(r, device, "the layer", stats->layer, r->layer);
    if (r->layer)
        expect_number(r, device, "the layer's length", (int64_t)strlen(stats->layer), (int64_t)strlen(r->layer));
    if (r->tensor) expect_text(r, device, "the tensor", stats->tensor, r->tensor);
    if (r->bad) expect_number(r, device, "bad elements", stats->nans + stats->infs, r->bad);
    if (r->element >= 0 && stats->kind == LS_TENSOR_STATS_WEIGHT)
        expect_number(r, device, "the first element", stats->first, r->element);
    expect_text(r, device, "the message", status.text, stats->layer);
    expect_text(r, device, "the message", status.text, "sample");
    if (strchr(status.text, '\n')) fail_msg("%s: more than one line: %s", r->name, status.text);
    for (int i = 0; i < n->sample_count; i++)
        if (n->samples[i] < 0 || n->samples[i] >= 54) fail_msg("%s: sample %lld", r->name, (long long)n->samples[i]);
    expect_number(r, device, "samples are told", n->sample_count > 0, 1);
    expect_number(r, device, "the network moved on", n->later, 0);
}

// What `train audit --inspect nonfinite` prints after the run has failed.
static void check_inspection(const row *r, const char *device, ls_trainer *trainer) {
    char *text = NULL, origin[1024];
    size_t bytes = 0;
    const ls_nonfinite *n = ls_trainer_nonfinite(trainer);
    FILE *file = open_memstream(&text, &bytes);
    must(ls_trainer_inspect(trainer, file));
    fclose(file);
    expect_text(r, device, "the inspection", text, ls_nonfinite_origin(&n->bad, origin, sizeof origin));
    expect_text(r, device, "the inspection", text, ls_nonfinite_cause_name(n->cause));
    const char *marked = strstr(text, "\n> ");
    if (!marked || strstr(marked + 1, "\n> ")) fail_msg("%s, %s: not one marked tensor: %s", r->name, device, text);
    snprintf(origin, sizeof origin, "%.*s", (int)strcspn(marked + 1, "\n"), marked + 1);
    expect_text(r, device, "the marked line", origin, n->bad.tensor);
    free(text);
}

static void check_row(const row *r, int d, int number) {
    char folder[128], network[128];
    snprintf(folder, sizeof folder, "%s/%d-%d", work, number, d);
    snprintf(network, sizeof network, "%s/network-%d-%d.ini", work, number, d);
    run a = { 0 };
    ls_status status = run_row(&a, r, device_options[d], folder, network);
    if (status.code != LS_NUMERIC)
        fail_msg("%s, %s: code %d (%s), expected %d", r->name, device_options[d], status.code,
            status.text ? status.text : "", LS_NUMERIC);
    const ls_nonfinite *n = ls_trainer_nonfinite(a.trainer);
    if (getenv("SHOW_MESSAGES")) printf("%s, %s: %s\n", r->name, device_options[d], status.text);
    check_report(r, device_options[d], n, status);
    expect_text(r, device_options[d], "the message", status.text, folder);
    expect_text(r, device_options[d], "the message", status.text, " --inspect nonfinite shows its tensors");
    check_inspection(r, device_options[d], a.trainer);
    run_close(&a);
}

static void planted_causes_are_named(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int d = 0; d < DEVICES; d++)
            if (rows[i].devices & 1 << d && (with_cuda || 1 << d != CUDA)) check_row(&rows[i], d, i);
}

// Gradients that are finite in each micro-batch and too large in sum: somewhere on the way to an overflow in one
// micro-batch there is a factor where only the sum overflows.
static void sums_are_told_apart(void **state) {
    (void)state;
    int found = 0;
    for (int i = 0; i < 30 && !found; i++) {
        double large = 1e35 * pow(1.2, i);
        const row r = { .name = "sums",
            .param = "n3.weight",
            .element = -1,
            .value = 1 / large,
            .times_l = large,
            .s2 = 1e3,
            .options = { "train.micro_batch=1", "train.max_updates=1" } };
        char folder[128], network[128];
        snprintf(folder, sizeof folder, "%s/sums-%d", work, i);
        snprintf(network, sizeof network, "%s/sums-%d.ini", work, i);
        run a = { 0 };
        ls_status status = run_row(&a, &r, "device.type=ref", folder, network);
        const ls_nonfinite *n = ls_trainer_nonfinite(a.trainer);
        if (n && n->update == 0 && n->cause == LS_CAUSE_SUMS) {
            found = 1;
            expect_text(&r, "ref", "the message", status.text, "in the sums over micro-batches and ranks");
            expect_text(&r, "ref", "the message", status.text, "their sum is more than fp32 holds");
        }
        if (getenv("SHOW_MESSAGES") && n) printf("sums %d: %s\n", i, status.text);
        run_close(&a);
    }
    assert_true(found);
}

// Run by mpirun (test_nonfinite_mpi.sh): gradients on their way in bf16, whose sum over two ranks is too large.
static int sums_in_bf16(const char *network) {
    ls_comm *comm;
    int argc = 0, found = 0;
    char **argv = NULL, text[sizeof network_format + 64];
    must(ls_comm_start(&argc, &argv, "test", &comm));
    assert_int_equal(ls_comm_get_info(comm)->world_size, 2);
    snprintf(text, sizeof text, network_format, 1.0, 1e3);
    if (ls_comm_get_info(comm)->rank == 0) must(ls_write_file(network, text, strlen(text)));
    must(ls_comm_barrier(comm));
    for (int i = 0; i < 30 && !found; i++) {
        static const char *const options[] = { "data.dataset=synthetic", "device.type=cpu", "device.threads=1",
            "data.shape=3x6x6", "data.train_samples=54", "data.test_samples=20", "train.global_batch=16",
            "train.max_updates=1", "dist.reduce_dtype=bf16" };
        double large = 1e35 * pow(1.1, i);
        ls_config cfg;
        ls_trainer *trainer;
        ls_train_summary summary;
        ls_config_defaults(&cfg);
        snprintf(cfg.model_file, sizeof cfg.model_file, "%s", network);
        for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) must(ls_config_set(&cfg, options[o]));
        must(ls_config_check(&cfg));
        must(ls_trainer_new(&cfg, comm, &trainer));
        plant(trainer, "n3.weight", -1, 1 / large);
        plant(trainer, "l.weight", -1, large);
        ls_status status = ls_trainer_run(trainer, NULL, 0, &summary);
        const ls_nonfinite *n = ls_trainer_nonfinite(trainer);
        found = n && n->cause == LS_CAUSE_SUMS;
        if (found && ls_comm_get_info(comm)->rank == 0) printf("%s\n", status.text);
        ls_trainer_free(trainer);
    }
    ls_comm_finish(comm);
    return !found;
}

static ls_status check_finite(ls_trainer *t, const ls_train_state *state) {
    return ls_run_check_finite(&t->session, &t->progress, t->saving.folder, state, 0);
}

// The reduced gradient was bad, and computing it again finds nothing.
static void what_cannot_be_repeated_is_said(void **state) {
    (void)state;
    const row r = { .name = "not repeated", .options = { "train.max_updates=2" } };
    char folder[128], network[128];
    snprintf(folder, sizeof folder, "%s/none", work);
    snprintf(network, sizeof network, "%s/none.ini", work);
    run a = { 0 };
    must(run_row(&a, &r, "device.type=ref", folder, network));
    assert_null(ls_trainer_nonfinite(a.trainer));
    ls_train_state faulty = { .skip = 1, .halted = 1, .skipped_in_row = 1, .bad_element = 3 };
    ls_status status = check_finite(a.trainer, &faulty);
    assert_int_equal(status.code, LS_NUMERIC);
    expect_text(&r, "ref", "the message", status.text, "found nothing that is not finite");
    expect_text(&r, "ref", "the message", status.text, "update 2");
    assert_int_equal(ls_trainer_nonfinite(a.trainer)->cause, LS_CAUSE_NOT_REPEATED);
    run_close(&a);
}

static ls_status no_slab(ls_device *device, ls_memory_kind kind, size_t bytes, const char *what, ls_slab **out) {
    (void)device, (void)kind, (void)bytes, (void)what, (void)out;
    return ls_fail(LS_DEVICE, "no memory is left");
}

// The search has no memory: the parameter is named whose gradient the update's statistics found, by any element of it.
static void a_search_that_fails_names_the_parameter(void **state) {
    (void)state;
    const row r = { .name = "failed search", .options = { "train.max_updates=2" } };
    char folder[128], network[128], expected[160];
    snprintf(folder, sizeof folder, "%s/search", work);
    snprintf(network, sizeof network, "%s/search.ini", work);
    run a = { 0 };
    must(run_row(&a, &r, "device.type=ref", folder, network));
    ls_trainer *t = a.trainer;
    const ls_device_api *api = t->session.compute.device->api;
    ls_device_api without_memory = *api;
    without_memory.slab_new = no_slab;
    t->session.compute.device->api = &without_memory;
    for (int p = 0; p < t->plan.graph->param_count; p++) {
        const ls_param_store *store = t->session.compute.store;
        const int64_t ends[] = { store->offset[p], store->offset[p] + store->elements[p] - 1 };
        for (int e = 0; e < 2; e++) {
            ls_train_state faulty = { .skip = 1, .halted = 1, .skipped_in_row = 1, .bad_element = ends[e] };
            ls_status status = check_finite(t, &faulty);
            assert_int_equal(status.code, LS_NUMERIC);
            snprintf(expected, sizeof expected, "first that of %s; the search", t->plan.graph->params[p].name);
            expect_text(&r, "ref", "the message", status.text, expected);
            expect_text(&r, "ref", "the message", status.text, "failed: no memory is left");
            free(t->progress.nonfinite);
            t->progress.nonfinite = NULL;
        }
    }
    t->session.compute.device->api = api;
    run_close(&a);
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "sums-in-bf16") == 0) return sums_in_bf16(argv[2]);
    with_cuda = cuda_choose() == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_causes_are_named),
        cmocka_unit_test(sums_are_told_apart),
        cmocka_unit_test(what_cannot_be_repeated_is_said),
        cmocka_unit_test(a_search_that_fails_names_the_parameter),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
