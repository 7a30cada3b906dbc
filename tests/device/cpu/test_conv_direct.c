// Direct convolution by own kernels against ref: shapes that leave parts of the last block of channels over, phases of
// strided convolutions without a tap, filters that reach beyond the map; and the same bits for any number of threads.
#include "device/op_harness.h"
#include "device/widths.h"
#include "support/cmocka.h"

typedef struct {
    const char *name;
    ls_nchw src;
    int out_channels, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation, groups, bias;
} row;

// clang-format off
static const row rows[] = {
    //                                    src               K  kernel stride  pad  d  g  bias
    { "half a block in and out",          { 2, 24, 9, 13 }, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1 },
    { "less than half of one",            { 3, 20, 7, 9 },  20, 3, 3, 1, 1, 1, 1, 1, 1, 1 },
    { "more than half of one",            { 2, 10, 8, 11 }, 10, 3, 5, 1, 1, 1, 2, 1, 1, 0 },
    { "one channel in the last block",    { 2, 17, 6, 7 },  33, 3, 3, 1, 1, 1, 1, 1, 1, 1 },
    { "all but one of it",                { 2, 31, 5, 6 },  15, 3, 3, 1, 1, 1, 1, 1, 1, 0 },
    { "two blocks and a half",            { 2, 40, 6, 10 }, 40, 5, 5, 1, 1, 2, 2, 1, 1, 1 },
    { "half a block alone",               { 3, 8, 9, 14 },   8, 3, 3, 1, 1, 1, 1, 1, 1, 1 },
    { "half a block alone, narrow",       { 3, 7, 9, 3 },    6, 3, 3, 1, 1, 1, 1, 1, 1, 1 },
    { "from half a block to few",         { 2, 24, 6, 9 },   3, 3, 3, 2, 2, 1, 1, 1, 1, 1 },
    { "from few to half a block",         { 2, 3, 11, 9 },  24, 5, 5, 2, 2, 2, 2, 1, 1, 1 },
    { "four channels, dilated",           { 2, 4, 12, 13 }, 24, 3, 3, 2, 1, 2, 2, 2, 1, 0 },
    { "from four",                        { 2, 4, 7, 9 },   24, 3, 3, 1, 1, 1, 1, 1, 1, 1 },
    { "1x1 as it lies",                   { 2, 24, 5, 9 },  40, 1, 1, 1, 1, 0, 0, 1, 1, 1 },
    { "1x1, stride 2",                    { 2, 20, 9, 7 },  24, 1, 1, 2, 2, 0, 0, 1, 1, 0 },
    { "1x1, stride 3, padded",            { 1, 10, 7, 8 },  16, 1, 1, 3, 3, 1, 1, 1, 1, 1 },
    { "1x1, padded",                      { 1, 20, 6, 5 },  16, 1, 1, 1, 1, 1, 1, 1, 1, 1 },
    { "stride 2",                         { 3, 16, 9, 10 }, 32, 3, 3, 2, 2, 1, 1, 1, 1, 0 },
    { "stride 2, no padding",             { 2, 24, 9, 8 },  20, 3, 3, 2, 2, 0, 0, 1, 1, 1 },
    { "stride 2, dilation 2",             { 2, 24, 13, 12 }, 24, 3, 3, 2, 2, 2, 2, 2, 1, 1 },
    { "stride 2, dilation 2, padding 1",  { 2, 32, 12, 13 }, 16, 3, 3, 2, 2, 1, 1, 2, 1, 0 },
    { "stride 2, dilation 3",             { 2, 24, 14, 17 }, 10, 3, 3, 2, 2, 3, 3, 3, 1, 1 },
    { "stride 3",                         { 2, 32, 13, 11 }, 32, 3, 3, 3, 3, 1, 1, 1, 1, 0 },
    { "stride 3, 5x5",                    { 2, 20, 15, 16 }, 24, 5, 5, 3, 3, 2, 2, 1, 1, 1 },
    { "stride 4 beyond the filter",       { 2, 24, 11, 10 }, 12, 3, 2, 4, 4, 1, 0, 1, 1, 0 },
    { "stride 4, dilation 6",             { 1, 16, 19, 17 }, 24, 3, 3, 4, 4, 5, 6, 6, 1, 1 },
    { "stride 6, dilation 4",             { 1, 24, 17, 23 }, 16, 4, 3, 6, 6, 4, 3, 4, 1, 0 },
    { "stride 2x1",                       { 2, 24, 11, 9 }, 40, 7, 1, 2, 1, 3, 0, 1, 1, 1 },
    { "stride 1x2",                       { 2, 40, 7, 12 }, 24, 1, 7, 1, 2, 0, 3, 1, 1, 0 },
    { "stride 1x3, dilation 2",           { 2, 12, 9, 14 }, 20, 2, 3, 1, 3, 2, 2, 2, 1, 1 },
    { "dilation beyond the map",          { 2, 40, 6, 6 },  24, 5, 5, 1, 1, 4, 4, 2, 1, 1 },
    { "only the middle meets the map",    { 3, 24, 3, 2 },  24, 3, 3, 1, 1, 4, 4, 4, 1, 1 },
    { "padding beyond the filter",        { 2, 20, 5, 4 },  24, 3, 3, 1, 1, 4, 3, 1, 1, 1 },
    { "padding beyond, stride 2",         { 2, 24, 5, 6 },  20, 3, 3, 2, 2, 5, 4, 1, 1, 0 },
    { "the last pixels are not read",     { 2, 24, 12, 12 }, 16, 3, 3, 5, 4, 0, 0, 1, 1, 0 },
    { "a row of pixels",                  { 2, 24, 1, 27 }, 24, 1, 5, 1, 1, 0, 2, 1, 1, 1 },
    { "a pixel",                          { 5, 24, 1, 1 },  40, 3, 3, 2, 2, 1, 1, 1, 1, 1 },
    { "groups as parts",                  { 2, 64, 9, 8 },  32, 3, 3, 2, 2, 1, 1, 1, 2, 1 },
    { "groups, no parts",                 { 2, 24, 9, 8 },  24, 3, 3, 2, 2, 1, 1, 1, 3, 1 },
};
// clang-format on

static ls_conv_attr attr_of(const row *r) {
    const int height = r->dilation * (r->kernel_h - 1) + 1, width = r->dilation * (r->kernel_w - 1) + 1;
    return (ls_conv_attr){ .src = r->src,
        .dst = { r->src.n, r->out_channels, (r->src.h + 2 * r->pad_h - height) / r->stride_h + 1,
            (r->src.w + 2 * r->pad_w - width) / r->stride_w + 1 },
        .kernel_h = r->kernel_h,
        .kernel_w = r->kernel_w,
        .stride_h = r->stride_h,
        .stride_w = r->stride_w,
        .pad_h = r->pad_h,
        .pad_w = r->pad_w,
        .dilation = r->dilation,
        .groups = r->groups,
        .has_bias = r->bias,
        .storage = LS_F32 };
}

static ls_device *device_open(const char *type, int width, int threads) {
    ls_device *device = NULL;
    const ls_device_options options = {
        .threads = threads, .vector_width = width, .winograd = "off", .convolution = width ? "own direct" : NULL
    };
    assert_int_equal(ls_device_open(type, &options, &device, NULL).code, LS_OK);
    return device;
}

static void compare(ls_device *oracle, ls_device *device, ls_ops_options options) {
    ops_comparison comparison = { .trial = { .device = device, .options = options } };
    ops_comparisons all = { .oracle = oracle, .of = &comparison, .count = 1 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        conv_case(rows[i].name, attr_of(&rows[i]), compare_case, &all);
    assert_int_equal(comparison.failed, 0);
    assert_true(comparison.run > 3 * (int)(sizeof rows / sizeof *rows));
    ls_device_close(device);
    ls_device_close(oracle);
}

static void it_agrees_with_ref(void **unused) {
    (void)unused;
    for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2)
        compare(device_open("ref", 0, 2), device_open("cpu", width, 2), (ls_ops_options){ .tolerance_factor = 1.5 });
}

static void threads_do_not_change_a_bit(void **unused) {
    (void)unused;
    for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2)
        compare(device_open("cpu", width, 1), device_open("cpu", width, 3), (ls_ops_options){ .exact = 1 });
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_ref),
        cmocka_unit_test(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
