// channels.c - channels copied between blocks (op_channels.h), and gates (op_gate.h): bound by memory.
#include "device/cpu/kernels/kernels.h"

static inline vi lanes(void) {
    vi lane;
    for (int i = 0; i < LS_VL; i++) lane[i] = i;
    return lane;
}

// A vector that begins inside of a block ends in the next one: it is taken from both, laid side by side.
void LS_KERNEL(copy_channels)(const ls_kernel_channels *k, const float *low, const float *high, float *dst) {
    const vi own = (lanes() >= k->first) & (lanes() < k->end);
    float both[2 * LS_VL] = { 0 };
    for (int p = 0; p < k->p; p++) {
        for (int q = 0; q < k->q; q++) {
            const size_t at = ((size_t)p * k->src_row + (size_t)q * k->src_step) * LS_VL;
            float *to = dst + ((size_t)p * k->dst_row + (size_t)q * k->dst_step) * LS_VL;
            if (low) store(both, load(low + at));
            if (high) store(both + LS_VL, load(high + at));
            const vf v = (vf)(own & (vi)load(both + k->shift));
            store(to, k->keep ? pick(own, v, load(to)) : v);
        }
    }
}

void LS_KERNEL(gate)(const float *src, const float *gate, float *dst, int pixels) {
    const vf g = load(gate);
    for (int i = 0; i < pixels; i++) store(dst + (size_t)i * LS_VL, load(src + (size_t)i * LS_VL) * g);
}

void LS_KERNEL(gate_backward)(const float *src, const float *grad_dst, float *grad_gate, int pixels) {
    vf sum = { 0 };
    for (int i = 0; i < pixels; i += LS_SEGMENT) { // segment by segment: shorter chains, smaller error
        const int end = pixels - i < LS_SEGMENT ? pixels : i + LS_SEGMENT;
        vf a = { 0 }, b = { 0 };
        int j = i;
        for (; j + 2 <= end; j += 2) {
            a += load(src + (size_t)j * LS_VL) * load(grad_dst + (size_t)j * LS_VL);
            b += load(src + (size_t)(j + 1) * LS_VL) * load(grad_dst + (size_t)(j + 1) * LS_VL);
        }
        for (; j < end; j++) a += load(src + (size_t)j * LS_VL) * load(grad_dst + (size_t)j * LS_VL);
        sum += a + b;
    }
    store(grad_gate, sum);
}
