// activations.h - activations of op_elementwise.h and their derivatives, of a vector.
//
// GELU, from the normal distribution function Phi and its density: with t = |x|, Phi(-t) = exp(-t^2/2) * M(t), where M(t) = exp(t^2/2) * erfc(t/sqrt(2))/2 falls smoothly from 1/2 like
// 1/t; Phi(t) = 1 - Phi(-t). So small values keep their relative accuracy, and the derivative costs little more.
//   M    a quotient of polynomials of degree 4 and 5, all coefficients positive, nothing cancels: relative error 4.5e-9
//        on [0, 12.5]. Own fit (least squares against 40 digits, reweighted until all maxima of the error are alike).
//   exp  t^2 is taken in two parts, as its rounding would be a relative error of t^2/2 * 2^-24.
// Below -12.5 GELU (then smaller than 5e-35) is 0. Against double erfc, every 97th float of [-12.5, 12.5] (AVX2 and 16
// floats emulated, tests/device/test_activations.c): GELU is off by at most 4.4e-7 of its value, its derivative by 1.7e-7.
//
// SiLU: with e = exp(-|x|), the sigmoids of x and -x are 1/(1 + e) and e/(1 + e), in one order or the other, so that both
// keep their relative accuracy. Below -87 SiLU (then smaller than 2e-36) is 0.
#ifndef LS_DEVICE_CPU_KERNELS_ACTIVATIONS_H
#define LS_DEVICE_CPU_KERNELS_ACTIVATIONS_H

#include "device/cpu/kernels/kernels.h"

// exp(x + rest) for x in [-87, 0] and a rest of some units in its last place: Cody and Waite's reduction and Cephes'
// polynomial (expf), relative error 1e-7.
static inline vf exp_of(vf x, vf rest) {
    const float to_integer = 12582912.0f; // 1.5 * 2^23: what is added to it is rounded to an integer in its last bits
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
    vf head = (vf)((vi)t & -4096); // 12 bits: its square is exact
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
