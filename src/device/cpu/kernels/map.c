// map.c - element-wise kernels. Bandwidth-bound: 8 to 12 bytes an element; GELU, with some 35 instructions a vector,
// only where several cores share the memory.
#include <string.h>

#include "device/cpu/kernels/gelu.h"

void LS_KERNEL(relu_forward)(const float *src, float *dst, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, positive(load(src + i)));
    for (; i < n; i++) dst[i] = src[i] < 0 ? 0 : src[i];
}

void LS_KERNEL(relu_backward)(const float *dst, const float *grad_dst, float *grad_src, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) {
        vi mask = load(dst + i) > (vf){ 0 };
        store(grad_src + i, (vf)(mask & (vi)load(grad_dst + i)));
    }
    for (; i < n; i++) grad_src[i] = dst[i] > 0 ? grad_dst[i] : 0;
}

void LS_KERNEL(gelu_forward)(const float *src, float *dst, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, gelu(load(src + i)));
    if (i == n) return;
    float rest[LS_VL] = { 0 };
    memcpy(rest, src + i, (n - i) * sizeof *rest);
    store(rest, gelu(load(rest)));
    memcpy(dst + i, rest, (n - i) * sizeof *rest);
}

void LS_KERNEL(gelu_backward)(const float *src, const float *grad_dst, float *grad_src, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(grad_src + i, load(grad_dst + i) * gelu_slope(load(src + i)));
    if (i == n) return;
    float rest[LS_VL] = { 0 };
    memcpy(rest, src + i, (n - i) * sizeof *rest);
    store(rest, gelu_slope(load(rest)));
    for (size_t j = 0; i < n; i++, j++) grad_src[i] = grad_dst[i] * rest[j];
}

void LS_KERNEL(add)(const float *a, const float *b, float *dst, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, load(a + i) + load(b + i));
    for (; i < n; i++) dst[i] = a[i] + b[i];
}

// + 0: padding stays +0 when the factor is negative
void LS_KERNEL(scale)(const float *src, float factor, float *dst, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, load(src + i) * factor + 0.0f);
    for (; i < n; i++) dst[i] = src[i] * factor + 0.0f;
}
