// Whole training on the CUDA device (the emulated one, or this machine's GPU with LOCKSTEP_TEST_GPU=1): recorded
// updates are the eager ones bit for bit, both loaders feed the same, accumulation, the loss scale, failures noticed
// while the host is updates ahead; and all of it agrees with ref.
#include <math.h>
#include "device/cuda_device.h"
#include "whole_run.h"

// Small, with all that matters to an update: batch norm with and without a residual and with pooling, dropout, a bias.
static const char small_network[] =
    "[network]\ninput = 3x6x6\n"
    "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
    "[c2]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, r1\n[r2]\nlayer = relu\n"
    "[c3]\nlayer = conv2d\nout_channels = 12\nkernel = 3\npadding = 1\nbias = false\n"
    "[n3]\nlayer = batchnorm2d\n[r3]\nlayer = relu\n"
    "[p3]\nlayer = maxpool2d\nkernel = 2\n"
    "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[d]\nlayer = dropout\np = 0.2\n"
    "[l]\nlayer = linear\nout_features = 10\n";

static char network_path[] = "/tmp/lockstep_cuda_XXXXXX";

#define TEACHER "distill.weights=/tmp/lockstep_cuda_teacher.safetensors"
static const char *const teacher_path = TEACHER + sizeof "distill.weights";

static int write_network(void **state) {
    (void)state;
    return run_write_network(network_path, small_network);
}

static int remove_network(void **state) {
    (void)state;
    return unlink(network_path);
}

// 54 samples in windows of 16: the last has 6, which make a short micro-batch. No epoch's micro-batches are a multiple
// of the device's three slots, so that every slot holds every kind of micro-batch at some time.
static const char *const small[] = { "data.shape=3x6x6", "data.train_samples=54", "data.test_samples=20",
    "train.global_batch=16", "optimizer.lr=0.1", "train.epochs=3", "data.flip=true", "data.pad=1", "data.cutout=2",
    "train.resolution=0:4, 1:5x7, 2:6", "train.class_weights=balanced", NULL };

// A few large steps' worth of work, for tests that run it often.
static const char *const tiny[] = { "data.shape=3x6x6", "data.train_samples=40", "data.test_samples=20",
    "train.global_batch=16", "optimizer.lr=0.1", "train.epochs=3", "data.flip=true", "data.pad=1", "data.cutout=2",
    "train.resolution=0:4, 1:5x7, 2:6", NULL };

static ls_status open_run(run *r, const char *device, const char *const *base, const char *const *options) {
    static const char *const none[] = { NULL };
    const char *const common[] = { "data.dataset=synthetic", "device.threads=2", "device.tf32=false", device, NULL };
    return run_open(
        r, network_path, (const char *const *const[RUN_LISTS_MAX]){ common, base, options ? options : none });
}

static ls_train_summary whole_run(const char *device, const char *const *base, const char *const *options) {
    run r = { 0 };
    ls_train_summary summary;
    must(open_run(&r, device, base, options));
    must(ls_trainer_run(r.trainer, NULL, 0, &summary));
    run_close(&r);
    return summary;
}

// The network, and the teacher of the variants that have one: the same network, trained for an epoch.
static int set_up(void **state) {
    static const char *const options[] = { "train.epochs=1", NULL };
    run r = { 0 };
    ls_train_summary summary;
    if (write_network(state) != 0) return -1;
    must(open_run(&r, "device.type=ref", small, options));
    must(ls_trainer_run(r.trainer, NULL, 0, &summary));
    must(ls_trainer_save_weights(r.trainer, teacher_path));
    run_close(&r);
    return 0;
}

static int tear_down(void **state) {
    unlink(teacher_path);
    return remove_network(state);
}

static const struct {
    const char *name, *options[RUN_OPTIONS_MAX];
} variants[] = {
    { "one micro-batch", { NULL } },
    { "four micro-batches", { "train.micro_batch=4" } },
    { "bf16", { "train.precision=bf16", "train.micro_batch=8" } },
    // no overflow: cuDNN's weight gradients are fp16 and overflow before ref's, and one update more would be skipped
    { "fp16", { "train.precision=fp16", "train.micro_batch=8", "loss_scale.initial=1024" } },
    { "ordered", { "run.deterministic=true", "train.micro_batch=4" } },
    { "ordered in bf16", { "run.deterministic=true", "train.precision=bf16", "train.micro_batch=8" } },
    { "adamw, groups", { "optimizer.kind=adamw", "optimizer.lr=0.01", "optimizer.groups=c2.* lr=0.5 decay=0.01",
                           "optimizer.weight_decay=0.001" } },
    { "rmsprop", { "optimizer.kind=rmsprop", "optimizer.lr=0.001", "optimizer.weight_decay=0.1" } },
    { "lion", { "optimizer.kind=lion", "optimizer.lr=0.001", "optimizer.weight_decay=0.1" } },
    { "muon, frozen, rates with an end",
        { "optimizer.kind=muon", "optimizer.nesterov=true", "optimizer.renormalise_every=2", "optimizer.ns_steps=3",
            "optimizer.groups=c2.weight frozen; c2.bias end=1.5 lr=0.2; l.* kind=sgd lr=0.3 momentum=0.85 "
            "frozen_after=2; "
            "n?.weight frozen" } },
    { "lars, with an average",
        { "optimizer.kind=lars", "optimizer.trust=0.02", "optimizer.weight_decay=0.01", "average.kind=lookahead",
            "average.every=2", "average.decay=0.6", "optimizer.groups=n?.* frozen; l.* kind=muon" } },
    { "muon in bf16", { "train.precision=bf16", "optimizer.kind=muon", "optimizer.groups=c1.* frozen" } },
    { "restarts", { "schedule.kind=cosine-restarts", "schedule.period=0.3", "schedule.period_factor=2" } },
    // class weights and a teacher exclude each other
    { "distilled", { "train.class_weights=", TEACHER, "train.micro_batch=8", "distill.temperature=2" } },
    { "distilled in bf16, ordered", { "train.class_weights=", TEACHER, "distill.share=0.7", "train.precision=bf16",
                                        "run.deterministic=true", "train.micro_batch=4" } },
    { "recomputed", { "train.recompute=blocks", "train.micro_batch=8" } },
};
enum { VARIANTS = sizeof variants / sizeof *variants };
#if defined(__SANITIZE_ADDRESS__)
enum { STEP = 3 }; // memory is what it looks at: a third of the variants
#else
enum { STEP = 1 };
#endif

static ls_train_summary variant_run(int v, const char *a, const char *b) {
    const char *options[RUN_OPTIONS_MAX + 2];
    int count = 0;
    while (variants[v].options[count]) {
        options[count] = variants[v].options[count];
        count++;
    }
    options[count++] = a;
    options[count++] = b;
    options[count] = NULL;
    return whole_run("device.type=cuda", small, options);
}

static void same_run(int v, const char *what, const ls_train_summary *a, const ls_train_summary *b) {
    if (a->weights_hash != b->weights_hash || a->evaluation.test_loss != b->evaluation.test_loss)
        fail_msg("%s: %s differ: test loss %.9g and %.9g", variants[v].name, what, a->evaluation.test_loss,
            b->evaluation.test_loss);
}

static void recorded_updates_are_the_eager_ones(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v += STEP) {
        ls_train_summary recorded = variant_run(v, "device.graphs=true", "data.loader=stream");
        ls_train_summary eager = variant_run(v, "device.graphs=false", "data.loader=stream");
        same_run(v, "recorded and eager updates", &recorded, &eager);
    }
}

static void both_loaders_feed_the_same(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++) {
        ls_train_summary ring = variant_run(v, "device.graphs=true", "data.loader=stream");
        ls_train_summary resident = variant_run(v, "device.graphs=true", "data.loader=resident");
        same_run(v, "ring and resident data", &ring, &resident);
    }
}

static void first_losses(
    const char *device, const char *const *base, const char *const *options, int updates, double *losses) {
    run r = { 0 };
    must(open_run(&r, device, base, options));
    must(ls_trainer_updates(r.trainer, updates, losses));
    run_close(&r);
}

// More pixels than travel to the device at once (16 MiB).
static void a_large_resident_set_is_the_rings(void **state) {
    (void)state;
    enum { UPDATES = 3 };
    static const char *const ring[] = { "data.train_samples=200000", "data.loader=stream", NULL }, *const resident[] = {
        "data.train_samples=200000", "data.loader=resident", NULL
    };
    double expected[UPDATES], got[UPDATES];
    first_losses("device.type=cuda", small, ring, UPDATES, expected);
    first_losses("device.type=cuda", small, resident, UPDATES, got);
    for (int u = 0; u < UPDATES; u++)
        if (got[u] != expected[u]) fail_msg("loss of update %d is %.9g, with the ring %.9g", u, got[u], expected[u]);
}

// Copies, micro-batches and reports of several updates are under way at once: in whatever order that the waits between
// the queues leave open, losses are ref's and weights the same bits. A wait that is missing shows for some seed.
static void any_legal_order_gives_the_same(void **state) {
    (void)state;
    enum { SEEDS = 8, UPDATES = 9 };
    static const char *const options[] = { "train.micro_batch=8", NULL };
    double expected[UPDATES], got[UPDATES];
    uint64_t first = 0, hash;
    char setting[32];
    first_losses("device.type=ref", tiny, options, UPDATES, expected);
    for (int seed = 1; seed <= (cuda_is_real() ? 1 : SEEDS); seed++) {
        run r = { 0 };
        snprintf(setting, sizeof setting, "seed=%d,protect=0", seed);
        setenv("LOCKSTEP_EMULATION", setting, 1);
        must(open_run(&r, "device.type=cuda", tiny, options));
        must(ls_trainer_updates(r.trainer, UPDATES, got));
        must(ls_param_store_hash(r.trainer->session.compute.store, &hash));
        run_close(&r);
        for (int u = 0; u < UPDATES; u++)
            if (!(fabs(got[u] - expected[u]) <= 2e-5 * expected[u]))
                fail_msg("seed %d: loss of update %d is %.9g, ref's is %.9g", seed, u, got[u], expected[u]);
        if (seed == 1) first = hash;
        if (hash != first) fail_msg("seed %d: other weights than with seed 1", seed);
    }
    setenv("LOCKSTEP_EMULATION", "", 1);
}

static void recomputation_changes_nothing(void **state) {
    (void)state;
    const char *off[] = { "train.micro_batch=8", NULL },
               *blocks[] = { "train.micro_batch=8", "train.recompute=blocks", NULL };
    assert_true(whole_run("device.type=cuda", small, off).weights_hash ==
                whole_run("device.type=cuda", small, blocks).weights_hash);
}

// In fp32 both round the same real numbers, some hundred times: the loss of the first updates agrees to 1e-5.
static void compare_first_updates(void) {
    enum { UPDATES = 6 };
    double expected[UPDATES], got[UPDATES];
    for (int v = 0; v < VARIANTS; v += STEP) {
        int half = strstr(variants[v].name, "bf16") || strstr(variants[v].name, "fp16");
        run r = { 0 };
        ls_train_evaluation evaluation = { 0 };
        first_losses("device.type=ref", small, variants[v].options, UPDATES, expected);
        must(open_run(&r, "device.type=cuda", small, variants[v].options));
        must(ls_trainer_updates(r.trainer, UPDATES, got));
        must(ls_trainer_evaluate(r.trainer, 0, &evaluation));
        run_close(&r);
        if (evaluation.test_samples != 20)
            fail_msg("%s: evaluated %lld samples of 20", variants[v].name, (long long)evaluation.test_samples);
        for (int u = 0; u < UPDATES; u++)
            if (!(fabs(got[u] - expected[u]) <= (half ? 0.02 : 2e-5) * expected[u]))
                fail_msg("%s: loss of update %d is %.9g, ref's is %.9g", variants[v].name, u, got[u], expected[u]);
    }
}

// A report is of its own update alone.
static void an_update_counts_its_own_samples(void **state) {
    (void)state;
    const char *options[] = { "train.micro_batch=8", NULL };
    ls_train_state s;
    run r = { 0 };
    must(open_run(&r, "device.type=cuda", small, options));
    for (int u = 0; u < 8; u++) {
        int samples = ls_batches_window_samples(&r.trainer->plan.info.batches, r.trainer->progress.done.window);
        r.trainer->progress.since_report = (ls_micro_result){ 0 };
        must(run_one_update(r.trainer, &s));
        if (r.trainer->progress.since_report.count != samples)
            fail_msg(
                "update %d: %lld samples, expected %d", u, (long long)r.trainer->progress.since_report.count, samples);
    }
    run_close(&r);
}

static void the_first_updates_are_refs(void **state) {
    (void)state;
    compare_first_updates();
}

// As above with the emulation's stand-ins for cuDNN and cuBLASLt, which round where those do.
static void with_libraries_too(void **state) {
    (void)state;
    if (cuda_is_real()) skip();
    setenv("LOCKSTEP_EMULATED_LIBRARIES", "1", 1);
    compare_first_updates();
    unsetenv("LOCKSTEP_EMULATED_LIBRARIES");
}

// How far a loss may be from the cpu device's. The tolerances of the tables were found with the direct kernels. A library adds up in
// another order, by parts: the first loss is a sum of rounding alone, and later ones are what updates made of that. Batch norm over a
// sample or two enlarges it most, and differently for every order.
static double loss_tolerance(double direct, int update) {
    return cuda_is_real() && update > 0 ? 10 * direct : direct;
}

// The shipped networks on small batches. There are three slots of input, and a recording for each: the fourth update is
// recorded and launched, the seventh launched again. LeNet, which has no batch norm, adds up two micro-batches here
// and has one on the cpu device.
static void shipped_networks_agree_with_ref(void **state) {
    (void)state;
    if (STEP > 1) skip(); // the same code computes larger numbers
    enum { UPDATES_MAX = 7 };
    static const struct {
        const char *options[RUN_OPTIONS_MAX], *micro_batch;
        int updates;
        double tolerance;
    } networks[] = {
        { { "model.file=configs/models/lenet.ini", "data.shape=1x28x28", "train.global_batch=4" },
            "train.micro_batch=2", 7, 1e-5 },
        { { "model.file=configs/models/resnet20.ini", "data.shape=3x32x32", "train.global_batch=2",
              "optimizer.lr=0.001" },
            NULL, 4, 1e-4 },
        { { "model.file=configs/models/resnet9.ini", "data.shape=3x32x32", "train.global_batch=1",
              "optimizer.lr=0.0005" },
            NULL, 4, 1e-4 },
    };
    static const char *const base[] = { "data.train_samples=64", "data.test_samples=4", NULL };
    double expected[UPDATES_MAX], got[UPDATES_MAX];
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++) {
        const char *options[RUN_OPTIONS_MAX] = { networks[n].options[0], networks[n].options[1], networks[n].options[2],
            networks[n].micro_batch, NULL };
        if (networks[n].options[3]) options[3] = networks[n].options[3];
        first_losses("device.type=cpu", base, networks[n].options, networks[n].updates, expected);
        first_losses("device.type=cuda", base, options, networks[n].updates, got);
        for (int u = 0; u < networks[n].updates; u++)
            if (!(fabs(got[u] - expected[u]) <= loss_tolerance(networks[n].tolerance, u) * expected[u]))
                fail_msg("%s: loss of update %d is %.9g, the cpu device's is %.9g", networks[n].options[0], u, got[u],
                    expected[u]);
    }
}

// fp16: a scale that must overflow is halved until updates pass, decided on the device while the host is ahead.
static void the_loss_scale_recovers(void **state) {
    (void)state;
    const char *options[] = { "train.precision=fp16", "loss_scale.initial=16777216", "train.epochs=12", NULL };
    run r = { 0 };
    ls_train_state s;
    uint64_t before, after;
    must(open_run(&r, "device.type=cuda", small, options));
    must(ls_param_store_hash(r.trainer->session.compute.store, &before));
    must(run_one_update(r.trainer, &s));
    assert_int_equal(s.skip, 1);
    assert_true(s.loss_scale == 8388608.0f && s.applied == 0);
    must(ls_param_store_hash(r.trainer->session.compute.store, &after));
    assert_true(before == after);
    must(ls_trainer_updates(r.trainer, 30, NULL));
    must(run_one_update(r.trainer, &s));
    assert_int_equal(s.skip, 0);
    assert_int_equal(s.applied + s.skipped, 32);
    assert_true(s.skipped < 20 && s.loss_scale < 8388608.0f);
    must(ls_param_store_hash(r.trainer->session.compute.store, &after));
    assert_true(before != after);
    run_close(&r);
}

static const struct {
    const char *name, *options[RUN_OPTIONS_MAX];
    const char *says[3];
} failures[] = {
    { "diverges", { "optimizer.lr=1000", "optimizer.weight_decay=1", "train.epochs=60" },
        { "not finite", "optimizer.lr" } },
    { "diverges in ordered mode",
        { "optimizer.lr=1000", "optimizer.weight_decay=1", "train.epochs=60", "run.deterministic=true" },
        { "ordered mode", "no NaN", "optimizer.lr" } },
    { "fp16 at its floor",
        { "train.precision=fp16", "loss_scale.initial=16777216", "loss_scale.minimum=16777216", "train.epochs=60" },
        { "overflowed in fp16", "loss_scale.max_skips" } },
    { "input that is not finite", { "data.std=1e-40, 1e-40, 1e-40" }, { "not finite", "update 0 " } },
};

// The same message as on ref, at the same update, although the host was ahead of the device.
static void failures_name_the_update_and_the_tensor(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof failures / sizeof *failures; f++) {
        ls_status status[2];
        for (int d = 0; d < 2; d++) {
            run r = { 0 };
            ls_train_summary summary;
            must(open_run(&r, d ? "device.type=cuda" : "device.type=ref", small, failures[f].options));
            status[d] = ls_trainer_run(r.trainer, NULL, 0, &summary);
            run_close(&r);
            if (status[d].code != LS_NUMERIC)
                fail_msg("%s: code %d (%s), expected %d", failures[f].name, status[d].code,
                    status[d].text ? status[d].text : "", LS_NUMERIC);
            for (int s = 0; s < 3 && failures[f].says[s]; s++)
                if (!strstr(status[d].text, failures[f].says[s]))
                    fail_msg("%s: the message lacks '%s': %s", failures[f].name, failures[f].says[s], status[d].text);
        }
    }
}

// After the update that halts the run nothing changes any more, however far the host is ahead.
static void a_halted_run_keeps_its_weights(void **state) {
    (void)state;
    const char *options[] = { "train.precision=fp16", "loss_scale.initial=16777216", "loss_scale.minimum=16777216",
        "train.epochs=60", NULL };
    uint64_t before, after;
    ls_train_summary summary;
    run r = { 0 };
    must(open_run(&r, "device.type=cuda", small, options));
    must(ls_param_store_hash(r.trainer->session.compute.store, &before));
    assert_int_equal(ls_trainer_run(r.trainer, NULL, 0, &summary).code, LS_NUMERIC);
    must(ls_param_store_hash(r.trainer->session.compute.store, &after));
    assert_true(before == after);
    assert_true(r.trainer->progress.next.updates > r.trainer->progress.done.updates + 1); // the host was ahead
    run_close(&r);
}

int main(int argc, char **argv) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    if (argc > 1) cmocka_set_test_filter(argv[1]); // some of the tests by name; * and ? are wild cards
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_legal_order_gives_the_same),
        cmocka_unit_test(recorded_updates_are_the_eager_ones),
        cmocka_unit_test(both_loaders_feed_the_same),
        cmocka_unit_test(a_large_resident_set_is_the_rings),
        cmocka_unit_test(recomputation_changes_nothing),
        cmocka_unit_test(an_update_counts_its_own_samples),
        cmocka_unit_test(the_first_updates_are_refs),
        cmocka_unit_test(with_libraries_too),
        cmocka_unit_test(shipped_networks_agree_with_ref),
        cmocka_unit_test(the_loss_scale_recovers),
        cmocka_unit_test(failures_name_the_update_and_the_tensor),
        cmocka_unit_test(a_halted_run_keeps_its_weights),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
