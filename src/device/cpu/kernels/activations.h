// activations.h - activations of op_elementwise.h and their derivatives, for one vector: NAME_value and NAME_slope of x
// and, with a parameter, of the parameter (config/activations.def).
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
// both keep their relative accuracy. Below -87 SiLU is 0 (exact values are smaller than 2e-36). The others are made of
// the same e, without differences of nearly equal numbers: tanh = -m/(2 + m) with m = exp(-2|x|) - 1, softplus =
// max(x, 0) + log(1 + e) with log(1 + e) = 2 atanh(e/(2 + e)), and mish, where tanh(log(1 + w)) = (w^2 + 2w)/(w^2 + 2w
// + 2), w = exp(x). Their relative errors are below 5e-7, too; gelu_tanh's grows to 2e-5 at -9, where it is 1e-37.
#ifndef LS_DEVICE_CPU_KERNELS_ACTIVATIONS_H
#define LS_DEVICE_CPU_KERNELS_ACTIVATIONS_H

#include "device/cpu/kernels/kernels.h"

typedef struct {
    vf r, p, scale; // exp(x) = (1 + r + p r^2) * scale, scale a power of 2
} exponential;

// exp(x + rest) for x in [-87, 0]; rest: at most a few units in the last place of x. Reduction by Cody and Waite,
// polynomial from Cephes (expf); relative error 1e-7.
static inline exponential exponential_of(vf x, vf rest) {
    // 1.5 * 2^23: adding a number to it rounds the number to an integer in the last bits of the sum
    const float to_integer = 12582912.0f;
    vf shifted = x * 1.44269504088896341f + to_integer, power = shifted - to_integer;
    vf r = (x - power * 0.693359375f) + power * 2.12194440e-4f + rest;
    vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (exponential){ r, p, (vf)(((vu)shifted << 23) + 0x3f800000u) };
}

static inline vf exp_of(vf x, vf rest) {
    const exponential e = exponential_of(x, rest);
    return (e.p * (e.r * e.r) + (e.r + 1.0f)) * e.scale;
}

// exp(x) - 1 for x in [-87, 0]
static inline vf expm1_of(vf x) {
    const exponential e = exponential_of(x, (vf){ 0 });
    return (e.p * (e.r * e.r) + e.r) * e.scale + (e.scale - 1.0f);
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

static inline vf gelu_value(vf x) {
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

static inline vf sigmoid_value(vf x) {
    return sigmoids_of(x).of;
}

static inline vf sigmoid_slope(vf x) {
    sigmoids s = sigmoids_of(x);
    return s.of * s.of_minus;
}

static inline vf silu_value(vf x) {
    return x * sigmoids_of(x).of;
}

static inline vf silu_slope(vf x) {
    sigmoids s = sigmoids_of(x);
    return s.of * (x * s.of_minus + 1.0f);
}

static inline vf leaky_relu_value(vf x, float slope) {
    return pick(x > 0.0f, x, x * slope);
}

static inline vf leaky_relu_slope(vf x, float slope) {
    return pick(x > 0.0f, broadcast(1), broadcast(slope));
}

static inline vf relu6_value(vf x) {
    return pick(x >= 6.0f, broadcast(6), positive(x));
}

static inline vf relu6_slope(vf x) {
    return pick((x <= 0.0f) | (x >= 6.0f), (vf){ 0 }, broadcast(1));
}

// Limits x to [-limit, limit]; NaN stays NaN.
static inline vf within(vf x, float limit) {
    x = pick(x > limit, broadcast(limit), x);
    return pick(x < -limit, broadcast(-limit), x);
}

static inline vf elu_value(vf x, float alpha) {
    return pick(x > 0.0f, x, expm1_of(within(x, 87)) * alpha);
}

static inline vf elu_slope(vf x, float alpha) {
    const vf below = (vf)((vi)(x >= -87.0f) & (vi)exp_of(within(x, 87), (vf){ 0 }));
    return pick(x <= 0.0f, below * alpha, broadcast(1));
}

// Returns 2 u, because the sigmoid of 2 u is (1 + tanh(u)) / 2.
static inline vf gelu_tanh_inner(vf x) {
    return x * (x * x * (1.59576912f * 0.044715f) + 1.59576912f);
}

static inline vf gelu_tanh_value(vf x) {
    return x * sigmoid_value(gelu_tanh_inner(x));
}

static inline vf gelu_tanh_slope(vf x) {
    const vf t = within(x, 20); // beyond, the slope is 0 or 1; squares may be infinite there
    const sigmoids s = sigmoids_of(gelu_tanh_inner(t));
    return t * s.of * s.of_minus * (t * t * (3 * 1.59576912f * 0.044715f) + 1.59576912f) + s.of;
}

static inline vf hardsigmoid_value(vf x) {
    return (within(x, 3) + 3.0f) * (1.0f / 6);
}

static inline vf hardsigmoid_slope(vf x) {
    return (vf)((x > -3.0f) & (x < 3.0f) & (vi)broadcast(1.0f / 6));
}

static inline vf hardswish_value(vf x) {
    return x * hardsigmoid_value(x);
}

static inline vf hardswish_slope(vf x) {
    const vf middle = pick(x >= 3.0f, broadcast(1), x * (1.0f / 3) + 0.5f);
    return (vf)(~(x <= -3.0f) & (vi)middle);
}

// exp(-|x|)
static inline vf falling(vf x) {
    const vf t = (vf)((vi)x & 0x7fffffff);
    return (vf)(~(t > 87.0f) & (vi)exp_of(-within(t, 87), (vf){ 0 }));
}

static inline vf tanh_value(vf x) {
    const vf t = (vf)((vi)x & INT32_MAX), m = expm1_of(within(t, 43) * -2.0f);
    return (vf)(((vi)(m / (m + 2.0f)) & INT32_MAX) | ((vi)x & INT32_MIN));
}

static inline vf tanh_slope(vf x) {
    return sigmoid_slope(x * 2.0f) * 4.0f;
}

// 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...). s is at most 1/3, so the terms that are left out are below 3e-8 of the sum.
static inline vf softplus_value(vf x) {
    const vf e = falling(x), s = e / (e + 2.0f), square = s * s;
    vf p = square * (2.0f / 15) + 2.0f / 13;
    p = p * square + 2.0f / 11;
    p = p * square + 2.0f / 9;
    p = p * square + 2.0f / 7;
    p = p * square + 2.0f / 5;
    p = p * square + 2.0f / 3;
    p = p * square + 2.0f;
    return p * s + pick(x > 0.0f, x, (vf){ 0 });
}

static inline vf softplus_slope(vf x) {
    return sigmoid_value(x);
}

typedef struct {
    vf of, slope; // tanh(softplus(x)) and its derivative
} gate_of_mish;

// With w = exp(x) and n = w (w + 2): n / (n + 2) and 4 w (1 + w) / (n + 2)^2. For x > 0, both are multiplied out with
// e = 1/w.
static inline gate_of_mish gate_of_mish_at(vf x) {
    const vf e = falling(x), n = e * (e + 2.0f), d = e * (e + 1.0f) * 2.0f + 1.0f;
    const vf below = 1.0f / (n + 2.0f), above = 1.0f / d, slope = e * (e + 1.0f) * 4.0f;
    return (gate_of_mish){ pick(x > 0.0f, (e * 2.0f + 1.0f) * above, n * below),
        pick(x > 0.0f, slope * e * above * above, slope * below * below) };
}

static inline vf mish_value(vf x) {
    return x * gate_of_mish_at(x).of;
}

static inline vf mish_slope(vf x) {
    const gate_of_mish g = gate_of_mish_at(x);
    return x * g.slope + g.of;
}

// f(x) and f'(x) of a kind, a compile-time constant.
static inline __attribute__((always_inline)) vf activation_value(vf x, ls_activation kind, float parameter) {
    switch (kind) {
    case LS_ACTIVATION_RELU:
        return positive(x);
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        return name##_value(x);
#define PARAMETRIC(NAME, name, zero, text, key, preset, maximum, meaning) \
    case LS_ACTIVATION_##NAME: \
        return name##_value(x, parameter);
#include "config/activations.def"
    default:
        return x;
    }
}

static inline __attribute__((always_inline)) vf activation_slope(vf x, ls_activation kind, float parameter) {
    switch (kind) {
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        return name##_slope(x);
#define PARAMETRIC(NAME, name, zero, text, key, preset, maximum, meaning) \
    case LS_ACTIVATION_##NAME: \
        return name##_slope(x, parameter);
#include "config/activations.def"
    default:
        return broadcast(1);
    }
}

#endif
