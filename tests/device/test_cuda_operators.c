// Every operator of the CUDA device in every shape of the tables against ref, in the three storage types.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cuda_device.h"
#include "op_harness.h"

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
    ls_ops_options options = {
        .storage = storage, .flops_max = cuda_is_real() ? 0 : flops_max / SLOW, .library_rounds = cuda_is_real()
    };
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
    compare_with_ref(LS_F16, "seed=3,protect=0", 1e6);
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
