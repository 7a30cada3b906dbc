// activations.h - activations of op_elementwise.h and their derivatives, for one vector.
//
// GELU uses the normal distribution function Phi and its density. With t = |x|: Phi(-t) = exp(-t^2/2) * M(t), where
// M(t) = exp(t^2/2) * erfc(t/sqrt(2))/2 falls smoothly from 1/2, like 1/t for large t. Phi(t) = 1 - Phi(-t). So small
// values keep their relative accuracy, and the derivative costs little more.
//   M    is a quotient of polynomials of degree 4 and 5. All coefficients are positive, so nothing cancels. Relative
//        error 4.5e-9 on [0, 12.5]. Own fit: least squares against 40 digits, reweighted until all maxima of the error
//        are equal.
//   exp  takes t^2 in two parts, because rounding t^2 would give a relative error of t^2/2 * 2^-24.
// Below -12.5 GELU is 0 (exact values are smaller than 5e-35). Compared with double erfc for every 97th float of
// [-12.5, 12.5] (AVX2 and emulated 16 floats, tests/device/test_activations.c), GELU's relative error is at most
// 4.4e-7. The absolute error of its derivative is at most 1.7e-7.
//
// SiLU: with e = exp(-|x|), the sigmoids of x and -x are 1/(1 + e) and e/(1 + e), in one order or the other, so that
// both keep their relative accuracy. Below -87 SiLU is 0 (exact values are smaller than 2e-36).
#ifndef LS_DEVICE_CPU_KERNELS_ACTIVATIONS_H
#define LS_DEVICE_CPU_KERNELS_ACTIVATIONS_H

#include "device/cpu/kernels/kernels.h"

// exp(x + rest) for x in [-87, 0], with a rest of a few units in the last place of x. Reduction by Cody and Waite,
// polynomial from Cephes (expf); relative error 1e-7.
static inline vf exp_of(vf x, vf rest) {
    // 1.5 * 2^23: adding a number to it rounds the number to an integer in the last bits of the sum
    const float to_integer = 12582912.0f;
    vf shifted = x * 1.44269504088896341f + to_integer, power = shifted - to_integer;
    vf r = (x - power * 0.693359375f) + power * 2.12194440e-4f + rest;
    vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return p * (vf)(((vu)shifted << 23) + 0x3f800000u);
}

typedef struct {
    vf below, density; // Phi(x), phi(x)
} normal;

// exp(-t^2/2) for t in [0, 12.5]
static inline vf bell(vf t) {
    vf head = (vf)((vi)t & -4096); // 12 bits, so that its square is exact
    return exp_of(head * head * -0.5f, (t - head) * (t + head) * -0.5f);
}

static inline normal normal_of(vf x) {
    vf t = (vf)((vi)x & 0x7fffffff);
    vi far = t > 12.5f;
    t = pick(far, broadcast(12.5f), t);
    vf e = (vf)(~far & (vi)bell(t));
    vf n = t * 3.958633058e-3f + 3.956567743e-2f;
    vf d = t * 9.922661265e-3f + 9.918448529e-2f;
    n = n * t + 1.800582733e-1f;
    d = d * t + 4.610857966e-1f;
    n = n * t + 4.339883197e-1f;
    d = d * t + 1.189277986f;
    n = n * t + 0.5f;
    d = d * t + 1.665861522f;
    d = d * t + 1.0f;
    vf tail = e * n / d;
    return (normal){ pick(x < (vf){ 0 }, tail, 1.0f - tail), e * 0.398942280401432678f };
}

static inline vf gelu(vf x) {
    return x * normal_of(x).below;
}

static inline vf gelu_slope(vf x) {
    normal n = normal_of(x);
    return n.below + x * n.density;
}

typedef struct {
    vf of, of_minus; // s(x), s(-x) = 1 - s(x)
} sigmoids;

static inline sigmoids sigmoids_of(vf x) {
    vf t = (vf)((vi)x & 0x7fffffff);
    vi far = t > 87.0f, below = x < (vf){ 0 };
    t = pick(far, broadcast(87.0f), t);
    vf e = (vf)(~far & (vi)exp_of(-t, (vf){ 0 }));
    vf larger = 1.0f / (e + 1.0f), smaller = e * larger;
    return (sigmoids){ pick(below, smaller, larger), pick(below, larger, smaller) };
}

static inline vf sigmoid(vf x) {
    return sigmoids_of(x).of;
}

static inline vf sigmoid_slope(vf x) {
    sigmoids s = sigmoids_of(x);
    return s.of * s.of_minus;
}

static inline vf silu(vf x) {
    return x * sigmoids_of(x).of;
}

static inline vf silu_slope(vf x) {
    sigmoids s = sigmoids_of(x);
    return s.of * (x * s.of_minus + 1.0f);
}

#endif
