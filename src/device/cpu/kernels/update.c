// update.c - flat operators over the parameter store. Most are plain loops, which the compiler vectorises.
#include <float.h>
#include <math.h>
#include <string.h>
#include "device/cpu/kernels/kernels.h"

// Adding and subtracting 1.5 * 2^52 rounds a double below 2^51 to an integer, ties to even. The sum holds the integer
// in its low bits.
static const double ROUNDER = 6755399441055744.0;

int LS_KERNEL(to_fixed_point)(const float *grad, double factor, double divisor, int64_t *fixed, size_t n) {
    const double limit = (double)((int64_t)1 << (62 - LS_FIXED_RANK_BITS));
    int64_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        union {
            double d;
            uint64_t i; // values that do not fit may wrap around; they are masked out
        } bits, zero = { .d = ROUNDER };
        bits.d = (double)grad[i] * factor / divisor + ROUNDER;
        int64_t fits = fabs(bits.d - ROUNDER) < limit ? -1 : 0; // false for NaN
        fixed[i] += (int64_t)(bits.i - zero.i) & fits;
        bad |= ~fits;
    }
    return bad != 0;
}

// Converts int64 to double, rounded once, with operations that exist as AVX2 vector instructions. The halves become
// mantissas of doubles with fixed exponents (2^84 and 2^52); these offsets are then subtracted exactly.
static inline double from_fixed(int64_t fixed) {
    union {
        uint64_t i;
        double d;
    } high = { .i = (uint64_t)fixed >> 32 ^ 0x4530000080000000 },
      low = { .i = ((uint64_t)fixed & 0xFFFFFFFF) | 0x4330000000000000 };
    return (high.d - (0x1p84 + 0x1p63 + 0x1p52)) + low.d;
}

void LS_KERNEL(from_fixed_point)(const int64_t *fixed, double share, double factor, float *grad, size_t n) {
    for (size_t i = 0; i < n; i++) grad[i] = (float)(from_fixed(fixed[i]) * share * factor);
}

// Sixteen sums, in half vectors. From a plain loop the compiler would make scalar conversions, which wait three times
// as long for memory.
enum { LANES = 16, HALF = LS_VL > 1 ? LS_VL / 2 : 1, PARTS = LANES / HALF };
typedef float half_vector __attribute__((vector_size(HALF * 4), aligned(4), may_alias));
typedef int32_t half_counts __attribute__((vector_size(HALF * 4)));
typedef double half_doubles __attribute__((vector_size(HALF * 8)));

void LS_KERNEL(grad_stats)(const float *grad, size_t n, double partial[2]) {
    half_doubles sums[PARTS] = { 0 };
    half_counts bads[PARTS] = { 0 };
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma GCC unroll 16
        for (int k = 0; k < PARTS; k++) {
            const half_vector x = *(const half_vector *)(grad + i + k * HALF);
            const half_doubles d = __builtin_convertvector(x, half_doubles);
            sums[k] += d * d;
            bads[k] -= (half_counts)(x - x != 0); // infinity - infinity is NaN
        }
    double sum[LANES];
    int32_t bad[LANES];
    memcpy(sum, sums, sizeof sum);
    memcpy(bad, bads, sizeof bad);
    for (size_t j = 0; i + j < n; j++) {
        sum[j] += (double)grad[i + j] * (double)grad[i + j];
        bad[j] += fabsf(grad[i + j]) <= FLT_MAX ? 0 : 1;
    }
    partial[0] = partial[1] = 0;
    for (int j = 0; j < LANES; j++) {
        partial[0] += sum[j];
        partial[1] += bad[j];
    }
}

void LS_KERNEL(sgd)(const ls_kernel_step *step, const float *grad, float *const kept[], float *weight, size_t n) {
    const ls_kernel_step s = *step;
    float *momentum = kept[0];
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * s.multiplier + s.decay * weight[i];
        float v = s.first ? g : s.momentum * momentum[i] + g;
        momentum[i] = v;
        weight[i] -= s.lr * (s.nesterov ? g + s.momentum * v : v);
    }
}

void LS_KERNEL(adamw)(const ls_kernel_step *step, const float *grad, float *const kept[], float *weight, size_t n) {
    const ls_kernel_step s = *step;
    const float keep = 1 - s.lr * s.decay;
    float *moment1 = kept[0], *moment2 = kept[1];
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * s.multiplier;
        float m = s.beta1 * moment1[i] + s.rest1 * g, v = s.beta2 * moment2[i] + s.rest2 * g * g;
        moment1[i] = m;
        moment2[i] = v;
        weight[i] = weight[i] * keep - s.lr * (m * s.correction1) / (sqrtf(v) * s.correction2 + s.eps);
    }
}

void LS_KERNEL(rmsprop)(const ls_kernel_step *step, const float *grad, float *const kept[], float *weight, size_t n) {
    const ls_kernel_step s = *step;
    float *square = kept[0], *momentum = kept[1];
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * s.multiplier + s.decay * weight[i];
        float q = s.beta2 * square[i] + s.rest2 * g * g, v = s.momentum * momentum[i] + g / (sqrtf(q) + s.eps);
        square[i] = q;
        momentum[i] = v;
        weight[i] -= s.lr * v;
    }
}

void LS_KERNEL(lion)(const ls_kernel_step *step, const float *grad, float *const kept[], float *weight, size_t n) {
    const ls_kernel_step s = *step;
    const float keep = 1 - s.lr * s.decay;
    float *momentum = kept[0];
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * s.multiplier, direction = s.beta1 * momentum[i] + s.rest1 * g;
        momentum[i] = s.beta2 * momentum[i] + s.rest2 * g;
        weight[i] = weight[i] * keep - s.lr * (float)((direction > 0) - (direction < 0));
    }
}
