// Every operator of the CUDA device in every shape of the tables against ref, in the three storage types.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cuda_device.h"
#include "op_harness.h"

static void compare_with_ref(ls_dtype storage) {
    ls_device *ref = NULL;
    assert_int_equal(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL).code, LS_OK);
    ls_device *cuda = cuda_open();
    ls_ops_options options = {
        .storage = storage, .flops_max = cuda_is_real() ? 0 : 3e6, .library_rounds = cuda_is_real()
    };
    assert_int_equal(ls_ops_compare(ref, cuda, options), 0);
    ls_device_close(cuda);
    ls_device_close(ref);
}

static void fp32_agrees_with_ref(void **unused) {
    (void)unused;
    compare_with_ref(LS_F32);
}

static void bf16_agrees_with_ref(void **unused) {
    (void)unused;
    compare_with_ref(LS_BF16);
}

static void fp16_agrees_with_ref(void **unused) {
    (void)unused;
    compare_with_ref(LS_F16);
}

int main(void) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_agrees_with_ref),
        cmocka_unit_test(bf16_agrees_with_ref),
        cmocka_unit_test(fp16_agrees_with_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
