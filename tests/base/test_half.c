// Conversions checked over all 65536 patterns: round trips, and between each two neighbours the tie and the floats
// beside it, which together fix rounding to nearest, ties to even.
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "support/cmocka.h"

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

typedef struct {
    const char *name;
    ls_dtype dtype;
    float (*to_float)(uint16_t);
    uint16_t (*from_float)(float);
    uint16_t infinity;
    float beyond; // the finite value that would follow the largest, had the exponent one more
} half_format;

static const half_format formats[] = {
    { "bf16", LS_BF16, ls_float_from_bf16, ls_bf16_from_float, 0x7F80, 0 }, // 2^128 is no float: see the loop
    { "fp16", LS_F16, ls_float_from_f16, ls_f16_from_float, 0x7C00, 65536.0f },
};
enum { FORMATS = sizeof formats / sizeof *formats };

static void round_trip(void **state) {
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        for (int pattern = 0; pattern < 65536; pattern++) {
            float value = formats[f].to_float((uint16_t)pattern);
            uint16_t back = formats[f].from_float(value);
            int is_nan = (pattern & 0x7FFF) > formats[f].infinity;
            if (is_nan != !!isnan(value)) fail_msg("%s 0x%04x: NaN is %d", formats[f].name, pattern, !!isnan(value));
            if (is_nan ? (back & 0x7FFF) <= formats[f].infinity || (back ^ pattern) & 0x8000 : back != pattern)
                fail_msg("%s 0x%04x -> %a -> 0x%04x", formats[f].name, pattern, (double)value, back);
        }
    }
}

static void expect(const half_format *f, float value, uint16_t expected) {
    for (int sign = 0; sign < 2; sign++) {
        uint16_t got = f->from_float(sign ? -value : value), wanted = (uint16_t)(expected | sign << 15);
        if (got != wanted) fail_msg("%s of %a: 0x%04x, expected 0x%04x", f->name, (double)value, got, wanted);
    }
}

static void ties(void **state) {
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        const half_format *format = &formats[f];
        for (uint16_t low = 0; low < format->infinity; low++) {
            uint16_t high = (uint16_t)(low + 1), even = low & 1 ? high : low;
            float a = format->to_float(low), b = high == format->infinity ? format->beyond : format->to_float(high),
                  tie;
            if (format->dtype == LS_BF16) {
                uint32_t middle = (uint32_t)low << 16 | 0x8000;
                memcpy(&tie, &middle, sizeof tie);
            } else {
                tie = (a + b) / 2; // exact
            }
            expect(format, tie, even);
            expect(format, nextafterf(tie, -INFINITY), low);
            expect(format, nextafterf(tie, INFINITY), high);
        }
        expect(format, INFINITY, format->infinity);
        assert_true(isnan(format->to_float(format->from_float(NAN))));
    }
    uint32_t small_nan = 0x7F800001; // its payload is in the bits that are cut off
    float value;
    memcpy(&value, &small_nan, sizeof value);
    assert_true(isnan(ls_float_from_bf16(ls_bf16_from_float(value))));
    assert_true(isnan(ls_float_from_f16(ls_f16_from_float(value))));
    assert_int_equal(ls_f16_from_float(0x1p-25f), 0);
    assert_int_equal(ls_f16_from_float(0x1.8p-25f), 1);
    assert_int_equal(ls_f16_from_float(0x1p-149f), 0);
}

static void arrays(void **state) {
    (void)state;
    float f32[3] = { 0 };
    uint16_t bf16[3] = { 0 }, f16[3] = { 0 };
    void *array[] = { f32, bf16, f16 };
    const ls_dtype dtype[] = { LS_F32, LS_BF16, LS_F16 };
    for (int t = 0; t < 3; t++) {
        ls_store_float(array[t], dtype[t], 1, -1.5f);
        assert_int_equal(bits_of(ls_load_float(array[t], dtype[t], 1)), bits_of(-1.5f));
        assert_int_equal(bits_of(ls_load_float(array[t], dtype[t], 0)), 0);
        assert_int_equal(bits_of(ls_load_float(array[t], dtype[t], 2)), 0);
    }
    assert_int_equal(bf16[1], 0xBFC0);
    assert_int_equal(f16[1], 0xBE00);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(ties),
        cmocka_unit_test(arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
