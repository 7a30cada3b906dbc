// elementwise.c - element-wise kernels. Bandwidth-bound: 8 to 12 bytes an element; GELU, with some 35 instructions a vector,
// only where several cores share the memory.
#include <string.h>

#include "device/cpu/kernels/activations.h"

void LS_KERNEL(relu_forward)(const float *a, const float *b, float *dst, size_t n, const ls_elementwise_attr *attr) {
    (void)b, (void)attr;
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, positive(load(a + i)));
    for (; i < n; i++) dst[i] = a[i] < 0 ? 0 : a[i];
}

void LS_KERNEL(relu_backward)(const float *a, const float *b, float *dst, size_t n, const ls_elementwise_attr *attr) {
    (void)attr;
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) {
        vi mask = load(a + i) > (vf){ 0 };
        store(dst + i, (vf)(mask & (vi)load(b + i)));
    }
    for (; i < n; i++) dst[i] = a[i] > 0 ? b[i] : 0;
}

// The last vector is not whole: what is behind the end counts as 0.
#define ACTIVATION(name, value, slope) \
    void LS_KERNEL(name##_forward)( \
        const float *a, const float *b, float *dst, size_t n, const ls_elementwise_attr *attr) { \
        (void)b, (void)attr; \
        size_t i = 0; \
        for (; i + LS_VL <= n; i += LS_VL) store(dst + i, value(load(a + i))); \
        if (i == n) return; \
        float rest[LS_VL] = { 0 }; \
        memcpy(rest, a + i, (n - i) * sizeof *rest); \
        store(rest, value(load(rest))); \
        memcpy(dst + i, rest, (n - i) * sizeof *rest); \
    } \
\
    void LS_KERNEL(name##_backward)( \
        const float *a, const float *b, float *dst, size_t n, const ls_elementwise_attr *attr) { \
        (void)attr; \
        size_t i = 0; \
        for (; i + LS_VL <= n; i += LS_VL) store(dst + i, load(b + i) * slope(load(a + i))); \
        if (i == n) return; \
        float rest[LS_VL] = { 0 }; \
        memcpy(rest, a + i, (n - i) * sizeof *rest); \
        store(rest, slope(load(rest))); \
        for (size_t j = 0; i < n; i++, j++) dst[i] = b[i] * rest[j]; \
    }

ACTIVATION(gelu, gelu, gelu_slope)
ACTIVATION(silu, silu, silu_slope)
ACTIVATION(sigmoid, sigmoid, sigmoid_slope)

void LS_KERNEL(add)(const float *a, const float *b, float *dst, size_t n, const ls_elementwise_attr *attr) {
    (void)attr;
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, load(a + i) + load(b + i));
    for (; i < n; i++) dst[i] = a[i] + b[i];
}

void LS_KERNEL(multiply)(const float *a, const float *b, float *dst, size_t n, const ls_elementwise_attr *attr) {
    (void)attr;
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, load(a + i) * load(b + i));
    for (; i < n; i++) dst[i] = a[i] * b[i];
}

// + 0: padding stays +0 when the factor is negative
void LS_KERNEL(scale)(const float *a, const float *b, float *dst, size_t n, const ls_elementwise_attr *attr) {
    (void)b;
    const float factor = attr->factor;
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, load(a + i) * factor + 0.0f);
    for (; i < n; i++) dst[i] = a[i] * factor + 0.0f;
}
