// The integer arithmetic of deploy/kernels_int8.h beside independent definitions: rescaling as gemmlowp's fixedpoint.h
// writes it, and a convolution, an add and a mean by hand.
#include "support/cmocka.h"

#include <stdlib.h>
#pragma GCC diagnostic ignored "-Wunused-function" // not every kernel is tested here: tests/cli/test_int8.sh
#include "deploy/execute_int8.c"                   // with its kernels for this processor, and kernels_int8.h

// SaturatingRoundingDoublingHighMul and RoundingDivideByPOT of gemmlowp, and their use in
// MultiplyByQuantizedMultiplier of TensorFlow Lite.
static int32_t doubling_high(int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b;
    const int32_t nudge = product >= 0 ? 1 << 30 : 1 - (1 << 30);
    return (int32_t)((product + nudge) / (1LL << 31));
}

static int32_t divide_by_power(int32_t x, int exponent) {
    const int32_t mask = (int32_t)((1LL << exponent) - 1), remainder = x & mask;
    const int32_t threshold = (mask >> 1) + (x < 0);
    return (x >> exponent) + (remainder > threshold);
}

static int32_t gemmlowp(int32_t x, int32_t multiplier, int shift) {
    const int left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    return divide_by_power(doubling_high((int32_t)((int64_t)x * (1LL << left)), multiplier), right);
}

static int32_t random_word(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)(*state >> 32);
}

static void rescaling(void **state) {
    (void)state;
    uint64_t seed = 1;
    static const int32_t edges[] = { 0, 1, -1, 2, -2, 3, -3, 5, -5, 127, -128, 1 << 20, -(1 << 20) };
    for (int i = 0; i < 200000; i++) {
        const int shift = (int)((uint32_t)random_word(&seed) % 39) - 31;
        const int32_t wide = i < 13 ? edges[i] : random_word(&seed) >> ((uint32_t)random_word(&seed) % 31);
        const int32_t x = shift > 0 ? wide >> (shift + 1) : wide;
        const int32_t multiplier = i % 7 == 0 ? 1 << 30 : (random_word(&seed) & 0x3fffffff) | 0x40000000;
        const int32_t ours = rescale(x, multiplier, shift), theirs = gemmlowp(x, multiplier, shift);
        if (ours != theirs) fail_msg("%d * %d, shift %d: %d, gemmlowp has %d", x, multiplier, shift, ours, theirs);
    }
    assert_int_equal(rescale(3, 1 << 30, 0), 2);   // 1.5, half away from zero
    assert_int_equal(rescale(-3, 1 << 30, 0), -1); // the first rounding takes halves up
    assert_int_equal(rescale(-3, 1 << 30, -1), -1);
    assert_int_equal(rescale(1 << 30, 1 << 30, 4), 1 << 30); // saturates
}

static void clamping(void **state) {
    (void)state;
    const int8_layer plain = { .out = 5, .low = -128 }, relu = { .out = -128, .low = -128 },
                     above = { .out = 7, .low = 7 };
    assert_int_equal(clamped(&plain, INT32_MAX), 127);
    assert_int_equal(clamped(&plain, INT32_MIN), -128);
    assert_int_equal(clamped(&plain, -133), -128);
    assert_int_equal(clamped(&plain, 122), 127);
    assert_int_equal(clamped(&plain, 1), 6);
    assert_int_equal(clamped(&relu, -1), -128);
    assert_int_equal(clamped(&above, -3), 7);
}

// A 1x2 map of two channels, a kernel of 1x3 with padding, two output channels; the second one is constant.
static void convolution(void **state) {
    (void)state;
    static const int8_t weight[] = { 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0 };
    static const int32_t bias[] = { 10, -3 }, multiplier[] = { 1 << 30, 1 << 30 }, shift[] = { 0, 1 };
    const int8_layer l = { .w = { 1, 2, 2, 1, 2, 2, 1, 3, 1, 1, 0, 1, 1, 1 },
        .weight = weight,
        .bias = bias,
        .multiplier = multiplier,
        .shift = shift,
        .a = -1,
        .out = 1,
        .low = -128 };
    static const int8_t src[] = { 3, -5, 7, 11 }; // minus the zero point: 4, -4, 8, 12
    int8_t dst[4];
    conv(&l, src, 0, dst);
    // Left: 3*4 - 4*4 + 5*8 + 6*12 + 10 = 118, half of it, and the zero point. Padding adds nothing.
    assert_int_equal(dst[0], 60);
    // Right: 1*4 - 2*4 + 3*8 + 4*12 + 10 = 78
    assert_int_equal(dst[2], 40);
    assert_int_equal(dst[1], -2);
    assert_int_equal(dst[3], -2);
}

static void sums_and_means(void **state) {
    (void)state;
    // a has scale 0.5 and zero 2, b scale 0.25 and zero -4, their sum 0.5 and 1: multipliers of 1/2, 1/4 and 2/2^20.
    static const int32_t multiplier[] = { 1 << 30, 1 << 30, 1 << 30 }, shift[] = { 0, -1, -18 };
    const int8_layer sum = { .w = { 1, 1, 3, 1, 1, 3, 1, 1, 1, 1, 0, 0, 1, 1 },
        .multiplier = multiplier,
        .shift = shift,
        .a = 2,
        .b = -4,
        .out = 1,
        .low = -128 };
    static const int8_t a[] = { 12, 2, 127 }, b[] = { 4, -7, 127 };
    int8_t dst[3];
    add(&sum, a, b, dst);
    assert_int_equal(dst[0], 15); // 5 + 2 = 7 is 14 steps
    assert_int_equal(dst[1], -1); // -0.75 is -1.5 steps, which the last rescaling rounds to -2
    assert_int_equal(dst[2], 127);
    // The mean of 2x2 elements with one row of padding, scales 1 and 1/4: a factor of 1.
    static const int32_t one[] = { 1 << 30 }, up[] = { 1 };
    const int8_layer mean = { .w = { 1, 2, 1, 2, 1, 1, 2, 2, 1, 1, 1, 0, 1, 1 },
        .multiplier = one,
        .shift = up,
        .a = 3,
        .out = -1,
        .low = -128 };
    static const int8_t row[] = { 10, 20 };
    mean_pool(&mean, row, 0, dst);
    assert_int_equal(dst[0], 23); // 7 + 17 - 1
    assert_int_equal(dst[1], 23);
}

// The convolution for processors with VNNI beside the portable one; without VNNI they are the same function.
static void same_by_vnni(void **state) {
    (void)state;
    static const window windows[] = {
        { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1 }, // one number
        { 7, 5, 3, 7, 5, 9, 3, 3, 1, 1, 1, 1, 1, 1 }, { 9, 8, 64, 5, 4, 33, 3, 3, 2, 2, 1, 1, 1, 1 },
        { 6, 7, 40, 6, 5, 24, 3, 2, 1, 1, 2, 0, 2, 4 },  // groups, dilation, oblong
        { 4, 4, 1000, 1, 1, 5, 4, 4, 1, 1, 0, 0, 1, 1 }, // a patch that is too large
    };
    static int8_t a[16000], weight[80000], expected[2000], dst[2000];
    int32_t bias[64], multiplier[64], shift[64];
    uint64_t seed = 1;
    for (int i = 0; i < 80000; i++) weight[i] = (int8_t)(random_word(&seed) % 128);
    for (int i = 0; i < 64; i++) {
        bias[i] = random_word(&seed) % 20000;
        multiplier[i] = (random_word(&seed) & 0x3fffffff) | 0x40000000;
        shift[i] = -5 - i % 4;
    }
    for (int zero = -128; zero < 128; zero += 85)
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
            const int8_layer l = { .w = windows[i],
                .weight = weight,
                .bias = bias,
                .multiplier = multiplier,
                .shift = shift,
                .a = zero,
                .out = -3,
                .low = -128 };
            const size_t count = (size_t)l.w.out_h * (size_t)l.w.out_w * (size_t)l.w.out_c;
            for (int k = 0; k < 16000; k++) a[k] = k % 5 ? (int8_t)random_word(&seed) : (int8_t)(k % 2 ? 127 : -128);
            conv(&l, a, 0, expected);
            conv_here(&l, a, 0, dst);
            for (size_t k = 0; k < count; k++)
                if (dst[k] != expected[k])
                    fail_msg("window %zu, zero %d, number %zu: %d, expected %d", i, zero, k, dst[k], expected[k]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rescaling),
        cmocka_unit_test(clamping),
        cmocka_unit_test(convolution),
        cmocka_unit_test(sums_and_means),
        cmocka_unit_test(same_by_vnni),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
