// Whole runs in one process, on synthetic data: learning, accumulation, ordered mode, loss scaling, failures, memory.
#include <math.h>
#include "train/update_internal.h"
#include "whole_run.h"

#include "support/alloc_count.c"

// Small, with all that matters to an update: batch norm, residual, dropout.
static const char network[] = "[network]\ninput = 3x8x8\n"
                              "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
                              "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
                              "[c2]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
                              "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, r1\n[r2]\nlayer = relu\n"
                              "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[d]\nlayer = dropout\np = 0.2\n"
                              "[l]\nlayer = linear\nout_features = 10\n";

static char network_path[] = "/tmp/lockstep_trainer_XXXXXX";

static int write_network(void **state) {
    (void)state;
    return run_write_network(network_path, network);
}

static int remove_network(void **state) {
    (void)state;
    return unlink(network_path);
}

static ls_status open_run(run *r, const char *const *options) {
    static const char *const none[] = { NULL };
    static const char *const common[] = { "data.dataset=synthetic", "data.shape=3x8x8", "data.train_samples=300",
        "data.test_samples=50", "train.global_batch=64", "device.threads=2", "optimizer.lr=0.1", NULL };
    return run_open(r, network_path, (const char *const *const[RUN_LISTS_MAX]){ common, options ? options : none });
}

static ls_train_summary whole_run(const char *const *options) {
    run r = { 0 };
    must(open_run(&r, options));
    ls_train_summary summary;
    must(ls_trainer_run(r.trainer, NULL, 0, &summary));
    run_close(&r);
    return summary;
}

// 300 samples in windows of 64: the last one is short, and so is its last micro-batch.
static void learns_and_counts(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=ref", "device.type=cpu" };
    for (int d = 0; d < 2; d++) {
        const char *options[] = { devices[d], "train.epochs=30", "train.micro_batch=16", NULL };
        ls_train_summary s = whole_run(options);
        assert_int_equal(s.updates, 30 * 5);
        assert_int_equal(s.samples_seen, 30 * 300);
        assert_int_equal(s.evaluation.test_samples, 50);
        assert_string_equal(s.status, "completed");
        if (s.train_loss > 1.9)
            fail_msg("%s: the loss of the last epoch is %g; guessing gives 2.3", devices[d], s.train_loss);
    }
}

static void adamw_learns(void **state) {
    (void)state;
    const char *options[] = { "device.type=cpu", "train.epochs=20", "optimizer.kind=adamw", "optimizer.lr=0.01",
        "optimizer.weight_decay=0.01", "optimizer.groups=l.* lr=0.5; n1.* decay=0.001", NULL };
    run r = { 0 };
    must(open_run(&r, options));
    ls_train_summary s;
    must(ls_trainer_run(r.trainer, NULL, 0, &s));
    if (s.train_loss > 1.9) fail_msg("the loss of the last epoch is %g; guessing gives 2.3", s.train_loss);
    // the two moments have memory of their own: the first goes both ways, the second is a mean of squares
    const ls_param_store *a = r.trainer->session.compute.store;
    const float *moment1 = ls_buffer_host(ls_param_store_range(a->state, 0, a->trained_elements, sizeof(float)));
    const float *moment2 = moment1 + a->trained_elements;
    int negative = 0, positive = 0;
    for (int64_t i = 0; i < a->trained_elements; i++) {
        assert_true(moment2[i] >= 0);
        negative += moment1[i] < 0;
        positive += moment2[i] > 0;
    }
    assert_true(negative > 0 && positive > 0);
    run_close(&r);
}

static void the_same_run_twice(void **state) {
    (void)state;
    const char *options[] = { "device.type=cpu", "train.epochs=2", "data.flip=true", "data.pad=1", NULL };
    uint64_t first = whole_run(options).weights_hash;
    assert_true(first == whole_run(options).weights_hash);
    const char *other_seed[] = { "device.type=cpu", "train.epochs=2", "data.flip=true", "data.pad=1", "run.seed=2",
        NULL };
    assert_true(first != whole_run(other_seed).weights_hash);
}

// What weight_init = whiten is for: filters W with W A W^T = 1 (but for eps), A of the patches of the first pictures,
// whatever is done to them in training.
// --- several runs in one process -----------------------------------------------------------------

enum { SIDE_UPDATES = 12, SIDE_RUNS = 3 };

typedef struct {
    double loss[SIDE_UPDATES];
    ls_train_evaluation evaluation;
    uint64_t hash;
} side_result;

static void side_update(run *r, int u, side_result *result) {
    must(ls_trainer_updates(r->trainer, 1, &result->loss[u]));
}

static void side_end(run *r, side_result *result) {
    must(ls_trainer_evaluate(r->trainer, 1, &result->evaluation));
    must(ls_param_store_hash(r->trainer->session.compute.store, &result->hash));
}

static void expect_same_side(int index, const side_result *alone, const side_result *beside) {
    for (int u = 0; u < SIDE_UPDATES; u++)
        if (memcmp(&alone->loss[u], &beside->loss[u], sizeof alone->loss[u]) != 0)
            fail_msg(
                "run %d, update %d: loss %.17g alone, %.17g beside others", index, u, alone->loss[u], beside->loss[u]);
    assert_true(alone->hash == beside->hash);
    assert_true(memcmp(&alone->evaluation.test_loss, &beside->evaluation.test_loss, sizeof(double)) == 0);
    assert_true(memcmp(&alone->evaluation.tta_loss, &beside->evaluation.tta_loss, sizeof(double)) == 0);
}

// Nothing about a run is static: runs that take turns, update by update, have the bits of runs alone. They differ in all
// that a run could leave behind for another: seed, order, pictures, batches, optimizer, rescaling, average, arithmetic.
static void runs_side_by_side(void **state) {
    (void)state;
    static const char *const options[SIDE_RUNS][RUN_OPTIONS_MAX] = {
        { "device.type=cpu", "run.seed=1", "optimizer.kind=muon", "optimizer.renormalise_every=3", "data.flip=true",
            "data.pad=1", "eval.tta=flip", NULL },
        { "device.type=cpu", "run.seed=2", "train.micro_batch=16", "optimizer.kind=adamw", "optimizer.lr=0.01",
            "average.kind=ema", "train.class_weights=balanced", NULL },
        { "device.type=cpu", "run.seed=2", "train.micro_batch=16", "run.deterministic=true", "data.shuffle=false",
            "optimizer.kind=muon", "optimizer.renormalise_every=2", NULL },
    };
    side_result alone[SIDE_RUNS] = { 0 }, beside[SIDE_RUNS] = { 0 };
    run r[SIDE_RUNS] = { 0 };
    for (int i = 0; i < SIDE_RUNS; i++) {
        must(open_run(&r[i], options[i]));
        for (int u = 0; u < SIDE_UPDATES; u++) side_update(&r[i], u, &alone[i]);
        side_end(&r[i], &alone[i]);
        run_close(&r[i]);
    }
    for (int i = 0; i < SIDE_RUNS; i++) must(open_run(&r[i], options[i]));
    for (int u = 0; u < SIDE_UPDATES; u++)
        for (int i = 0; i < SIDE_RUNS; i++) side_update(&r[i], u, &beside[i]);
    for (int i = 0; i < SIDE_RUNS; i++) side_end(&r[i], &beside[i]);
    run_close(&r[0]); // the others go on after one has ended
    for (int i = 1; i < SIDE_RUNS; i++) must(ls_trainer_updates(r[i].trainer, 1, NULL));
    for (int i = 1; i < SIDE_RUNS; i++) run_close(&r[i]);
    for (int i = 0; i < SIDE_RUNS; i++) expect_same_side(i, &alone[i], &beside[i]);
    assert_true(alone[0].hash != alone[1].hash && alone[1].hash != alone[2].hash);
}

static void whitening_whitens(void **state) {
    (void)state;
    enum { PICTURES = 70, PATCH = 12, SIDE = 8 };
    static const char whitening[] =
        "[network]\ninput = 3x8x8\n[c]\nlayer = conv2d\nout_channels = 24\nkernel = 2\nstride = 2\npadding = 1\n"
        "weight_init = whiten\nwhiten_samples = 70\nwhiten_eps = 1e-6\n"
        "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n";
    char path[] = "/tmp/lockstep_whiten_XXXXXX";
    assert_int_equal(run_write_network(path, whitening), 0);
    static const char *const options[] = { "data.dataset=synthetic", "data.shape=3x8x8", "data.train_samples=300",
        "data.test_samples=50", "data.pad=2", "data.flip=true", "data.mean=0.3,0.4,0.5", "data.std=0.2,0.25,0.3",
        NULL };
    run r = { 0 };
    must(run_open(&r, path, (const char *const *const[RUN_LISTS_MAX]){ options }));
    float weight[24][PATCH], table[3][256];
    ls_param_store_export(r.trainer->session.compute.store, 0, &weight[0][0]);
    ls_dataset_table(r.trainer->plan.train_data, &table[0][0]);
    double product[24][24] = { { 0 } };
    for (int k = 0; k < PICTURES; k++) {
        uint8_t pixels[3][SIDE][SIDE];
        int32_t label;
        must(ls_dataset_read(r.trainer->plan.train_data, k, &pixels[0][0][0], &label));
        for (int at = 0; at < (SIDE - 1) * (SIDE - 1); at++) {
            double out[24] = { 0 };
            for (int f = 0; f < 24; f++)
                for (int i = 0; i < PATCH; i++)
                    out[f] += weight[f][i] *
                              table[i / 4][pixels[i / 4][at / (SIDE - 1) + i / 2 % 2][at % (SIDE - 1) + i % 2]];
            for (int f = 0; f < 24 * 24; f++)
                product[f / 24][f % 24] += out[f / 24] * out[f % 24] / (PICTURES * (SIDE - 1) * (SIDE - 1));
        }
    }
    for (int f = 0; f < 24 * 24; f++) {
        const double wanted = f / 24 == f % 24 ? 1 : f / 24 % PATCH == f % 24 % PATCH ? -1 : 0;
        if (fabs(product[f / 24][f % 24] - wanted) > 1e-5)
            fail_msg("filters %d and %d: %g, expected %g", f / 24, f % 24, product[f / 24][f % 24], wanted);
    }
    run_close(&r);
    unlink(path);
}

// The number of threads and of loader workers changes nothing.
static void threads_do_not_matter(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=ref", "device.type=cpu" };
    for (int d = 0; d < 2; d++) {
        const char *one[] = { devices[d], "train.epochs=2", "device.threads=1", "data.workers=1", NULL };
        const char *three[] = { devices[d], "train.epochs=2", "device.threads=3", "data.workers=3", "data.prefetch=7",
            NULL };
        assert_true(whole_run(one).weights_hash == whole_run(three).weights_hash);
    }
}

// A resident data set gives the same batches as the ring, in training and in evaluation.
static void resident_data_are_the_same(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=ref", "device.type=cpu" };
    for (int d = 0; d < 2; d++) {
        const char *ring[] = { devices[d], "train.epochs=2", "train.micro_batch=16", "data.flip=true", "data.pad=2",
            "data.cutout=3", "data.crop_scale=0.3", "data.mixup=1", NULL };
        const char *resident[] = { devices[d], "train.epochs=2", "train.micro_batch=16", "data.flip=true", "data.pad=2",
            "data.cutout=3", "data.crop_scale=0.3", "data.mixup=1", "data.loader=resident", NULL };
        ls_train_summary a = whole_run(ring), b = whole_run(resident);
        assert_true(a.weights_hash == b.weights_hash);
        assert_true(a.train_loss == b.train_loss && a.evaluation.test_loss == b.evaluation.test_loss);
        assert_true(a.evaluation.test_accuracy == b.evaluation.test_accuracy);
    }
}

// Without batch norm and dropout, one micro-batch of 64 and four of 16 are the same sum,
// but for rounding; in ordered mode as well.
static void accumulation_is_a_sum(void **state) {
    (void)state;
    static const char plain[] =
        "[network]\ninput = 3x8x8\n[c]\nlayer = conv2d\nout_channels = 8\nkernel = 3\n[r]\nlayer = relu\n"
        "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n";
    char path[] = "/tmp/lockstep_plain_XXXXXX", option[64];
    int fd = mkstemp(path);
    assert_int_equal(write(fd, plain, sizeof plain - 1), (ssize_t)sizeof plain - 1);
    close(fd);
    snprintf(option, sizeof option, "model.file=%s", path);
    const char *variants[][4] = {
        { option, "train.micro_batch=64", NULL },
        { option, "train.micro_batch=16", NULL },
        { option, "train.micro_batch=16", "run.deterministic=true", NULL },
    };
    double loss[3][8];
    for (int v = 0; v < 3; v++) {
        run r = { 0 };
        must(open_run(&r, variants[v]));
        must(ls_trainer_updates(r.trainer, 8, loss[v]));
        run_close(&r);
    }
    for (int v = 1; v < 3; v++)
        for (int u = 0; u < 8; u++)
            if (fabs(loss[v][u] - loss[0][u]) > 1e-5 * loss[0][u])
                fail_msg("variant %d, update %d: loss %.9g, expected %.9g", v, u, loss[v][u], loss[0][u]);
    unlink(path);
}

// As many buckets as there can be: one for each trained tensor, of 4096 bytes at least, and one for the statistics.
static void a_bucket_for_each_tensor(void **state) {
    (void)state;
    static const char wide[] = "[network]\ninput = 3x8x8\n"
                               "[c]\nlayer = conv2d\nout_channels = 1024\nkernel = 8\nbias = false\n"
                               "[n]\nlayer = batchnorm2d\n[f]\nlayer = flatten\n"
                               "[l]\nlayer = linear\nout_features = 10\nbias = false\n";
    const char *common[] = { "device.type=cpu", "data.dataset=synthetic", "data.shape=3x8x8", "data.train_samples=64",
        "data.test_samples=10", "train.global_batch=32", "device.threads=2", "run.deterministic=true", NULL };
    const char *bytes[2][2] = { { "dist.bucket_bytes=1073741824" }, { "dist.bucket_bytes=4096" } };
    const int buckets[2] = { 2, 5 };
    uint64_t hash[2];
    char path[] = "/tmp/lockstep_trainer_XXXXXX";
    assert_int_equal(run_write_network(path, wide), 0);
    for (int i = 0; i < 2; i++) {
        run r = { 0 };
        ls_train_summary summary;
        must(run_open(&r, path, (const char *const *const[RUN_LISTS_MAX]){ common, bytes[i] }));
        assert_int_equal(r.trainer->session.update->bucket_count, buckets[i]);
        assert_int_equal(
            r.trainer->session.update->sum_count, buckets[i] - 1); // the statistics go with the last trained one
        must(ls_trainer_run(r.trainer, NULL, 0, &summary));
        hash[i] = summary.weights_hash;
        run_close(&r);
    }
    unlink(path);
    assert_true(hash[0] == hash[1]);
}

static void sum_and_mean_loss(void **state) {
    (void)state;
    const char *mean[] = { "device.type=ref", "data.train_samples=256", NULL };
    const char *sum[] = { "device.type=ref", "data.train_samples=256", "train.loss_reduction=sum",
        "optimizer.lr=0.0015625", NULL };
    double a[6], b[6];
    run r = { 0 };
    must(open_run(&r, mean));
    must(ls_trainer_updates(r.trainer, 6, a));
    run_close(&r);
    must(open_run(&r, sum));
    must(ls_trainer_updates(r.trainer, 6, b));
    run_close(&r);
    for (int u = 0; u < 6; u++) assert_true(fabs(a[u] - b[u]) < 1e-4 * a[u]); // rate 0.1 / 64
}

// fp16: a scale that must overflow is halved until updates pass; skipped ones leave weights and momentum alone.
static void loss_scale_recovers(void **state) {
    (void)state;
    const char *options[] = { "device.type=ref", "train.precision=fp16", "loss_scale.initial=16777216",
        "train.global_batch=32", "train.micro_batch=16", NULL };
    run r = { 0 };
    must(open_run(&r, options));
    uint64_t before, after;
    must(ls_param_store_hash(r.trainer->session.compute.store, &before));
    ls_train_state s;
    must(run_one_update(r.trainer, &s));
    assert_int_equal(s.skip, 1);
    assert_true(s.loss_scale == 8388608.0f);
    assert_int_equal(s.applied, 0);
    must(ls_param_store_hash(r.trainer->session.compute.store, &after));
    assert_true(before == after);
    for (int u = 0; u < 30; u++) must(run_one_update(r.trainer, &s));
    assert_int_equal(s.skip, 0);
    assert_int_equal(s.applied + s.skipped, 31);
    assert_true(s.skipped < 20 && s.loss_scale < 8388608.0f);
    must(ls_param_store_hash(r.trainer->session.compute.store, &after));
    assert_true(before != after);
    run_close(&r);
}

static void half_precisions_learn_as_fp32(void **state) {
    (void)state;
    static const char *const optimizers[] = { "optimizer.kind=sgd", "optimizer.kind=muon" };
    static const char *const runs[][2] = { { "device.type=ref", "train.precision=fp32" },
        { "device.type=ref", "train.precision=bf16" }, { "device.type=ref", "train.precision=fp16" },
        { "device.type=cpu", "train.precision=bf16" } };
    for (int o = 0; o < 2; o++) {
        double expected = 0;
        for (int r = 0; r < 4; r++) {
            const char *options[] = { runs[r][0], runs[r][1], optimizers[o], "train.epochs=8", NULL };
            const double loss = whole_run(options).train_loss;
            if (r == 0) expected = loss;
            if (!(fabs(loss - expected) < 0.05 * expected))
                fail_msg("%s, %s, %s: loss %g, in fp32 %g", optimizers[o], runs[r][0], runs[r][1], loss, expected);
        }
    }
}

static const struct {
    const char *name, *options[6];
    ls_code code;
    const char *says[3];
} failures[] = {
    { "diverges", { "device.type=ref", "optimizer.lr=1000", "optimizer.momentum=0.99", "train.epochs=60" }, LS_NUMERIC,
        { "not finite", "optimizer.lr" } },
    { "diverges in ordered mode",
        { "device.type=ref", "optimizer.lr=1000", "optimizer.momentum=0.99", "train.epochs=60",
            "run.deterministic=true" },
        LS_NUMERIC, { "ordered mode", "no NaN", "optimizer.lr" } },
    { "fp16 at its floor",
        { "device.type=ref", "train.precision=fp16", "loss_scale.initial=16777216", "loss_scale.minimum=16777216" },
        LS_NUMERIC, { "overflowed in fp16", "backward", "loss_scale.max_skips" } },
    { "fp16 on cpu", { "device.type=cpu", "train.precision=fp16" }, LS_USAGE, { "fp16" } },
    { "wrong shape", { "data.shape=3x16x16" }, LS_USAGE, { "3x8x8", "3x16x16", "model.file" } },
    { "wrong classes", { "data.classes=7" }, LS_USAGE, { "10 outputs", "7 classes" } },
    { "no network file", { "model.file=/tmp/lockstep/no/such.ini" }, LS_USAGE, { "/tmp/lockstep/no/such.ini" } },
    { "a group that matches nothing", { "optimizer.groups=nosuch* decay=0" }, LS_USAGE, { "nosuch*" } },
    { "cuda", { "device.type=cuda" }, LS_DEVICE, { "CUDA" } },
};

static void failures_say_why(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof failures / sizeof *failures; f++) {
        run r = { 0 };
        ls_train_summary summary;
        ls_status status = open_run(&r, failures[f].options);
        if (!ls_failed(status)) status = ls_trainer_run(r.trainer, NULL, 0, &summary);
        if (status.code != failures[f].code)
            fail_msg("%s: code %d (%s), expected %d", failures[f].name, status.code, status.text ? status.text : "",
                failures[f].code);
        for (int s = 0; s < 3 && failures[f].says[s]; s++)
            if (!strstr(status.text, failures[f].says[s]))
                fail_msg("%s: the message lacks '%s': %s", failures[f].name, failures[f].says[s], status.text);
        run_close(&r);
    }
}

static void updates_allocate_nothing(void **state) {
    (void)state;
    if (!LS_COUNTS_ALLOCATIONS) skip(); // sanitizers have their own allocator
    static const char *const devices[] = { "device.type=ref", "device.type=cpu" };
    for (int r = 0; r < 3; r++) {
        const char *device = devices[r > 0], *precision = r == 2 ? "train.precision=bf16" : "train.precision=fp32";
        const char *options[] = { device, precision, "train.epochs=3", "train.micro_batch=16", "data.flip=true",
            "data.pad=1", NULL };
        uint64_t before = ls_allocation_count();
        ls_train_summary s = whole_run(options);
        assert_true(ls_allocation_count() > before); // the counter counts
        if (s.allocations_in_updates)
            fail_msg("%s, %s: %llu allocations", device, precision, (unsigned long long)s.allocations_in_updates);
    }
}

static void count_evaluation(void *context, const ls_train_evaluation *evaluation) {
    assert_int_equal(evaluation->test_samples, 50);
    ++*(int *)context;
}

static void every_observer_learns_of_an_evaluation(void **state) {
    (void)state;
    const char *options[] = { "device.type=cpu", "train.epochs=3", "train.eval_every=1", NULL };
    run r = { 0 };
    must(open_run(&r, options));
    int seen[2] = { 0 };
    const ls_train_observer observers[] = { { .context = &seen[0], .evaluated = count_evaluation },
        { .context = &seen[1], .evaluated = count_evaluation } };
    ls_train_summary summary;
    must(ls_trainer_run(r.trainer, observers, 2, &summary));
    run_close(&r);
    assert_int_equal(seen[0], 3);
    assert_int_equal(seen[1], 3);
}

// Training may follow: adamw's count of updates and the rate are as before.
static void layer_times_leave_the_state(void **state) {
    (void)state;
    const char *options[] = { "device.type=cpu", "train.micro_batch=16", "optimizer.kind=adamw", NULL };
    run r = { 0 };
    must(open_run(&r, options));
    ls_program_inputs inputs = { 0 };
    ls_update_inputs(r.trainer->session.update, &inputs);
    ls_train_state before, *now = ls_buffer_host(inputs.buffer[LS_INPUT_STATE]);
    memcpy(&before, now, sizeof before);
    ls_layer_time *rows;
    int count;
    must(ls_trainer_layer_times(r.trainer, 1e-4, &rows, &count));
    free(rows);
    assert_memory_equal(now, &before, sizeof before);
    run_close(&r);
}

static void weights_survive_a_file(void **state) {
    (void)state;
    char path[] = "/tmp/lockstep_weights_XXXXXX";
    close(mkstemp(path));
    const char *options[] = { "device.type=cpu", "train.epochs=2", NULL };
    run a = { 0 }, b = { 0 };
    ls_train_summary summary;
    must(open_run(&a, options));
    must(ls_trainer_run(a.trainer, NULL, 0, &summary));
    must(ls_trainer_save_weights(a.trainer, path));
    const char *other[] = { "device.type=ref", NULL };
    must(open_run(&b, other));
    must(ls_trainer_load_weights(b.trainer, path));
    uint64_t hash;
    must(ls_param_store_hash(b.trainer->session.compute.store, &hash));
    assert_true(hash == summary.weights_hash);
    ls_train_evaluation e = { 0 };
    must(ls_trainer_evaluate(b.trainer, 0, &e));
    assert_true(fabs(e.test_loss - summary.evaluation.test_loss) < 1e-4 * e.test_loss);
    run_close(&a);
    run_close(&b);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_and_counts),
        cmocka_unit_test(adamw_learns),
        cmocka_unit_test(the_same_run_twice),
        cmocka_unit_test(runs_side_by_side),
        cmocka_unit_test(whitening_whitens),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(resident_data_are_the_same),
        cmocka_unit_test(accumulation_is_a_sum),
        cmocka_unit_test(a_bucket_for_each_tensor),
        cmocka_unit_test(sum_and_mean_loss),
        cmocka_unit_test(loss_scale_recovers),
        cmocka_unit_test(half_precisions_learn_as_fp32),
        cmocka_unit_test(failures_say_why),
        cmocka_unit_test(updates_allocate_nothing),
        cmocka_unit_test(every_observer_learns_of_an_evaluation),
        cmocka_unit_test(layer_times_leave_the_state),
        cmocka_unit_test(weights_survive_a_file),
    };
    return cmocka_run_group_tests(tests, write_network, remove_network);
}
