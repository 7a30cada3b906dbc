// cuda_fp16.h - __half for storage: conversions round to nearest, ties to even; NaN stays NaN (the bits of base/half.c).
#pragma once

#include "cuda_runtime.h"

struct __half {
    uint16_t bits;
    __half() = default;
    __half(float value);
    operator float() const;
};

inline float __half2float(__half h) {
    unsigned sign = (h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 31u, mantissa = h.bits & 0x3FFu;
    if (exponent == 0) return __uint_as_float(sign | __float_as_uint(static_cast<float>(mantissa) * 0x1p-24f));
    if (exponent == 31) return __uint_as_float(sign | 0x7F800000u | mantissa << 13);
    return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

inline __half __float2half_rn(float value) {
    unsigned all = __float_as_uint(value), sign = all >> 16 & 0x8000u, magnitude = all & 0x7FFFFFFFu, result;
    if (magnitude > 0x7F800000u) {
        result = 0x7E00u | (magnitude >> 13 & 0x3FFu); // a quiet NaN
    } else if (magnitude >= 0x477FF000u) {
        result = 0x7C00u; // 65520 and above
    } else if (magnitude >= 0x38800000u) {
        result = (magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    } else { // units of 2^-24; adding 1/2 leaves them, rounded to even, in the last bits of the sum
        result = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3F000000u;
    }
    __half h;
    h.bits = static_cast<uint16_t>(sign | result);
    return h;
}

inline __half::__half(float value) { bits = __float2half_rn(value).bits; }
inline __half::operator float() const { return __half2float(*this); }
inline __half __float2half(float value) { return __float2half_rn(value); }
inline unsigned short __half_as_ushort(__half h) { return h.bits; }
inline __half __ushort_as_half(unsigned short bits) {
    __half h;
    h.bits = bits;
    return h;
}
typedef __half half;
