// Every operator of the CUDA device in every shape of the tables against ref, in the three storage types.
// An argument chooses some of the tests by name (* and ? are wild cards).
#include "device/algorithm_cache.h"
#include "device/cuda_device.h"
#include "device/op_harness.h"
#include "support/cmocka.h"
#include "support/must.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SLOW = 4 };
#else
enum { SLOW = 1 };
#endif

// The emulated device: each type with another random order; one of them with device memory closed to the host.
static void compare_with_ref(ls_dtype storage, const char *emulation, double flops_max) {
    ls_device *ref = NULL;
    setenv("LOCKSTEP_EMULATION", emulation, 1);
    assert_int_equal(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL).code, LS_OK);
    ls_device *cuda = cuda_open();
    ls_ops_options options = { .storage = storage,
        .tolerance_factor = cuda_is_real() ? 4 : 1, // cuDNN's fp32 weight gradients: 2.1 on an H100
        .flops_max = cuda_is_real() ? 0 : flops_max / SLOW,
        .library_rounds = cuda_is_real() };
    assert_int_equal(ls_ops_compare(ref, cuda, options), 0);
    // beyond the limit, and yet not to be left out
    assert_int_equal(ls_ops_compare(ref, cuda, (ls_ops_options){ .storage = storage, .only = "long slices" }), 0);
    ls_device_close(cuda);
    ls_device_close(ref);
}

static void fp32_agrees_with_ref(void **unused) {
    (void)unused;
    compare_with_ref(LS_F32, "seed=1", 2e6);
}

static void bf16_agrees_with_ref(void **unused) {
    (void)unused;
    compare_with_ref(LS_BF16, "seed=2,protect=0", 1e6);
}

static void fp16_agrees_with_ref(void **unused) {
    (void)unused;
    compare_with_ref(LS_F16, "seed=3,protect=0,sm=80", 1e6); // without clusters
}

typedef struct {
    ls_device *device;
    int forward, backward; // cases in one launch of the whole GPU
} grids;

static void count_grids(void *context, op_case *c) {
    grids *g = context;
    ls_plan *plan;
    must(g->device->api->plan_new(g->device, &c->desc, &plan));
    int grid = strcmp(plan->algorithm, "own, 1 pass, grid") == 0;
    g->forward += grid && c->desc.op == LS_OP_NORM_FORWARD;
    g->backward += grid && c->desc.op == LS_OP_NORM_BACKWARD;
    g->device->api->plan_free(plan);
}

// Batch norm whose blocks all wait for each other, where nothing else runs on the GPU.
static void grids_agree_with_ref(void **unused) {
    (void)unused;
    static const ls_dtype types[] = { LS_F32, LS_BF16 };
    static const char *const cases[] = { "batch norm forward: many", "batch norm backward: many", "long slices" };
    setenv("LOCKSTEP_EMULATION", "seed=4,protect=0,sm=80,multiprocessors=16", 1);
    grids g = { .device = cuda_open_with(&(ls_device_options){ .alone = 1 }) };
    ls_device *ref = NULL;
    must(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int k = 0; k < (cuda_is_real() ? 3 : 2); k++) {
            ls_ops_options options = { .storage = types[i], .only = cases[k] };
            assert_int_equal(ls_ops_compare(ref, g.device, options), 0);
        }
        norm_cases(types[i], count_grids, &g);
    }
    assert_true(g.forward >= 3 && g.backward >= 3);
    ls_device_close(g.device);
    ls_device_close(ref);
}

// Blocks of implicit_gemm that go on to further pixels: beyond the limit of what is compared above.
static void implicit_gemm_goes_on(void **unused) {
    (void)unused;
    static const ls_dtype types[] = { LS_F32, LS_BF16 };
    setenv("LOCKSTEP_EMULATION", "seed=5,protect=0", 1);
    ls_device *ref = NULL, *cuda = cuda_open_with(&(ls_device_options){ .tf32 = 1, .convolution = "implicit gemm" });
    must(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ls_ops_options options = { .storage = types[i], .tf32 = 1, .only = "more pixels than blocks" };
        assert_int_equal(ls_ops_compare(ref, cuda, options), 0);
    }
    ls_device_close(cuda);
    ls_device_close(ref);
}

// What is computed by matrix products, in the way that a card has by default: fp32 rounded to TF32.
static void tf32_agrees_with_ref(void **unused) {
    (void)unused;
    static const char *const operators[] = { "conv ", "linear ", "muon" };
    ls_device *ref = NULL, *cuda = cuda_open_with(&(ls_device_options){ .tf32 = 1 });
    must(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL));
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        ls_ops_options options = {
            .storage = LS_F32, .flops_max = cuda_is_real() ? 0 : 1e6 / SLOW, .tf32 = 1, .only = operators[i]
        };
        assert_int_equal(ls_ops_compare(ref, cuda, options), 0);
    }
    ls_device_close(cuda);
    ls_device_close(ref);
}

// Convolutions by the plan that is measured to be the fastest, in all types: another one than by the rule, maybe.
static void measured_plans_agree_with_ref(void **unused) {
    (void)unused;
    static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
    if (!cuda_is_real()) setenv("LOCKSTEP_EMULATED_LIBRARIES", "1", 1);
    ls_algorithm_cache *plans = NULL;
    ls_device *ref = NULL;
    must(ls_algorithm_cache_open(NULL, "plans", &plans));
    must(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL));
    ls_device *cuda = cuda_open_with(&(ls_device_options){ .tf32 = 1, .algorithms = plans });
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ls_ops_options options = { .storage = types[i],
            .flops_max = cuda_is_real() ? 0 : 2e5 / SLOW,
            .tf32 = 1,
            .library_rounds = 1,
            .only = "conv " };
        assert_int_equal(ls_ops_compare(ref, cuda, options), 0);
    }
    if (!getenv("LOCKSTEP_TEST_CASES"))                      // cases by name need not be convolutions
        assert_true(ls_algorithm_cache_measured(plans) > 0); // else it was the rule again
    ls_device_close(cuda);
    ls_device_close(ref);
    ls_algorithm_cache_free(plans);
    unsetenv("LOCKSTEP_EMULATED_LIBRARIES");
}

// What a plan keeps on the device between two runs (counters of blocks that have finished) is as before the first.
static void run_twice(ls_device *cuda, op_case *c, int out) {
    op_run run = { .device = cuda };
    ls_plan *plan = NULL;
    ls_slab *slab = NULL;
    ls_buffer workspace = { 0 };
    ls_status status = run_prepare(&run, c);
    if (!ls_failed(status)) status = cuda->api->plan_new(cuda, &c->desc, &plan);
    if (!ls_failed(status)) status = guarded_new(&run, plan->workspace_bytes, &slab, &workspace);
    size_t bytes = run.args[out].bytes;
    char *before = case_memory(bytes), *results[2] = { case_memory(bytes), case_memory(bytes) };
    get_bytes(&run, before, run.args[out], bytes);
    for (int k = 0; k < 2 && !ls_failed(status); k++) {
        put_bytes(&run, run.args[out], before, bytes);
        ls_plan_run(plan, run.args, workspace, run.queue);
        get_bytes(&run, results[k], run.args[out], bytes);
        status = cuda->api->queue_sync(run.queue);
    }
    if (ls_failed(status)) fail_msg("%s: %s", c->name, status.text);
    if (memcmp(before, results[0], bytes) == 0) fail_msg("%s: the first run did nothing", c->name);
    if (memcmp(results[0], results[1], bytes) != 0) fail_msg("%s: the second run has another result", c->name);
    for (int k = 0; k < 2; k++) free(results[k]);
    free(before);
    cuda->api->plan_free(plan);
    cuda->api->slab_free(slab);
    run_free(&run);
}

static void loss_twice(void *context, op_case *c) {
    if (strncmp(c->desc.layer, "many samples", 12) == 0) run_twice(context, c, LS_LOSS_RESULT);
}

static void distill_twice(void *context, op_case *c) {
    if (strncmp(c->desc.layer, "many samples", 12) == 0) run_twice(context, c, LS_DISTILL_RESULT);
}

static void norm_twice(void *context, op_case *c) {
    const char *row = c->desc.attr.norm.pool_kernel ? "resnet9 layer1" : "many samples";
    if (c->desc.op == LS_OP_NORM_FORWARD && strncmp(c->desc.layer, row, strlen(row)) == 0)
        run_twice(context, c, LS_NORM_FORWARD_SAVED);
}

// Whichever block finishes last: on the emulated device in several orders.
static void a_plan_runs_again(void **unused) {
    (void)unused;
    for (int seed = 1; seed <= (cuda_is_real() ? 1 : 4); seed++) {
        char setting[64];
        snprintf(setting, sizeof setting, "seed=%d,protect=0,sm=80,multiprocessors=16", seed);
        setenv("LOCKSTEP_EMULATION", setting, 1);
        ls_device *cuda = cuda_open_with(&(ls_device_options){ .alone = 1 });
        norm_pool_cases(LS_F32, norm_twice, cuda);            // in two launches
        if (seed == 1) norm_cases(LS_BF16, norm_twice, cuda); // in one
        loss_cases(LS_F32, loss_twice, cuda);
        head_cases(LS_F32, loss_twice, cuda);
        distill_cases(LS_F32, distill_twice, cuda);
        ls_device_close(cuda);
    }
}

int main(int argc, char **argv) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_agrees_with_ref),
        cmocka_unit_test(bf16_agrees_with_ref),
        cmocka_unit_test(fp16_agrees_with_ref),
        cmocka_unit_test(grids_agree_with_ref),
        cmocka_unit_test(implicit_gemm_goes_on),
        cmocka_unit_test(tf32_agrees_with_ref),
        cmocka_unit_test(measured_plans_agree_with_ref),
        cmocka_unit_test(a_plan_runs_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
