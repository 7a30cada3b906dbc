// The running average of weights and statistics, beside the weights that it is of: by the formula, in double, from the
// snapshots of a run without it; what is evaluated and saved; on every device in host memory, and in 16 bits.
#include <math.h>
#include "train/whole_run.h"

static const char network[] = "[network]\ninput = 3x6x6\n"
                              "[c1]\nlayer = conv2d\nout_channels = 9\nkernel = 3\npadding = 1\nbias = false\n"
                              "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
                              "[p]\nlayer = globalavgpool\n[l]\nlayer = linear\nout_features = 10\n";
static char network_path[] = "/tmp/lockstep_average_XXXXXX";

static int write_network(void **state) {
    (void)state;
    return run_write_network(network_path, network);
}

static int remove_network(void **state) {
    (void)state;
    return unlink(network_path);
}

// 54 samples in windows of 16: four updates an epoch.
static const char *const common[] = { "data.dataset=synthetic", "device.threads=2", "data.shape=3x6x6",
    "data.train_samples=54", "data.test_samples=20", "train.global_batch=16", "optimizer.lr=0.1", "train.epochs=3",
    "optimizer.groups=l.bias frozen", NULL };
enum { UPDATES = 12, START = 3, EVERY = 4 }; // averaged after updates 7 and 11
static const char *const average[] = { "average.start=0.6", "average.every=4", "average.decay=0.75",
    "average.decay_power=2", NULL };

static void open_with(run *r, const char *device, const char *precision, const char *kind) {
    const char *const options[] = { device, precision, kind, NULL };
    must(run_open(r, network_path, (const char *const *const[RUN_LISTS_MAX]){ common, average, options }));
}

static ls_snapshot *snapshot_of(run *r) {
    ls_snapshot *s;
    must(ls_trainer_snapshot_new(r->trainer, &s));
    must(ls_trainer_snapshot(r->trainer, s));
    return s;
}

static const ls_snapshot_tensor *find(const ls_snapshot *s, const char *name) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->tensors[i].name, name) == 0) return &s->tensors[i];
    return NULL;
}

static void expect_near(const char *what, const ls_snapshot *s, const char *suffix, const double *expected) {
    size_t at = 0;
    for (int p = 0; p < s->params; at += (size_t)s->tensors[p++].elements) {
        char name[LS_SNAPSHOT_NAME_BYTES * 2];
        snprintf(name, sizeof name, "%s%s", s->tensors[p].name, suffix);
        const ls_snapshot_tensor *tensor = find(s, name);
        if (strcmp(s->tensors[p].name, "l.bias") == 0) { // frozen: it has no average
            assert_true(!tensor == (*suffix != 0));
            continue;
        }
        if (!tensor) fail_msg("%s: no %s", what, name);
        for (int64_t i = 0; i < tensor->elements; i++)
            if (!(fabs((double)tensor->values[i] - expected[at + (size_t)i]) <=
                    4e-7 * (1 + fabs(expected[at + (size_t)i]))))
                fail_msg("%s: %s, element %lld: %.9g, expected %.9g", what, name, (long long)i,
                    (double)tensor->values[i], expected[at + (size_t)i]);
    }
}

static double *doubles_of(const ls_snapshot *s) {
    size_t count = 0;
    for (int p = 0; p < s->params; p++) count += (size_t)s->tensors[p].elements;
    double *out = calloc(count, sizeof *out), *at = out;
    for (int p = 0; p < s->params; p++)
        for (int64_t i = 0; i < s->tensors[p].elements; i++) *at++ = (double)s->tensors[p].values[i];
    return out;
}

static void mix(double *mean, const ls_snapshot *s, int update) {
    const double decay = 0.75 * pow((double)update / UPDATES, 2);
    double *now = doubles_of(s);
    size_t at = 0;
    for (int p = 0; p < s->params; p++)
        for (int64_t i = 0; i < s->tensors[p].elements; i++, at++) mean[at] = decay * mean[at] + (1 - decay) * now[at];
    free(now);
}

static void run_updates(run *r, int updates) {
    must(ls_trainer_updates(r->trainer, updates, NULL));
}

static void ema_stands_beside_the_run(const char *device, const char *precision) {
    run plain = { 0 }, averaged = { 0 };
    double *mean = NULL;
    open_with(&plain, device, precision, "average.kind=off");
    open_with(&averaged, device, precision, "average.kind=ema");
    for (int update = 1; update <= UPDATES; update++) {
        run_updates(&plain, 1);
        run_updates(&averaged, 1);
        ls_snapshot *expected = snapshot_of(&plain), *got = snapshot_of(&averaged);
        double *now = doubles_of(expected);
        if (update == START) mean = doubles_of(expected);
        if (update > START && (update - START) % EVERY == 0) mix(mean, expected, update);
        expect_near("the run itself", got, ".unaveraged", now);
        expect_near("the average", got, "", update > START ? mean : now);
        free(now);
        ls_snapshot_free(expected);
        ls_snapshot_free(got);
    }
    free(mean);
    run_close(&plain);
    run_close(&averaged);
}

static void ema(void **state) {
    (void)state;
    ema_stands_beside_the_run("device.type=ref", "train.precision=fp32");
    ema_stands_beside_the_run("device.type=ref", "train.precision=bf16");
    ema_stands_beside_the_run("device.type=cpu", "train.precision=fp32");
}

// Up to the first averaging both runs are the same; then the weights are the average.
static void lookahead_on(const char *device, const char *precision) {
    run plain = { 0 }, averaged = { 0 };
    open_with(&plain, device, precision, "average.kind=off");
    open_with(&averaged, device, precision, "average.kind=lookahead");
    run_updates(&plain, START);
    ls_snapshot *start = snapshot_of(&plain);
    run_updates(&plain, EVERY);
    ls_snapshot *fast = snapshot_of(&plain);
    run_updates(&averaged, START + EVERY);
    double *mean = doubles_of(start);
    mix(mean, fast, START + EVERY);
    ls_snapshot *got = snapshot_of(&averaged);
    expect_near("lookahead", got, "", mean);
    expect_near("lookahead's average", got, ".slow", mean);
    run_updates(&averaged, UPDATES - START - EVERY); // the last update is not due by counting
    ls_snapshot *end = snapshot_of(&averaged);
    double *last = doubles_of(end);
    expect_near("at the run's end", end, ".slow", last);
    free(mean);
    free(last);
    ls_snapshot *all[] = { start, fast, got, end };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ls_snapshot_free(all[i]);
    run_close(&plain);
    run_close(&averaged);
}

static void lookahead(void **state) {
    (void)state;
    lookahead_on("device.type=ref", "train.precision=fp32");
    lookahead_on("device.type=ref", "train.precision=fp16");
    lookahead_on("device.type=cpu", "train.precision=fp32");
}

// The weights file and the evaluation are those of a network with the average's weights, and leave the run as it was.
static void the_average_is_evaluated_and_saved(const char *device, const char *precision) {
    char path[] = "/tmp/lockstep_average_weights_XXXXXX";
    run averaged = { 0 }, other = { 0 };
    ls_train_summary summary;
    ls_train_evaluation evaluation;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    open_with(&averaged, device, precision, "average.kind=ema");
    must(ls_trainer_run(averaged.trainer, NULL, 0, &summary));
    ls_snapshot *before = snapshot_of(&averaged);
    must(ls_trainer_save_weights(averaged.trainer, path));
    ls_snapshot *after = snapshot_of(&averaged);
    assert_memory_equal(before->values, after->values, before->bytes);
    open_with(&other, device, precision, "average.kind=off");
    must(ls_trainer_load_weights(other.trainer, path));
    uint64_t hash;
    must(ls_param_store_hash(other.trainer->session.compute.store, &hash));
    must(ls_trainer_evaluate(other.trainer, 1, &evaluation));
    assert_true(hash == summary.weights_hash);
    assert_true(evaluation.test_loss == summary.evaluation.test_loss);
    ls_snapshot *loaded = snapshot_of(&other);
    for (int p = 0; p < loaded->params; p++)
        assert_memory_equal(
            loaded->tensors[p].values, before->tensors[p].values, (size_t)loaded->tensors[p].elements * sizeof(float));
    assert_true(memcmp(find(before, "c1.weight")->values, find(before, "c1.weight.unaveraged")->values, 64) != 0);
    ls_snapshot_free(before);
    ls_snapshot_free(after);
    ls_snapshot_free(loaded);
    run_close(&averaged);
    run_close(&other);
    unlink(path);
}

static void evaluated_and_saved(void **state) {
    (void)state;
    the_average_is_evaluated_and_saved("device.type=ref", "train.precision=bf16");
    the_average_is_evaluated_and_saved("device.type=cpu", "train.precision=fp32");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(ema), cmocka_unit_test(lookahead),
        cmocka_unit_test(evaluated_and_saved) };
    return cmocka_run_group_tests(tests, write_network, remove_network);
}
