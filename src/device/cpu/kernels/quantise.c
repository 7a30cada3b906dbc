// quantise.c - fake quantisation (op_quantise.h) of floats. Memory bandwidth limits it.
#include "device/cpu/kernels/kernels.h"

// Rounds to the nearest integer, ties to even, by the steps of floats between 2^23 and 2^24. |x| is at most 2^22; NaN
// stays NaN.
static inline vf rounded(vf x) {
    const vf shift = broadcast(0x1.8p23F);
    return x + shift - shift;
}

static inline vf limited(vf x, float least, float most) {
    x = pick(x < least, broadcast(least), x);
    return pick(x > most, broadcast(most), x);
}

static inline vf on_grid(vf x, const ls_kernel_grid *g) {
    return rounded(limited(x / g->scale, g->least, g->most)) * g->scale;
}

static inline vf passed(vf x, vf grad, const ls_kernel_grid *g) {
    const vf q = rounded(limited(x / g->scale, g->least - 1, g->most + 1));
    return (vf)((q >= g->least) & (q <= g->most) & (vi)grad);
}

void LS_FLOAT_KERNEL(quantise)(const ls_kernel_grid *g, const float *src, float *dst, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL) store_floats(dst + i, on_grid(load_floats(src + i), g));
    if (i == n) return;
    float rest[LS_VL] = { 0 };
    memcpy(rest, src + i, (n - i) * sizeof *rest);
    store_floats(rest, on_grid(load_floats(rest), g));
    memcpy(dst + i, rest, (n - i) * sizeof *rest);
}

void LS_FLOAT_KERNEL(quantise_backward)(
    const ls_kernel_grid *g, const float *src, const float *grad_dst, float *grad_src, size_t n) {
    size_t i = 0;
    for (; i + LS_VL <= n; i += LS_VL)
        store_floats(grad_src + i, passed(load_floats(src + i), load_floats(grad_dst + i), g));
    if (i == n) return;
    float rest[2][LS_VL] = { { 0 } };
    memcpy(rest[0], src + i, (n - i) * sizeof **rest);
    memcpy(rest[1], grad_dst + i, (n - i) * sizeof **rest);
    store_floats(rest[0], passed(load_floats(rest[0]), load_floats(rest[1]), g));
    memcpy(grad_src + i, rest[0], (n - i) * sizeof **rest);
}

// Lane l of `each` vectors is output channel l.
void LS_FLOAT_KERNEL(quantise_lanes)(const float *src, float *dst, size_t each) {
    vf most = { 0 };
    for (size_t i = 0; i < each; i++) {
        const vf x = load_floats(src + i * LS_VL), size = (vf)((vi)x & 0x7fffffff);
        most = pick(size > most, size, most);
    }
    const vf scale = most / LS_QUANTISE_WEIGHT_MOST;
    for (size_t i = 0; i < each; i++) {
        const vf x = load_floats(src + i * LS_VL);
        store_floats(dst + i * LS_VL, pick(scale > 0, rounded(x / scale) * scale, x));
    }
}
