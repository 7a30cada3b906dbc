#include "base/half.h"

#include <assert.h>
#include <string.h>

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t ls_bf16_from_float(float value) {
    uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(bits >> 16 | 0x40u); // make NaN quiet, so that it cannot become inf
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float ls_float_from_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, mantissa = bits & 0x3FFu;
    if (exponent == 0) return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    if (exponent == 31) return float_of(sign | 0x7F800000u | mantissa << 13);
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t ls_f16_from_float(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
    if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7C00u); // 65536 and above
    if (magnitude >= 0x38800000u) { // normal; from 65520 on, rounding carries into the exponent and gives infinity
        magnitude += 0xFFFu + (magnitude >> 13 & 1u);
        return (uint16_t)(sign | (magnitude - 0x38000000u) >> 13);
    }
    uint32_t shift = 126 - (magnitude >> 23); // subnormal: count units of 2^-24
    if (shift > 24) return (uint16_t)sign;
    uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
    uint32_t units = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    units += rest > half || (rest == half && (units & 1u));
    return (uint16_t)(sign | units);
}

float ls_load_float(const void *array, ls_dtype dtype, int64_t i) {
    switch (dtype) {
    case LS_F32:
        return ((const float *)array)[i];
    case LS_BF16:
        return ls_float_from_bf16(((const uint16_t *)array)[i]);
    case LS_F16:
        return ls_float_from_f16(((const uint16_t *)array)[i]);
    default:
        assert(!"ls_load_float: not a floating-point type of 32 or 16 bits");
        return 0;
    }
}

void ls_store_float(void *array, ls_dtype dtype, int64_t i, float value) {
    switch (dtype) {
    case LS_F32:
        ((float *)array)[i] = value;
        break;
    case LS_BF16:
        ((uint16_t *)array)[i] = ls_bf16_from_float(value);
        break;
    case LS_F16:
        ((uint16_t *)array)[i] = ls_f16_from_float(value);
        break;
    default:
        assert(!"ls_store_float: not a floating-point type of 32 or 16 bits");
    }
}
