// channels.c - copies channels between blocks (op_channels.h) and computes gates (op_gate.h). Memory bandwidth limits
// both.
#include "device/cpu/kernels/kernels.h"

static inline vi lanes_of(const ls_kernel_channels *k) {
    vi from;
    memcpy(&from, k->lane, sizeof from);
    return from;
}

// Loads a vector whose lanes come from the two blocks low and high.
static inline vf straddling(const stored *low, const stored *high, size_t at, vi from) {
    vf v = load(low + at);
#if LS_VL > 1
    v = take_lanes(v, from);
    if (high) v = pick(from >= LS_VL, take_lanes(load(high + at), from), v);
#else
    (void)high, (void)from;
#endif
    return v;
}

static inline __attribute__((always_inline)) void copy(const ls_kernel_channels *k, const stored *low,
    const stored *high, stored *dst, const int straddles, const int part) {
    const vi from = lanes_of(k), own = from >= 0;
    for (int p = 0; p < k->p; p++) {
        for (int q = 0; q < k->q; q++) {
            const size_t at = ((size_t)p * k->src_row + (size_t)q * k->src_step) * LS_VL;
            stored *to = dst + ((size_t)p * k->dst_row + (size_t)q * k->dst_step) * LS_VL;
            vf v = straddles ? straddling(low, high, at, from) : load(low + at);
            if (k->add) v += load(to);
            if (part) v = k->keep ? pick(own, v, load(to)) : (vf)(own & (vi)v);
            store(to, v);
        }
    }
}

// Most blocks are whole and unshifted. The last two arguments are compile-time constants, so each case gets code of its
// own.
void LS_KERNEL(copy_channels)(const ls_kernel_channels *k, const void *low, const void *high, void *dst) {
    int part = 0, moves = 0;
    for (int i = 0; i < LS_VL; i++) {
        part |= k->lane[i] < 0;
        moves |= k->lane[i] >= 0 && k->lane[i] != i;
    }
    if (moves && part)
        copy(k, low, high, dst, 1, 1);
    else if (moves)
        copy(k, low, high, dst, 1, 0);
    else if (part)
        copy(k, low, NULL, dst, 0, 1);
    else
        copy(k, low, NULL, dst, 0, 0);
}

void LS_KERNEL(gate)(const void *src, const void *gate, void *dst, int pixels) {
    const stored *from = src;
    stored *to = dst;
    const vf g = load((const stored *)gate);
    for (size_t i = 0; i < (size_t)pixels * LS_VL; i += LS_VL) store(to + i, load(from + i) * g);
}

void LS_KERNEL(gate_backward)(const void *src, const void *grad_dst, void *grad_gate, int pixels) {
    const stored *x = src, *g = grad_dst;
    vf sum = { 0 };
    for (int i = 0; i < pixels; i += LS_SEGMENT) { // summing by segments gives shorter chains and a smaller error
        const int end = pixels - i < LS_SEGMENT ? pixels : i + LS_SEGMENT;
        vf a = { 0 }, b = { 0 };
        int j = i;
        for (; j + 2 <= end; j += 2) {
            a += load(x + (size_t)j * LS_VL) * load(g + (size_t)j * LS_VL);
            b += load(x + (size_t)(j + 1) * LS_VL) * load(g + (size_t)(j + 1) * LS_VL);
        }
        for (; j < end; j++) a += load(x + (size_t)j * LS_VL) * load(g + (size_t)j * LS_VL);
        sum += a + b;
    }
    store((stored *)grad_gate, sum);
}
