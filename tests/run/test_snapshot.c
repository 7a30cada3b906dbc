// A run's state: what is taken from a trainer and given to another makes that one go on as the first, on every device,
// with every optimizer; and it does not depend on the device that it was taken from.
#include "device/cuda_device.h"
#include "state_run.h"

static char network_path[] = "/tmp/lockstep_snapshot_XXXXXX";
static int has_cuda;

static int write_network(void **state) {
    (void)state;
    return run_write_network(network_path, state_network);
}

static int remove_network(void **state) {
    (void)state;
    return unlink(network_path);
}

#define LION "optimizer.kind=lion", "optimizer.lr=0.001", "optimizer.weight_decay=0.1"
#define MUON \
    "optimizer.kind=muon", "optimizer.groups=n?.weight frozen; n?.* kind=adamw", "average.kind=lookahead", \
        "average.every=4"
#define RESTARTS "schedule.kind=cosine-restarts", "schedule.period=0.4", "schedule.period_factor=2"

static const struct {
    const char *name, *options[RUN_OPTIONS_MAX];
} rows[] = {
    { "ref", { "device.type=ref", NULL } },
    { "cpu", { "device.type=cpu", NULL } },
    { "cpu, ordered", { "device.type=cpu", "run.deterministic=true", NULL } },
    { "cpu, adamw", { "device.type=cpu", "optimizer.kind=adamw", "optimizer.lr=0.01", NULL } },
    { "ref, lion", { "device.type=ref", LION, NULL } },
    { "cpu, lion", { "device.type=cpu", LION, NULL } },
    { "cuda, lion", { "device.type=cuda", LION, NULL } },
    { "cpu, muon and others", { "device.type=cpu", MUON, NULL } },
    { "cuda, muon and others", { "device.type=cuda", MUON, NULL } },
    { "cpu, lars, ema", { "device.type=cpu", "optimizer.kind=lars", "average.kind=ema", "average.every=3", NULL } },
    { "ref, restarts", { "device.type=ref", RESTARTS, NULL } },
    { "cpu, restarts", { "device.type=cpu", RESTARTS, NULL } },
    { "cuda, restarts", { "device.type=cuda", RESTARTS, NULL } },
    { "ref, fp16, scale in motion", { "device.type=ref", "train.precision=fp16", "loss_scale.initial=16777216",
                                        "loss_scale.growth_interval=3", NULL } },
    { "cuda, fp16, scale in motion", { "device.type=cuda", "train.precision=fp16", "loss_scale.initial=16777216",
                                         "loss_scale.growth_interval=3", NULL } },
    { "cuda, adamw, resident data, no recordings", { "device.type=cuda", "optimizer.kind=adamw", "optimizer.lr=0.01",
                                                       "data.loader=resident", "device.graphs=false", NULL } },
};
enum { ROWS = sizeof rows / sizeof rows[0], FIRST = 6, MORE = 7 }; // mid-epoch; over the end of another

static int can_run(int row) {
    return has_cuda || strcmp(rows[row].options[0], "device.type=cuda") != 0;
}

static void another_trainer_goes_on_the_same(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        if (!can_run(i)) continue;
        run a = { 0 }, b = { 0 }, whole = { 0 };
        must(state_run_open(&whole, network_path, rows[i].options));
        must(ls_trainer_updates(whole.trainer, FIRST + MORE, NULL));
        ls_snapshot *expected = state_take(&whole);
        run_close(&whole);

        must(state_run_open(&a, network_path, rows[i].options));
        must(ls_trainer_updates(a.trainer, FIRST, NULL));
        ls_snapshot *taken = state_take(&a);
        must(ls_trainer_updates(a.trainer, MORE, NULL));
        ls_snapshot *undisturbed = state_take(&a);
        run_close(&a);
        state_same(rows[i].name, expected, undisturbed);

        must(state_run_open(&b, network_path, rows[i].options));
        must(ls_trainer_restore(b.trainer, taken));
        ls_snapshot *again = state_take(&b);
        state_same(rows[i].name, taken, again);
        must(ls_trainer_updates(b.trainer, MORE, NULL));
        ls_snapshot *resumed = state_take(&b);
        run_close(&b);
        state_same(rows[i].name, expected, resumed);
        if (strstr(rows[i].name, "motion") && (!taken->counters.skipped || taken->counters.loss_scale == 16777216))
            fail_msg("%s: the loss scale does not move: %lld skipped, %g", rows[i].name,
                (long long)taken->counters.skipped, taken->counters.loss_scale);
        ls_snapshot_free(expected);
        ls_snapshot_free(taken);
        ls_snapshot_free(undisturbed);
        ls_snapshot_free(again);
        ls_snapshot_free(resumed);
    }
}

// Also over what a trainer has done before: on cuda, where updates take their input from one of several records in turn.
static void a_used_one_goes_on_the_same(int row) {
    run a = { 0 }, b = { 0 };
    must(state_run_open(&a, network_path, rows[row].options));
    must(ls_trainer_updates(a.trainer, FIRST, NULL));
    ls_snapshot *taken = state_take(&a);
    must(ls_trainer_updates(a.trainer, MORE, NULL));
    ls_snapshot *expected = state_take(&a);
    run_close(&a);
    must(state_run_open(&b, network_path, rows[row].options));
    must(ls_trainer_updates(b.trainer, 3, NULL));
    must(ls_trainer_restore(b.trainer, taken));
    must(ls_trainer_updates(b.trainer, MORE, NULL));
    ls_snapshot *resumed = state_take(&b);
    run_close(&b);
    state_same(rows[row].name, expected, resumed);
    ls_snapshot_free(taken);
    ls_snapshot_free(expected);
    ls_snapshot_free(resumed);
}

static void a_used_trainer_takes_it_over(void **state) {
    (void)state;
    for (int i = 0; i < ROWS; i++)
        if (can_run(i)) a_used_one_goes_on_the_same(i);
}

// Canonical: each device gives back exactly what it was given, whatever its own layout.
static void every_device_holds_the_same(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=ref", "device.type=cpu", "device.type=cuda" };
    static const char *const kinds[] = { "optimizer.kind=sgd", "optimizer.kind=adamw", "optimizer.kind=lion",
        "optimizer.kind=rmsprop", "optimizer.kind=muon" };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *first[] = { "device.type=cpu", kinds[k], "optimizer.lr=0.01", NULL };
        run a = { 0 };
        must(state_run_open(&a, network_path, first));
        must(ls_trainer_updates(a.trainer, FIRST, NULL));
        ls_snapshot *taken = state_take(&a);
        run_close(&a);
        for (int d = 0; d < 2 + has_cuda; d++) {
            const char *options[] = { devices[d], kinds[k], "optimizer.lr=0.01", NULL };
            run b = { 0 };
            must(state_run_open(&b, network_path, options));
            must(ls_trainer_restore(b.trainer, taken));
            ls_snapshot *again = state_take(&b);
            run_close(&b);
            state_same(devices[d], taken, again);
            ls_snapshot_free(again);
        }
        ls_snapshot_free(taken);
    }
}

static void names_are_those_of_pytorch(void **state) {
    (void)state;
    static const char *const expected[] = { "c1.weight", "n1.weight", "n1.bias", "n1.running_mean", "n1.running_var",
        "c2.weight", "c2.bias", "n2.weight", "n2.bias", "n2.running_mean", "n2.running_var", "l.weight", "l.bias",
        "c1.weight.exp_avg", "n1.weight.exp_avg", "n1.bias.exp_avg", "c2.weight.exp_avg", "c2.bias.exp_avg",
        "n2.weight.exp_avg", "n2.bias.exp_avg", "l.weight.exp_avg", "l.bias.exp_avg", "c1.weight.exp_avg_sq",
        "n1.weight.exp_avg_sq", "n1.bias.exp_avg_sq", "c2.weight.exp_avg_sq", "c2.bias.exp_avg_sq",
        "n2.weight.exp_avg_sq", "n2.bias.exp_avg_sq", "l.weight.exp_avg_sq", "l.bias.exp_avg_sq" };
    enum { COUNT = sizeof expected / sizeof expected[0] };
    static const char *const adamw[] = { "device.type=ref", "optimizer.kind=adamw", NULL };
    run r = { 0 };
    must(state_run_open(&r, network_path, adamw));
    must(ls_trainer_updates(r.trainer, 2, NULL));
    ls_snapshot *s = state_take(&r);
    run_close(&r);
    assert_int_equal(s->count, COUNT);
    assert_int_equal(s->params, 13);
    for (int i = 0; i < COUNT; i++) assert_string_equal(s->tensors[i].name, expected[i]);
    const int64_t dim[] = { 7, 5, 3, 3 };
    assert_int_equal(s->tensors[5].rank, 4);
    assert_memory_equal(s->tensors[5].dim, dim, sizeof dim);
    for (int i = 0; i < s->count; i++) { // all of it is there
        const ls_snapshot_tensor *t = &s->tensors[i];
        int nonzero = 0;
        for (int64_t e = 0; e < t->elements; e++) nonzero += t->values[e] != 0;
        if (!nonzero) fail_msg("%s is all zero after two updates", t->name);
    }
    assert_int_equal(s->counters.update, 2);
    assert_int_equal(s->counters.samples, 32);
    assert_int_equal(s->counters.applied, 2);
    ls_snapshot_free(s);
}

int main(void) {
    has_cuda = cuda_choose() == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_pytorch),
        cmocka_unit_test(another_trainer_goes_on_the_same),
        cmocka_unit_test(a_used_trainer_takes_it_over),
        cmocka_unit_test(every_device_holds_the_same),
    };
    return cmocka_run_group_tests(tests, write_network, remove_network);
}
