// How convolutions and linear layers use a library: with the emulation's stand-ins
// (tests/emulation/libraries.c) every case must agree with ref as it does without.
// On a GPU the real libraries are used by all tests: nothing more to do here.
#include "device/cuda_device.h"
#include "device/op_harness.h"
#include "support/cmocka.h"

static void agrees_with_ref(void **state) {
    static const char *const operators[] = { "conv forward", "conv backward data", "conv backward weight",
        "linear forward", "linear backward data", "linear backward weight" };
    ls_dtype storage = *(const ls_dtype *)*state;
    ls_device *ref = NULL, *cuda = cuda_open();
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

// The test is about the stand-ins: they must be what ran.
static void plans_name_the_library(void **state) {
    (void)state;
    static const struct {
        ls_op_desc desc;
        const char *algorithm;
    } rows[] = {
        { { LS_OP_CONV_FORWARD, "conv",
              .attr.conv = { { 2, 3, 8, 8 }, { 2, 16, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 1, .storage = LS_BF16 } },
            "emulated library" },
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
        cmocka_unit_test(plans_name_the_library),
        { "fp32_agrees_with_ref", agrees_with_ref, NULL, NULL, &types[0] },
        { "bf16_agrees_with_ref", agrees_with_ref, NULL, NULL, &types[1] },
        { "fp16_agrees_with_ref", agrees_with_ref, NULL, NULL, &types[2] },
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
