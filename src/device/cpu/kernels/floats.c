// floats.c - converts between stored activations and floats.
#include "device/cpu/kernels/kernels.h"

void LS_KERNEL(to_floats)(const void *src, float *dst, size_t n) {
    const stored *from = src;
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(dst + i, load(from + i));
    for (; i < n; i++) dst[i] = number(from + i);
}

void LS_KERNEL(from_floats)(const float *src, void *dst, size_t n) {
    stored *to = dst;
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store(to + i, load(src + i));
    if (i == n) return;
    float rest[LS_VL] = { 0 };
    stored rounded[LS_VL];
    memcpy(rest, src + i, (n - i) * sizeof *src);
    store(rounded, load(rest));
    memcpy(to + i, rounded, (n - i) * sizeof *to);
}
