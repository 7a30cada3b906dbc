// The cards that the program is for, as the emulation describes them: shared memory, clusters, and whether there are bf16, TF32 and
// the matrix operations of tensor_cores.cuh. The emulation ends the program where a kernel uses more than its card has.
#include "device/cuda_device.h"
#include "device/op_harness.h"
#include "support/cmocka.h"
#include "support/must.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SLOW = 4, FIRST = 1, STEP = 3 }; // operators of two cards
#else
enum { SLOW = 1, FIRST = 0, STEP = 1 };
#endif

static const struct {
    int sm;
    ls_dtype mixed;        // type of mixed precision
    const char *algorithm; // of a convolution of few channels
} cards[] = {
    { 70, LS_F16, "direct" },         // V100
    { 75, LS_F16, "direct" },         // T4, RTX 20
    { 86, LS_BF16, "implicit gemm" }, // RTX 30
    { 90, LS_F16, "implicit gemm" },  // H100
    { 120, LS_BF16, "implicit gemm" } // RTX 50
};
enum { CARDS = sizeof cards / sizeof *cards };

static ls_device *open_card(int card, const ls_device_options *options) {
    char settings[64];
    snprintf(settings, sizeof settings, "seed=%d,protect=0,sm=%d", card + 1, cards[card].sm);
    setenv("LOCKSTEP_EMULATION", settings, 1);
    return cuda_open_with(options);
}

// Every operator in mixed precision. In fp32 those that a card computes in TF32, which 7.x must compute exactly.
static void operators_agree_with_ref(void **unused) {
    (void)unused;
    ls_device *ref = NULL;
    must(ls_device_open("ref", &(ls_device_options){ .threads = 2 }, &ref, NULL));
    for (int i = FIRST; i < CARDS; i += STEP) {
        ls_device *cuda = open_card(i, &(ls_device_options){ .tf32 = 1, .alone = 1 });
        ls_ops_options mixed = { .storage = cards[i].mixed, .flops_max = 3e5 / SLOW };
        ls_ops_options conv = {
            .storage = LS_F32, .flops_max = 2e5 / SLOW, .tf32 = cards[i].sm >= 80, .only = "conv "
        };
        if (ls_ops_compare(ref, cuda, mixed) || ls_ops_compare(ref, cuda, conv)) fail_msg("sm_%d", cards[i].sm);
        ls_device_close(cuda);
    }
    ls_device_close(ref);
}

static void kernels_are_those_of_the_card(void **unused) {
    (void)unused;
    const ls_op_desc desc = { LS_OP_CONV_FORWARD, "few channels",
        .attr.conv = { { 2, 3, 8, 8 }, { 2, 16, 8, 8 }, 3, 3, 1, 1, 1, 1, 1, 1, .storage = LS_F16 } };
    for (int i = 0; i < CARDS; i++) {
        ls_device *cuda = open_card(i, &(ls_device_options){ .index = 0 });
        ls_plan *plan = NULL;
        must(cuda->api->plan_new(cuda, &desc, &plan));
        if (strcmp(plan->algorithm, cards[i].algorithm) != 0)
            fail_msg("sm_%d: %s; expected %s", cards[i].sm, plan->algorithm, cards[i].algorithm);
        cuda->api->plan_free(plan);
        ls_device_close(cuda);
    }
}

static void bf16_is_refused_before_8_0(void **unused) {
    (void)unused;
    for (int i = 0; i < CARDS; i++) {
        const int old = cards[i].sm < 80;
        ls_device *cuda = open_card(i, &(ls_device_options){ .index = 0 });
        must(cuda->api->check_precision(cuda, LS_F16));
        ls_status status = cuda->api->check_precision(cuda, LS_BF16);
        assert_int_equal(status.code, old ? LS_USAGE : LS_OK);
        if (old && (!strstr(status.text, "bf16 needs a GPU of compute capability 8.0 or later") ||
                       !strstr(status.text, cards[i].sm == 70 ? "has 7.0" : "has 7.5") ||
                       !strstr(status.text, "train.precision = fp16")))
            fail_msg("%s", status.text);
        ls_device_close(cuda);
    }
}

int main(void) {
    int skipped = cuda_choose();
    if (skipped) return skipped;
    if (cuda_is_real()) {
        puts("skipped: the cards are the emulation's");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_agree_with_ref),
        cmocka_unit_test(kernels_are_those_of_the_card),
        cmocka_unit_test(bf16_is_refused_before_8_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
