// map.c - element-wise kernels. Bandwidth-bound: 8 to 12 bytes an element.
#include "device/cpu/kernels/kernels.h"

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
