// half.h - bfloat16 and IEEE binary16 as bit patterns. Conversions round to nearest, ties to even. NaN stays NaN.
#ifndef LS_BASE_HALF_H
#define LS_BASE_HALF_H

#include <stdint.h>
#include <string.h>
#include "base/shape.h"

// Converts bf16, which is the upper half of a float. Inline, because loops over elements call it.
static inline float ls_float_from_bf16(uint16_t bits) {
    const uint32_t whole = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &whole, sizeof value);
    return value;
}
uint16_t ls_bf16_from_float(float value);
float ls_float_from_f16(uint16_t bits);
uint16_t ls_f16_from_float(float value);

// Read or write element i of an array of type F32, BF16 or F16 (others: assert).
float ls_load_float(const void *array, ls_dtype dtype, int64_t i);
void ls_store_float(void *array, ls_dtype dtype, int64_t i, float value);

#endif
