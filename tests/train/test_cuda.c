// Whole training on the CUDA device (the emulated one, or this machine's GPU with LOCKSTEP_TEST_GPU=1): recorded
// updates are the eager ones bit for bit, both loaders feed the same, accumulation, the loss scale, failures noticed
// while the host is updates ahead; and all of it agrees with ref.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>
#include "device/cuda_device.h"
#include "train/trainer_internal.h"

#define must(expr) \
    do { \
        ls_status must_status_ = (expr); \
        if (ls_failed(must_status_)) fail_msg("%s: %s", #expr, must_status_.text); \
    } while (0)

enum { OPTIONS_MAX = 16 };

// Small, with all that matters to an update: batch norm with and without a residual and with pooling, dropout, a bias.
static const char small_network[] =
    "[network]\ninput = 3x8x8\n"
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

static int write_network(void **state) {
    (void)state;
    int fd = mkstemp(network_path);
    if (fd < 0 || write(fd, small_network, sizeof small_network - 1) != (ssize_t)sizeof small_network - 1) return -1;
    return close(fd);
}

static int remove_network(void **state) {
    (void)state;
    return unlink(network_path);
}

typedef struct {
    ls_config cfg;
    ls_comm *comm;
    ls_trainer *trainer;
} run;

// 72 samples in windows of 32: the last is short.
static const char *const small[] = { "data.shape=3x8x8", "data.train_samples=72", "data.test_samples=20",
    "train.global_batch=32", "optimizer.rate=0.1", "train.epochs=3", "data.flip=true", "data.pad=1", NULL };

static void set_all(ls_config *cfg, const char *const *options) {
    for (int i = 0; options && i < OPTIONS_MAX && options[i]; i++) must(ls_config_set(cfg, options[i]));
}

static ls_status open_run(run *r, const char *device, const char *const *base, const char *const *options) {
    static const char *const common[] = { "data.dataset=synthetic", "device.threads=2", "device.tf32=false", NULL };
    ls_config_defaults(&r->cfg);
    snprintf(r->cfg.model_file, sizeof r->cfg.model_file, "%s", network_path);
    set_all(&r->cfg, common);
    must(ls_config_set(&r->cfg, device));
    set_all(&r->cfg, base);
    set_all(&r->cfg, options);
    must(ls_config_check(&r->cfg));
    must(ls_comm_self(&r->comm));
    return ls_trainer_new(&r->cfg, r->comm, &r->trainer);
}

static void close_run(run *r) {
    ls_trainer_free(r->trainer);
    ls_comm_finish(r->comm);
}

static ls_train_summary whole_run(const char *device, const char *const *base, const char *const *options) {
    run r = { 0 };
    ls_train_summary summary;
    must(open_run(&r, device, base, options));
    must(ls_trainer_run(r.trainer, NULL, 0, &summary));
    close_run(&r);
    return summary;
}

static const struct {
    const char *name, *options[OPTIONS_MAX];
} variants[] = {
    { "one micro-batch", { NULL } },
    { "four micro-batches", { "train.micro_batch=8" } },
    { "bf16", { "train.precision=bf16", "train.micro_batch=16" } },
    // no overflow: cuDNN's weight gradients are fp16 and overflow before ref's, and one update more would be skipped
    { "fp16", { "train.precision=fp16", "train.micro_batch=16", "loss_scale.initial=1024" } },
    { "ordered", { "run.deterministic=true", "train.micro_batch=8" } },
    { "adamw, groups", { "optimizer.kind=adamw", "optimizer.rate=0.01", "optimizer.groups=c2.* rate=0.5 decay=0.01",
                           "optimizer.weight_decay=0.001" } },
    { "recomputed", { "train.recompute=blocks", "train.micro_batch=16" } },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static ls_train_summary variant_run(int v, const char *a, const char *b) {
    const char *options[OPTIONS_MAX + 2];
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

static void recorded_updates_are_the_eager_ones(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++) {
        ls_train_summary recorded = variant_run(v, "device.graphs=true", "data.loader=ring");
        ls_train_summary eager = variant_run(v, "device.graphs=false", "data.loader=ring");
        ls_train_summary resident = variant_run(v, "device.graphs=true", "data.loader=resident");
        if (recorded.weights_hash != eager.weights_hash || recorded.test_loss != eager.test_loss)
            fail_msg("%s: recorded and eager updates differ: test loss %.9g and %.9g", variants[v].name,
                recorded.test_loss, eager.test_loss);
        if (recorded.weights_hash != resident.weights_hash || recorded.test_loss != resident.test_loss)
            fail_msg("%s: ring and resident data differ: test loss %.9g and %.9g", variants[v].name, recorded.test_loss,
                resident.test_loss);
    }
}

static void recomputation_changes_nothing(void **state) {
    (void)state;
    const char *off[] = { "train.micro_batch=16", NULL },
               *blocks[] = { "train.micro_batch=16", "train.recompute=blocks", NULL };
    assert_true(whole_run("device.type=cuda", small, off).weights_hash ==
                whole_run("device.type=cuda", small, blocks).weights_hash);
}

// In fp32 both round the same real numbers, some hundred times: the loss of the first updates agrees to 1e-5.
static void compare_first_updates(void) {
    enum { UPDATES = 6 };
    double expected[UPDATES], got[UPDATES];
    for (int v = 0; v < VARIANTS; v++) {
        int half = strcmp(variants[v].name, "bf16") == 0 || strcmp(variants[v].name, "fp16") == 0;
        run r = { 0 };
        must(open_run(&r, "device.type=ref", small, variants[v].options));
        must(ls_trainer_updates(r.trainer, UPDATES, expected));
        close_run(&r);
        must(open_run(&r, "device.type=cuda", small, variants[v].options));
        must(ls_trainer_updates(r.trainer, UPDATES, got));
        close_run(&r);
        for (int u = 0; u < UPDATES; u++)
            if (!(fabs(got[u] - expected[u]) <= (half ? 0.02 : 2e-5) * expected[u]))
                fail_msg("%s: loss of update %d is %.9g, ref's is %.9g", variants[v].name, u, got[u], expected[u]);
    }
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

// The shipped networks on small batches, recorded.
static void shipped_networks_agree_with_ref(void **state) {
    (void)state;
    static const struct {
        const char *options[OPTIONS_MAX];
        double tolerance;
    } networks[] = {
        { { "model.file=configs/models/lenet.ini", "data.shape=1x28x28", "train.global_batch=8" }, 1e-5 },
        { { "model.file=configs/models/resnet20.ini", "data.shape=3x32x32", "train.global_batch=4",
              "optimizer.rate=0.001" },
            1e-4 },
        { { "model.file=configs/models/resnet9.ini", "data.shape=3x32x32", "train.global_batch=2",
              "optimizer.rate=0.0005" },
            1e-4 },
    };
    static const char *const base[] = { "data.train_samples=64", "data.test_samples=4", NULL };
    enum { UPDATES = 3 };
    double expected[UPDATES], got[UPDATES];
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++) {
        run r = { 0 };
        must(open_run(&r, "device.type=cpu", base, networks[n].options));
        must(ls_trainer_updates(r.trainer, UPDATES, expected));
        close_run(&r);
        must(open_run(&r, "device.type=cuda", base, networks[n].options));
        must(ls_trainer_updates(r.trainer, UPDATES, got));
        close_run(&r);
        for (int u = 0; u < UPDATES; u++)
            if (!(fabs(got[u] - expected[u]) <= networks[n].tolerance * expected[u]))
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
    must(ls_arenas_hash(r.trainer->arenas, &before));
    must(ls_trainer_update(r.trainer, &s));
    assert_int_equal(s.skip, 1);
    assert_true(s.loss_scale == 8388608.0f && s.applied == 0);
    must(ls_arenas_hash(r.trainer->arenas, &after));
    assert_true(before == after);
    must(ls_trainer_updates(r.trainer, 30, NULL));
    must(ls_trainer_update(r.trainer, &s));
    assert_int_equal(s.skip, 0);
    assert_int_equal(s.applied + s.skipped, 32);
    assert_true(s.skipped < 20 && s.loss_scale < 8388608.0f);
    must(ls_arenas_hash(r.trainer->arenas, &after));
    assert_true(before != after);
    close_run(&r);
}

static const struct {
    const char *name, *options[OPTIONS_MAX];
    const char *says[3];
} failures[] = {
    { "diverges", { "optimizer.rate=1000", "optimizer.weight_decay=1", "train.epochs=60" },
        { "not finite", "optimizer.rate" } },
    { "diverges in ordered mode",
        { "optimizer.rate=1000", "optimizer.weight_decay=1", "train.epochs=60", "run.deterministic=true" },
        { "not finite", "optimizer.rate" } },
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
            close_run(&r);
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
    must(ls_arenas_hash(r.trainer->arenas, &before));
    assert_int_equal(ls_trainer_run(r.trainer, NULL, 0, &summary).code, LS_NUMERIC);
    must(ls_arenas_hash(r.trainer->arenas, &after));
    assert_true(before == after);
    assert_true(r.trainer->next.updates > r.trainer->done.updates + 1); // the host was ahead
    close_run(&r);
}

int main(void) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_updates_are_the_eager_ones),
        cmocka_unit_test(recomputation_changes_nothing),
        cmocka_unit_test(the_first_updates_are_refs),
        cmocka_unit_test(with_libraries_too),
        cmocka_unit_test(shipped_networks_agree_with_ref),
        cmocka_unit_test(the_loss_scale_recovers),
        cmocka_unit_test(failures_name_the_update_and_the_tensor),
        cmocka_unit_test(a_halted_run_keeps_its_weights),
    };
    return cmocka_run_group_tests(tests, write_network, remove_network);
}
