// activations.cuh - the activations of device/op_elementwise.h for one element: NAME_value and NAME_slope of x and, if
// the activation has one, of its parameter (config/activations.def).
#pragma once

#include "config/activation.h"
#include "device/cuda/kernels/kernels.cuh"

namespace ls_activations {

// GELU (device/op_elementwise.h) from the normal distribution function Phi and its density, with one exponential. With
// t = |x|: Phi(-t) = exp(-t^2/2) * M(t), where M is a quotient of polynomials (device/cpu/kernels/activations.h:
// relative error 4.5e-9 on [0, 12.5]; beyond, Phi is below 4e-36 and counts as 0). Values far below 0 keep their
// relative accuracy, because t^2 is taken in two parts: rounding t^2 would give a relative error of t^2/2 * 2^-24.
struct ls_normal {
    float below, density; // Phi(x), phi(x) * sqrt(2 * pi)
};
__device__ inline ls_normal ls_normal_of(float x) {
    bool far = fabsf(x) > 12.5f;
    float t = far ? 12.5f : fabsf(x), square = t * t, rest = fmaf(t, t, -square), e = expf(-0.5f * square);
    e = far ? 0 : fmaf(-0.5f * rest, e, e);
    float n = fmaf(t, 3.958633058e-3f, 3.956567743e-2f), d = fmaf(t, 9.922661265e-3f, 9.918448529e-2f);
    n = fmaf(n, t, 1.800582733e-1f), d = fmaf(d, t, 4.610857966e-1f);
    n = fmaf(n, t, 4.339883197e-1f), d = fmaf(d, t, 1.189277986f);
    n = fmaf(n, t, 0.5f), d = fmaf(d, t, 1.665861522f);
    float tail = __fdividef(e * n, fmaf(d, t, 1.0f));
    return { x < 0 ? tail : 1 - tail, e };
}

__device__ inline float gelu_value(float x) {
    return x * ls_normal_of(x).below;
}
__device__ inline float gelu_slope(float x) {
    ls_normal n = ls_normal_of(x);
    return fmaf(x * n.density, 0.398942280401432678f, n.below);
}

__device__ inline float sigmoid_value(float x) {
    return 1.0f / (1.0f + expf(-x));
}
__device__ inline float sigmoid_slope(float x) {
    return sigmoid_value(x) * sigmoid_value(-x);
}

__device__ inline float silu_value(float x) {
    return x * sigmoid_value(x);
}
__device__ inline float silu_slope(float x) {
    return sigmoid_value(x) * (1.0f + x * sigmoid_value(-x));
}

__device__ inline float leaky_relu_value(float x, float slope) {
    return x > 0 ? x : x * slope;
}
__device__ inline float leaky_relu_slope(float x, float slope) {
    return x > 0 ? 1 : slope;
}

__device__ inline float relu6_value(float x) {
    return x <= 0 ? 0 : x >= 6 ? 6 : x;
}
__device__ inline float relu6_slope(float x) {
    return x <= 0 || x >= 6 ? 0 : 1;
}

__device__ inline float elu_value(float x, float alpha) {
    return x <= 0 ? alpha * expm1f(x) : x;
}
__device__ inline float elu_slope(float x, float alpha) {
    return x <= 0 ? alpha * expf(x) : 1;
}

// Returns 2 u, where gelu_tanh(x) = x * (1 + tanh(u)) / 2, because the sigmoid of 2 u is (1 + tanh(u)) / 2.
__device__ inline float gelu_tanh_inner(float x) {
    return x * fmaf(x * x, 1.59576912f * 0.044715f, 1.59576912f);
}
__device__ inline float gelu_tanh_value(float x) {
    return x * sigmoid_value(gelu_tanh_inner(x));
}
// Beyond -20 and 20 the slope is 0 or 1; squares may be infinite there.
__device__ inline float gelu_tanh_slope(float x) {
    float t = x > 20 ? 20 : x < -20 ? -20 : x, inner = gelu_tanh_inner(t);
    return fmaf(t * sigmoid_slope(inner), fmaf(t * t, 3 * 1.59576912f * 0.044715f, 1.59576912f), sigmoid_value(inner));
}

__device__ inline float hardsigmoid_value(float x) {
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) * (1.0f / 6);
}
__device__ inline float hardsigmoid_slope(float x) {
    return x > -3 && x < 3 ? 1.0f / 6 : 0;
}

__device__ inline float hardswish_value(float x) {
    return x * hardsigmoid_value(x);
}
__device__ inline float hardswish_slope(float x) {
    return x <= -3 ? 0 : x >= 3 ? 1 : fmaf(x, 1.0f / 3, 0.5f);
}

__device__ inline float tanh_value(float x) {
    return tanhf(x);
}
__device__ inline float tanh_slope(float x) {
    return 4 * sigmoid_slope(2 * x);
}

__device__ inline float softplus_value(float x) {
    return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}
__device__ inline float softplus_slope(float x) {
    return sigmoid_value(x);
}

// tanh(softplus(x)) and its derivative: with w = exp(x) and n = w (w + 2) they are n / (n + 2) and 4 w (1 + w) / (n +
// 2)^2. For x > 0, both are multiplied out with e = 1/w.
struct mish_gate {
    float value, slope;
};
__device__ inline mish_gate mish_gate_of(float x) {
    float e = expf(-fabsf(x)), n = e * (e + 2), d = fmaf(2 * e, e + 1, 1.0f), slope = 4 * e * (e + 1);
    float over = 1.0f / (x > 0 ? d : n + 2);
    return { (x > 0 ? fmaf(2, e, 1.0f) : n) * over, (x > 0 ? slope * e : slope) * over * over };
}
__device__ inline float mish_value(float x) {
    return x * mish_gate_of(x).value;
}
__device__ inline float mish_slope(float x) {
    mish_gate g = mish_gate_of(x);
    return fmaf(x, g.slope, g.value);
}

} // namespace ls_activations

// Writes f(x), or f'(x) if SLOPE, of the elements of a pack to `to`, which may be x. All threads have the same kind, so
// the switch is outside of the loop.
template <bool SLOPE, typename T>
__device__ inline void ls_activate(
    ls_activation kind, [[maybe_unused]] float parameter, const ls_pack<T> &x, ls_pack<T> &to) {
    switch (kind) {
#define EACH(name, ...) \
    LS_UNROLL \
    for (int k = 0; k < x.size; k++) \
        to.v[k] = SLOPE ? ls_activations::name##_slope(__VA_ARGS__) : ls_activations::name##_value(__VA_ARGS__); \
    break;
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        EACH(name, x.v[k])
#define PARAMETRIC(NAME, name, zero, text, key, preset, maximum, meaning) \
    case LS_ACTIVATION_##NAME: \
        EACH(name, x.v[k], parameter)
#include "config/activations.def"
#undef EACH
    default:
        break;
    }
}
