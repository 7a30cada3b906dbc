#include "config/activation.h"

#include <math.h>

static const double sqrt_half = 0.70710678118654752440, sqrt_two_pi = 2.50662827463100050242;

static double relu_value(double x) {
    return x <= 0 ? 0 : x;
}

static double relu_slope(double x) {
    return x <= 0 ? 0 : 1;
}

static double gelu_value(double x) {
    return x * erfc(-x * sqrt_half) / 2;
}

static double gelu_slope(double x) {
    return erfc(-x * sqrt_half) / 2 + x * exp(-x * x / 2) / sqrt_two_pi;
}

static double sigmoid_value(double x) {
    return 1 / (1 + exp(-x));
}

static double sigmoid_slope(double x) {
    return sigmoid_value(x) * sigmoid_value(-x);
}

static double silu_value(double x) {
    return x * sigmoid_value(x);
}

static double silu_slope(double x) {
    return sigmoid_value(x) * (1 + x * sigmoid_value(-x));
}

static double leaky_relu_value(double x, double slope) {
    return x > 0 ? x : x * slope;
}

static double leaky_relu_slope(double x, double slope) {
    return x > 0 ? 1 : slope;
}

static double relu6_value(double x) {
    return x <= 0 ? 0 : x >= 6 ? 6 : x;
}

static double relu6_slope(double x) {
    return x <= 0 || x >= 6 ? 0 : 1;
}

static double elu_value(double x, double alpha) {
    return x <= 0 ? alpha * expm1(x) : x;
}

static double elu_slope(double x, double alpha) {
    return x <= 0 ? alpha * exp(x) : 1;
}

// (1 + tanh(u)) / 2 is the sigmoid of 2 u, which keeps its relative accuracy far below 0. Returns 2 u.
static double gelu_tanh_inner(double x) {
    return 4 / sqrt_two_pi * x * (1 + 0.044715 * x * x);
}

static double gelu_tanh_value(double x) {
    return x * sigmoid_value(gelu_tanh_inner(x));
}

// For |x| > 20 the slope is 0 or 1. There x * x may be infinite, so x is clamped.
static double gelu_tanh_slope(double x) {
    const double t = x > 20 ? 20 : x < -20 ? -20 : x, inner = gelu_tanh_inner(t);
    return sigmoid_value(inner) + t * sigmoid_slope(inner) * (4 / sqrt_two_pi * (1 + 3 * 0.044715 * t * t));
}

static double hardsigmoid_value(double x) {
    return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
}

static double hardsigmoid_slope(double x) {
    return x > -3 && x < 3 ? 1.0 / 6 : 0;
}

static double hardswish_value(double x) {
    return x * hardsigmoid_value(x);
}

static double hardswish_slope(double x) {
    return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
}

static double softplus_value(double x) {
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double softplus_slope(double x) {
    return sigmoid_value(x);
}

static double tanh_value(double x) {
    return tanh(x);
}

static double tanh_slope(double x) {
    return 4 * sigmoid_slope(2 * x);
}

static double mish_value(double x) {
    return x * tanh(softplus_value(x));
}

static double mish_slope(double x) {
    const double inner = softplus_value(x);
    return tanh(inner) + x * tanh_slope(inner) * sigmoid_value(x);
}

double ls_activation_value(ls_activation kind, double parameter, double x) {
    switch (kind) {
    case LS_ACTIVATION_RELU:
        return relu_value(x);
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

double ls_activation_slope(ls_activation kind, double parameter, double x) {
    switch (kind) {
    case LS_ACTIVATION_RELU:
        return relu_slope(x);
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        return name##_slope(x);
#define PARAMETRIC(NAME, name, zero, text, key, preset, maximum, meaning) \
    case LS_ACTIVATION_##NAME: \
        return name##_slope(x, parameter);
#include "config/activations.def"
    default:
        return 1;
    }
}
