// The cpu device: every operator in every shape of the tables against ref, for every vector width;
// and the same bits for any number of threads.
#include "device/op_harness.h"
#include "device/widths.h"
#include "support/cmocka.h"

static ls_device *device_open(const char *type, ls_device_options options) {
    ls_device *device = NULL;
    ls_status status = ls_device_open(type, &options, &device, NULL);
    if (ls_failed(status)) {
        fprintf(stderr, "%s\n", status.text);
        fail();
    }
    return device;
}

static void compare_with_ref(int width, const char *winograd, double tolerance_factor, const char *only) {
    ls_device *ref = device_open("ref", (ls_device_options){ .threads = 2 });
    ls_device *cpu =
        device_open("cpu", (ls_device_options){ .threads = 2, .vector_width = width, .winograd = winograd });
    assert_int_equal(
        ls_ops_compare(ref, cpu, (ls_ops_options){ .tolerance_factor = tolerance_factor, .only = only }), 0);
    ls_device_close(cpu);
    ls_device_close(ref);
}

// Factors: a direct convolution adds hundreds of terms in one chain, whose error may exceed the tables' tolerance (for
// sums in any order) a little; Winograd's is up to four times as large (winograd.h), F(5,3)'s, of maps and phases of 5x5, up to eight times.
static void width_4_agrees_with_ref(void **unused) {
    (void)unused;
    compare_with_ref(4, "off", 1.5, NULL); // Winograd: every_algorithm_agrees_with_ref, and bf16
}

static void width_8_agrees_with_ref(void **unused) {
    (void)unused;
    if (widest() < 8) skip();
    compare_with_ref(8, "off", 1.5, NULL);
    compare_with_ref(8, "auto", 8, "conv ");
}

static void width_16_agrees_with_ref(void **unused) {
    (void)unused;
    if (widest() < 16) skip();
    compare_with_ref(16, "off", 1.5, NULL);
    compare_with_ref(16, "f2", 4, "conv ");
}

// Activations of bf16, with kernels of either width. Weights are those of ref, which rounds them; products are exact.
static void bf16_agrees_with_ref(void **unused) {
    (void)unused;
    static const struct {
        const char *winograd;
        double tolerance_factor;
        int width;
    } rows[] = { { "off", 1.5, 8 }, { "auto", 8, 16 }, { "auto", 8, 4 } };
    ls_device *ref = device_open("ref", (ls_device_options){ .threads = 2 });
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].width > widest()) continue;
        ls_device *cpu = device_open(
            "cpu", (ls_device_options){ .threads = 2, .vector_width = rows[i].width, .winograd = rows[i].winograd });
        assert_int_equal(ls_ops_compare(ref, cpu,
                             (ls_ops_options){ .storage = LS_BF16, .tolerance_factor = rows[i].tolerance_factor }),
            0);
        ls_device_close(cpu);
    }
    ls_device_close(ref);
}

#define LARGE 30e6
#define SMALL 3e6

// Each algorithm of convolutions computes what it can of the tables, whatever the rule prefers; the
// largest, which take long, have been computed by the rule's.
static void every_algorithm_agrees_with_ref(void **unused) {
    (void)unused;
    static const struct {
        const char *convolution;
        double tolerance_factor;
        int kernel, groups; // of a convolution that it must be asked for
        int width;
        double flops_max;
    } rows[] = {
        { "winograd f(4,3)", 4, 3, 1, 8, LARGE },
        { "winograd f(4,3)", 4, 3, 1, 16, SMALL },
        { "winograd f(2,5)", 5, 5, 1, 8, SMALL }, // 5: the worst of 51200 sums over 72 pixels has 4.05
        { "winograd f(2,5)", 5, 5, 1, 16, LARGE },
        { "winograd f(3,5)", 16, 5, 1, 8, SMALL },
        { "winograd f(3,5)", 16, 5, 1, 16, LARGE },
        { "winograd f(5,3)", 16, 3, 1, 8, SMALL },
        { "winograd f(5,3)", 16, 3, 1, 16, LARGE },
        { "winograd f(3,3)", 4, 3, 1, 8, SMALL },
        { "winograd f(3,3)", 4, 3, 1, 16, LARGE },
        { "winograd f(2,3)", 4, 3, 1, 8, LARGE },
        { "winograd f(2,3)", 4, 3, 1, 16, SMALL },
        { "own grouped", 1.5, 3, 8, 8, LARGE },
        { "own grouped", 1.5, 3, 4, 16, LARGE },
        { "own product", 1.5, 3, 1, 8, LARGE },
        { "own product", 1.5, 3, 1, 16, LARGE },
        { "onednn", 1.5, 3, 1, 8, LARGE },
        { "own direct", 1.5, 3, 1, 8, SMALL },
        { "own direct", 1.5, 3, 1, 16, LARGE },
        { "winograd f(4,3)", 4, 3, 1, 4, SMALL },
        { "winograd f(3,5)", 16, 5, 1, 4, SMALL },
        { "winograd f(2,3)", 4, 3, 1, 4, SMALL },
        { "own grouped", 1.5, 3, 8, 4, SMALL },
        { "own product", 1.5, 3, 1, 4, SMALL },
        { "own direct", 1.5, 3, 1, 4, SMALL },
    };
    ls_device *ref = device_open("ref", (ls_device_options){ .threads = 2 });
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].width > widest()) continue;
        ls_device *cpu = device_open("cpu",
            (ls_device_options){
                .threads = 2, .vector_width = rows[i].width, .winograd = "off", .convolution = rows[i].convolution });
        const ls_op_desc desc = { .op = LS_OP_CONV_FORWARD,
            .layer = "asked for",
            .attr.conv = { .src = { 2, 16, 12, 12 },
                .dst = { 2, 24, 12, 12 },
                .kernel_h = rows[i].kernel,
                .kernel_w = rows[i].kernel,
                .stride_h = 1,
                .stride_w = 1,
                .pad_h = rows[i].kernel / 2,
                .pad_w = rows[i].kernel / 2,
                .dilation = 1,
                .groups = rows[i].groups,
                .storage = LS_F32 } };
        ls_plan *plan;
        assert_int_equal(cpu->api->plan_new(cpu, &desc, &plan).code, LS_OK);
        if (strncmp(plan->algorithm, rows[i].convolution, strlen(rows[i].convolution)) != 0)
            fail_msg("computed by %s, expected %s", plan->algorithm, rows[i].convolution);
        cpu->api->plan_free(plan);
        assert_int_equal(
            ls_ops_compare(ref, cpu,
                (ls_ops_options){
                    .tolerance_factor = rows[i].tolerance_factor, .flops_max = rows[i].flops_max, .only = "conv " }),
            0);
        ls_device_close(cpu);
    }
    ls_device_close(ref);
}

static void an_unknown_algorithm_is_refused(void **unused) {
    (void)unused;
    ls_device *device = NULL;
    ls_status status = ls_device_open("cpu", &(ls_device_options){ .threads = 1, .convolution = "fft" }, &device, NULL);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text,
        "convolution by \"fft\": the cpu device has own product, winograd f(4,3), winograd f(5,3), winograd f(2,5), "
        "winograd f(3,5), winograd f(3,3), "
        "winograd f(2,3), winograd f(3,4), winograd f(4x2,3x5), winograd f(2x4,5x3), winograd f(6x1,3x1), "
        "winograd f(1x6,1x3), winograd f(4x1,3x1), winograd f(1x4,1x3), winograd f(4x1,5x1), winograd f(1x4,1x5), "
        "winograd f(4x1,7x1), winograd f(1x4,1x7), own grouped, onednn and own direct");
}

static void compare_threads(int width, const char *winograd, ls_dtype storage, int threads, const char *only) {
    ls_device *one =
        device_open("cpu", (ls_device_options){ .threads = 1, .vector_width = width, .winograd = winograd });
    ls_device *more =
        device_open("cpu", (ls_device_options){ .threads = threads, .vector_width = width, .winograd = winograd });
    assert_int_equal(ls_ops_compare(one, more, (ls_ops_options){ .storage = storage, .exact = 1, .only = only }), 0);
    ls_device_close(more);
    ls_device_close(one);
}

static void threads_do_not_change_a_bit(void **unused) {
    (void)unused;
    compare_threads(4, "auto", LS_F32, 3, NULL);
    if (widest() < 16) return;
    compare_threads(8, "off", LS_F32, 2, NULL);
    compare_threads(8, "auto", LS_F32, 3, "conv ");
    compare_threads(16, "off", LS_F32, 3, NULL);
    compare_threads(8, "auto", LS_BF16, 3, NULL);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); // scripts/avx512-check.sh: an emulated processor is slow
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(width_4_agrees_with_ref),
        cmocka_unit_test(width_8_agrees_with_ref),
        cmocka_unit_test(width_16_agrees_with_ref),
        cmocka_unit_test(bf16_agrees_with_ref),
        cmocka_unit_test(every_algorithm_agrees_with_ref),
        cmocka_unit_test(an_unknown_algorithm_is_refused),
        cmocka_unit_test(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
