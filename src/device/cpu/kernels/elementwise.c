// elementwise.c - element-wise kernels. Memory bandwidth limits most: 8 to 12 bytes for each element, half of that in
// bfloat16. GELU, with about 35 instructions for each vector, is limited by bandwidth only where several cores share
// the memory.
#include <string.h>

#include "device/cpu/kernels/activations.h"

// Defines the function `name` of a kernel: it computes `value` from vectors x and y of the two inputs; with one input,
// both are from it. The last vector may be incomplete; missing elements count as 0.
#define EACH_OF(name, inputs, value) \
    name(const void *a, const void *b, void *dst, size_t n, const ls_elementwise_attr *attr) { \
        const stored *first = a, *second = inputs > 1 ? b : a; \
        stored *to = dst; \
        (void)attr; \
        size_t i = 0; \
        for (; i + LS_VL <= n; i += LS_VL) { \
            const vf x = load(first + i), y = load(second + i); \
            (void)y; \
            store(to + i, value); \
        } \
        if (i == n) return; \
        stored rest[2][LS_VL] = { { 0 } }; \
        memcpy(rest[0], first + i, (n - i) * sizeof *first); \
        memcpy(rest[1], second + i, (n - i) * sizeof *second); \
        const vf x = load(rest[0]), y = load(rest[1]); \
        (void)y; \
        store(rest[0], value); \
        memcpy(to + i, rest[0], (n - i) * sizeof *to); \
    }

#define EACH(name, inputs, value) void EACH_OF(LS_KERNEL(name), inputs, value)

EACH(relu_forward, 1, positive(x))
EACH(relu_backward, 2, (vf)((vi)(x > (vf){ 0 }) & (vi)y))
EACH(add, 2, x + y)
EACH(multiply, 2, x *y)
EACH(scale, 1, x * attr->factor + 0.0f) // adding 0 keeps padding +0 when the factor is negative

// The activations: a function for each kind.
#define ACTIVATION(NAME, name, zero, text) \
    static void EACH_OF(name##_forward, 1, name##_value(x)) static void EACH_OF(name##_backward, 2, y *name##_slope(x))
#define PARAMETRIC(NAME, name, zero, text, key, preset, maximum, meaning) \
    static void EACH_OF(name##_forward, 1, name##_value(x, attr->parameter)) static void EACH_OF( \
        name##_backward, 2, y *name##_slope(x, attr->parameter))
#include "config/activations.def"

void LS_KERNEL(activation_forward)(const void *a, const void *b, void *dst, size_t n, const ls_elementwise_attr *attr) {
    static ls_kernel_elementwise *const kernels[LS_ACTIVATION_COUNT] = {
#define ACTIVATION(NAME, name, zero, text) [LS_ACTIVATION_##NAME] = name##_forward,
#include "config/activations.def"
    };
    kernels[attr->activation](a, b, dst, n, attr);
}

void LS_KERNEL(activation_backward)(
    const void *a, const void *b, void *dst, size_t n, const ls_elementwise_attr *attr) {
    static ls_kernel_elementwise *const kernels[LS_ACTIVATION_COUNT] = {
#define ACTIVATION(NAME, name, zero, text) [LS_ACTIVATION_##NAME] = name##_backward,
#include "config/activations.def"
    };
    kernels[attr->activation](a, b, dst, n, attr);
}
