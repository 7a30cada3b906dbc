// cuda_bf16.h - __nv_bfloat16 for storage: conversions round to nearest, ties to even;
// NaN stays NaN (the bits of base/half.c).
#pragma once

#include "cuda_runtime.h"

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float value);
    operator float() const;
};

inline float __bfloat162float(__nv_bfloat16 b) { return __uint_as_float(static_cast<unsigned>(b.bits) << 16); }

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    unsigned all = __float_as_uint(value);
    bool nan = (all & 0x7FFFFFFFu) > 0x7F800000u;
    __nv_bfloat16 b;
    b.bits = static_cast<uint16_t>(nan ? all >> 16 | 0x40u : (all + 0x7FFFu + (all >> 16 & 1u)) >> 16);
    return b;
}

inline __nv_bfloat16::__nv_bfloat16(float value) { bits = __float2bfloat16_rn(value).bits; }
inline __nv_bfloat16::operator float() const { return __bfloat162float(*this); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b) { return b.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __nv_bfloat16 b;
    b.bits = bits;
    return b;
}
