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

#define LARGE 30e6
#define SMALL 3e6

// A cpu device's way of computing, beside ref. Factors: a direct convolution adds hundreds of terms in one chain, whose error may
// exceed the tables' tolerance (for sums in any order) a little; Winograd's is up to four times as large (winograd.h), F(5,3)'s, of
// maps and phases of 5x5, up to eight times.
typedef struct {
    const char *winograd, *convolution; // as ls_device_options has them
    double tolerance_factor;
    int kernel, groups; // of a convolution that the algorithm must be asked for
    double flops_max;   // the largest take long; the rule's algorithm computes them
    const char *only;   // NULL: all operators
} way;
enum { WAYS_MAX = 16 };

// Each algorithm of convolutions computes what it can of the tables, whatever the rule prefers.
#define BY(convolution, factor, kernel, groups, flops_max) \
    { "off", convolution, factor, kernel, groups, flops_max, "conv " }

static const way ways_4[] = {
    { "off", NULL, 1.5, 0, 0, 0, NULL },
    BY("winograd f(4,3)", 4, 3, 1, SMALL),
    BY("winograd f(3,5)", 16, 5, 1, SMALL),
    BY("winograd f(2,3)", 4, 3, 1, SMALL),
    BY("own grouped", 1.5, 3, 8, SMALL),
    BY("own product", 1.5, 3, 1, SMALL),
    BY("own direct", 1.5, 3, 1, SMALL),
    { 0 },
};

static const way ways_8[] = {
    { "off", NULL, 1.5, 0, 0, 0, NULL },
    { "auto", NULL, 8, 0, 0, 0, "conv " },
    BY("winograd f(4,3)", 4, 3, 1, LARGE),
    BY("winograd f(2,5)", 5, 5, 1, SMALL), // 5: the worst of 51200 sums over 72 pixels has 4.05
    BY("winograd f(3,5)", 16, 5, 1, SMALL),
    BY("winograd f(5,3)", 16, 3, 1, SMALL),
    BY("winograd f(3,3)", 4, 3, 1, SMALL),
    BY("winograd f(2,3)", 4, 3, 1, LARGE),
    BY("own grouped", 1.5, 3, 8, LARGE),
    BY("own product", 1.5, 3, 1, LARGE),
    BY("onednn", 1.5, 3, 1, LARGE),
    BY("own direct", 1.5, 3, 1, SMALL),
    { 0 },
};

static const way ways_16[] = {
    { "off", NULL, 1.5, 0, 0, 0, NULL },
    { "f2", NULL, 4, 0, 0, 0, "conv " },
    BY("winograd f(4,3)", 4, 3, 1, SMALL),
    BY("winograd f(2,5)", 5, 5, 1, LARGE),
    BY("winograd f(3,5)", 16, 5, 1, LARGE),
    BY("winograd f(5,3)", 16, 3, 1, LARGE),
    BY("winograd f(3,3)", 4, 3, 1, LARGE),
    BY("winograd f(2,3)", 4, 3, 1, SMALL),
    BY("own grouped", 1.5, 3, 4, LARGE),
    BY("own product", 1.5, 3, 1, LARGE),
    BY("own direct", 1.5, 3, 1, LARGE),
    { 0 },
};

static ls_device *way_open(const way *w, int width) {
    return device_open(
        "cpu", (ls_device_options){
                   .threads = 2, .vector_width = width, .winograd = w->winograd, .convolution = w->convolution });
}

// A convolution that the algorithm computes is computed by it.
static void it_is_asked(ls_device *cpu, const way *w) {
    const ls_op_desc desc = { .op = LS_OP_CONV_FORWARD,
        .layer = "asked for",
        .attr.conv = { .src = { 2, 16, 12, 12 },
            .dst = { 2, 24, 12, 12 },
            .kernel_h = w->kernel,
            .kernel_w = w->kernel,
            .stride_h = 1,
            .stride_w = 1,
            .pad_h = w->kernel / 2,
            .pad_w = w->kernel / 2,
            .dilation = 1,
            .groups = w->groups,
            .storage = LS_F32 } };
    ls_plan *plan;
    assert_int_equal(cpu->api->plan_new(cpu, &desc, &plan).code, LS_OK);
    if (strncmp(plan->algorithm, w->convolution, strlen(w->convolution)) != 0)
        fail_msg("computed by %s, expected %s", plan->algorithm, w->convolution);
    cpu->api->plan_free(plan);
}

static void compare_ways(const way *ways, int width) {
    ls_device *ref = device_open("ref", (ls_device_options){ .threads = 2 });
    ls_ops_trial trials[WAYS_MAX] = { 0 };
    size_t count = 0;
    for (; ways[count].winograd; count++) {
        const way *w = &ways[count];
        trials[count] = (ls_ops_trial){ .device = way_open(w, width),
            .options = { .tolerance_factor = w->tolerance_factor, .flops_max = w->flops_max, .only = w->only },
            .name = w->convolution ? w->convolution : w->winograd };
        if (w->convolution) it_is_asked(trials[count].device, w);
    }
    assert_int_equal(ls_ops_compare_each(ref, trials, count), 0);
    for (size_t i = 0; i < count; i++) ls_device_close(trials[i].device);
    ls_device_close(ref);
}

static void width_4_agrees_with_ref(void **unused) {
    (void)unused;
    compare_ways(ways_4, 4);
}

static void width_8_agrees_with_ref(void **unused) {
    (void)unused;
    if (widest() < 8) skip();
    compare_ways(ways_8, 8);
}

static void width_16_agrees_with_ref(void **unused) {
    (void)unused;
    if (widest() < 16) skip();
    compare_ways(ways_16, 16);
}

// Activations of bf16, with kernels of each width. Weights are those of ref, which rounds them; products are exact.
static void bf16_agrees_with_ref(void **unused) {
    (void)unused;
    static const struct {
        const char *winograd;
        double tolerance_factor;
        int width;
    } rows[] = { { "auto", 8, 4 }, { "off", 1.5, 8 }, { "auto", 8, 16 } };
    enum { ROWS = sizeof rows / sizeof *rows };
    ls_device *ref = device_open("ref", (ls_device_options){ .threads = 2 });
    ls_ops_trial trials[ROWS] = { 0 };
    size_t count = 0;
    for (; count < ROWS && rows[count].width <= widest(); count++) {
        const way w = { .winograd = rows[count].winograd };
        trials[count] = (ls_ops_trial){ .device = way_open(&w, rows[count].width),
            .options = { .storage = LS_BF16, .tolerance_factor = rows[count].tolerance_factor },
            .name = w.winograd };
    }
    assert_int_equal(ls_ops_compare_each(ref, trials, count), 0);
    for (size_t i = 0; i < count; i++) ls_device_close(trials[i].device);
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
    compare_threads(8, "auto", LS_F32, 3, "conv ");
#ifndef __SANITIZE_ADDRESS__ // the tests above run the same kernels
    compare_threads(8, "off", LS_F32, 2, NULL);
    compare_threads(16, "off", LS_F32, 3, NULL);
    compare_threads(8, "auto", LS_BF16, 3, NULL);
#endif
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]); // scripts/avx512-check.sh: an emulated processor is slow
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(width_4_agrees_with_ref),
        cmocka_unit_test(width_8_agrees_with_ref),
        cmocka_unit_test(width_16_agrees_with_ref),
        cmocka_unit_test(bf16_agrees_with_ref),
        cmocka_unit_test(an_unknown_algorithm_is_refused),
        cmocka_unit_test(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
