// The harness on the reference device itself: every case runs, and no result depends on the number of threads.
#include "device/op_harness.h"
#include "support/cmocka.h"

static void check_ref_threads(ls_dtype storage, double flops_max) {
    ls_device *one, *three;
    assert_int_equal(ls_device_open("ref", &(ls_device_options){ .threads = 1 }, &one, NULL).code, LS_OK);
    assert_int_equal(ls_device_open("ref", &(ls_device_options){ .threads = 3 }, &three, NULL).code, LS_OK);
    ls_ops_options options = { .storage = storage, .exact = 1, .flops_max = flops_max };
    assert_int_equal(ls_ops_compare(one, three, options), 0);
    ls_device_close(one);
    ls_device_close(three);
}

static void fp32_is_the_same_with_three_threads(void **unused) {
    (void)unused;
    check_ref_threads(LS_F32, 10e6);
}

static void bf16_is_the_same_with_three_threads(void **unused) {
    (void)unused;
    check_ref_threads(LS_BF16, 1e6);
}

static void fp16_is_the_same_with_three_threads(void **unused) {
    (void)unused;
    check_ref_threads(LS_F16, 1e6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_is_the_same_with_three_threads),
        cmocka_unit_test(bf16_is_the_same_with_three_threads),
        cmocka_unit_test(fp16_is_the_same_with_three_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
