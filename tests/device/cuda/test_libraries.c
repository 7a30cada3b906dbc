// How convolutions and linear layers use a library: with the emulation's stand-ins
// (tests/emulation/libraries.c) every case must agree with ref as it does without; and how one of its algorithms is chosen by
// measuring.
// On a GPU the real libraries are used by all tests: nothing more to do here.
#include "device/algorithm_cache.h"
#include "device/cuda_device.h"
#include "device/op_harness.h"
#include "support/cmocka.h"

static void agrees_with_ref(void **state) {
    static const char *const operators[] = { "conv forward", "conv backward data", "conv backward weight",
        "linear forward", "linear backward data", "linear backward weight" };
    ls_dtype storage = *(const ls_dtype *)*state;
    ls_device *ref = NULL, *cuda = cuda_open_with(&(ls_device_options){ .convolution = "library" });
    assert_int_equal(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL).code, LS_OK);
    int failed = 0;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        ls_ops_options options = { .storage = storage, .flops_max = 2e6, .library_rounds = 1, .only = operators[i] };
        failed += ls_ops_compare(ref, cuda, options);
    }
    ls_device_close(cuda);
    ls_device_close(ref);
    assert_int_equal(failed, 0);
}

// Which of them computes what, by the rule.
static void plans_name_their_algorithm(void **state) {
    (void)state;
    static const struct {
        ls_op_desc desc;
        const char *algorithm;
    } rows[] = {
        { { LS_OP_CONV_FORWARD, "conv",
              .attr.conv = { { 2, 64, 8, 8 }, { 2, 64, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 1, .storage = LS_BF16 } },
            "emulated library" },
        { { LS_OP_CONV_FORWARD, "few channels",
              .attr.conv = { { 2, 3, 8, 8 }, { 2, 16, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 1, .storage = LS_BF16 } },
            "implicit gemm" },
        { { LS_OP_CONV_FORWARD, "few channels, fp32 without tf32",
              .attr.conv = { { 2, 3, 8, 8 }, { 2, 16, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 1, .storage = LS_F32 } },
            "emulated library" },
        { { LS_OP_CONV_BACKWARD_WEIGHT, "no room for a rounded gradient",
              .attr.conv = { { 2, 64, 8, 8 }, { 2, 64, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 1, .storage = LS_BF16 } },
            "implicit gemm" },
        { { LS_OP_CONV_FORWARD, "grouped",
              .attr.conv = { { 2, 6, 8, 8 }, { 2, 16, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 2, .storage = LS_BF16 } },
            "direct" },
        { { LS_OP_CONV_FORWARD, "depthwise",
              .attr.conv = { { 2, 16, 8, 8 }, { 2, 16, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 16, .storage = LS_BF16 } },
            "depthwise" },
        { { LS_OP_CONV_FORWARD, "depthwise, dilation 2",
              .attr.conv = { { 2, 16, 8, 8 }, { 2, 16, 8, 8 }, 3, 3, 1, 1, 2, 2, 2, 16, .storage = LS_BF16 } },
            "direct" },
        { { LS_OP_LINEAR_BACKWARD_WEIGHT, "fc", .attr.linear = { { 2, 3, 8, 8 }, 10, 1, .storage = LS_F16 } },
            "cublaslt" },
    };
    ls_device *cuda = cuda_open();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_plan *plan = NULL;
        ls_status status = cuda->api->plan_new(cuda, &rows[i].desc, &plan);
        if (ls_failed(status)) fail_msg("%s", status.text);
        if (strcmp(plan->algorithm, rows[i].algorithm) != 0)
            fail_msg("layer %s: %s, expected %s", rows[i].desc.layer, plan->algorithm, rows[i].algorithm);
        cuda->api->plan_free(plan);
    }
    ls_device_close(cuda);
}

// --- measured choices, with runs of their own

static const ls_op_desc measured_conv = { LS_OP_CONV_BACKWARD_WEIGHT, "conv",
    .attr.conv = { { 2, 64, 8, 8 }, { 2, 64, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 1, .rounds = 1, .storage = LS_BF16 } };

typedef struct {
    ls_algorithm_cache *cache; // in memory alone
    ls_device *device;
    size_t free_bytes;
} measured_device;

static measured_device open_measured(const char *emulation) {
    measured_device m = { 0 };
    size_t all;
    setenv("LOCKSTEP_EMULATION", emulation, 1);
    assert_int_equal(ls_algorithm_cache_open(NULL, "plans", &m.cache).code, LS_OK);
    const ls_device_options options = { .algorithms = m.cache };
    assert_int_equal(ls_device_open("cuda", &options, &m.device, NULL).code, LS_OK);
    assert_int_equal(m.device->api->memory(m.device, &m.free_bytes, &all).code, LS_OK);
    return m;
}

static void close_measured(measured_device *m) {
    size_t free_bytes, all;
    assert_int_equal(m->device->api->memory(m->device, &free_bytes, &all).code, LS_OK);
    assert_int_equal(free_bytes, m->free_bytes); // what was timed on is given back
    ls_device_close(m->device);
    ls_algorithm_cache_free(m->cache);
    unsetenv("LOCKSTEP_EMULATION");
}

static void expect_plan(const measured_device *m, const char *algorithm, const char *chosen) {
    ls_plan *plan = NULL;
    ls_status status = m->device->api->plan_new(m->device, &measured_conv, &plan);
    if (ls_failed(status)) fail_msg("%s", status.text);
    if (strcmp(plan->algorithm, algorithm) != 0 || strcmp(plan->chosen, chosen) != 0)
        fail_msg("%s, %s; expected %s, %s", plan->algorithm, plan->chosen, algorithm, chosen);
    m->device->api->plan_free(plan);
}

static void the_fastest_is_measured_once(void **state) {
    (void)state;
    measured_device m = open_measured("");
    ls_algorithm_cache_settle(m.cache, 1);
    expect_plan(&m, "emulated library", LS_CHOSEN_BY_RULE);
    ls_algorithm_cache_settle(m.cache, 0);
    expect_plan(&m, "emulated library, engine 1", LS_CHOSEN_NOW);
    assert_int_equal(ls_algorithm_cache_measured(m.cache), 1);
    ls_algorithm_cache_settle(m.cache, 1);
    expect_plan(&m, "emulated library, engine 1", LS_CHOSEN_NOW);
    close_measured(&m);
}

static void own_kernels_are_measured_too(void **state) {
    (void)state;
    setenv("LOCKSTEP_EMULATED_TIMES", "3,2,1", 1);
    measured_device m = open_measured("");
    expect_plan(&m, "implicit gemm", LS_CHOSEN_NOW);
    ls_algorithm_cache_settle(m.cache, 1);
    expect_plan(&m, "implicit gemm", LS_CHOSEN_NOW);
    assert_int_equal(ls_algorithm_cache_measured(m.cache), 1);
    unsetenv("LOCKSTEP_EMULATED_TIMES");
    close_measured(&m);
}

static void tests_choose_by_name(void **state) {
    (void)state;
    static const char *const names[][2] = { { "library", "emulated library" }, { "implicit gemm", "implicit gemm" } };
    ls_device *device = NULL;
    for (size_t i = 0; i < 2; i++) {
        ls_plan *plan = NULL;
        device = cuda_open_with(&(ls_device_options){ .convolution = names[i][0] });
        assert_int_equal(device->api->plan_new(device, &measured_conv, &plan).code, LS_OK);
        assert_string_equal(plan->algorithm, names[i][1]);
        device->api->plan_free(plan);
        ls_device_close(device);
    }
    ls_status status = ls_device_open("cuda", &(ls_device_options){ .convolution = "fft" }, &device, NULL);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "convolution by \"fft\": the cuda device has implicit gemm and library"));
}

// Whichever of its five allocations has no room: the rule decides, and nothing is kept.
static void without_room_the_rule_decides(void **state) {
    (void)state;
    for (int allocation = 1; allocation <= 6; allocation++) {
        char emulation[32];
        snprintf(emulation, sizeof emulation, "malloc_fail=%d", allocation);
        measured_device m = open_measured(emulation);
        if (allocation < 6)
            expect_plan(&m, "emulated library", LS_CHOSEN_BY_RULE);
        else
            expect_plan(&m, "emulated library, engine 1", LS_CHOSEN_NOW);
        assert_int_equal(ls_algorithm_cache_measured(m.cache), allocation == 6);
        close_measured(&m);
    }
}

static void none_runs(void **state) {
    (void)state;
    setenv("LOCKSTEP_EMULATED_TIMES", "x,x", 1);
    measured_device m = open_measured("");
    ls_plan *plan = NULL;
    ls_status status = m.device->api->plan_new(m.device, &measured_conv, &plan);
    unsetenv("LOCKSTEP_EMULATED_TIMES");
    assert_int_equal(status.code, LS_DEVICE);
    assert_non_null(strstr(status.text, "layer conv: conv backward weight: none of the library's 3 algorithms"));
    assert_int_equal(ls_algorithm_cache_measured(m.cache), 0);
    close_measured(&m);
}

static int run_timed(void **state) {
    (void)state;
    return setenv("LOCKSTEP_EMULATED_LIBRARIES", "timed", 1);
}

static int run_untimed(void **state) {
    (void)state;
    return setenv("LOCKSTEP_EMULATED_LIBRARIES", "1", 1);
}

int main(void) {
    static ls_dtype types[] = { LS_F32, LS_BF16, LS_F16 };
    if (cuda_is_real()) {
        printf("skipped: the stand-ins for libraries belong to the emulation\n");
        return 77;
    }
    int skipped = cuda_choose();
    if (skipped) return skipped;
    setenv("LOCKSTEP_EMULATED_LIBRARIES", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_name_their_algorithm),
        cmocka_unit_test(tests_choose_by_name),
        cmocka_unit_test_setup_teardown(the_fastest_is_measured_once, run_timed, run_untimed),
        cmocka_unit_test_setup_teardown(own_kernels_are_measured_too, run_timed, run_untimed),
        cmocka_unit_test_setup_teardown(without_room_the_rule_decides, run_timed, run_untimed),
        cmocka_unit_test_setup_teardown(none_runs, run_timed, run_untimed),
        { "fp32_agrees_with_ref", agrees_with_ref, NULL, NULL, &types[0] },
        { "bf16_agrees_with_ref", agrees_with_ref, NULL, NULL, &types[1] },
        { "fp16_agrees_with_ref", agrees_with_ref, NULL, NULL, &types[2] },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
