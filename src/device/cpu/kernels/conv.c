// conv.c - direct convolution of one sample, for what oneDNN has no fast kernel for: few channels, dilation, odd
// formats.
//
// The source is a padded copy with `depth` channels to a pixel, so no tap needs a bounds check. Forward keeps TILE
// output pixels of one channel block in registers; the weight gradient keeps up to TILE weight vectors and streams over
// the map.
#include "device/cpu/kernels/kernels.h"

#define TILE 12
#define EACH_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EACH_4(X) X(0) X(1) X(2) X(3)

// acc##i += source pixel i * weight. step: floats between neighbouring output pixels' sources.
#define START(i) vf acc##i = start;
#define TAP(i) acc##i += x[(size_t)i * step] * w;
#define PUT(i) store(dst + i * LS_VL, acc##i);
#define PIXELS(name, EACH) \
    static inline __attribute__((always_inline)) void name( \
        const ls_kernel_conv *conv, const float *src, size_t step, int depth, float *dst) { \
        vf start = conv->bias ? load(conv->bias) : (vf){ 0 }; \
        EACH(START) \
        const float *weight = conv->weight; \
        size_t row = (size_t)conv->width * (size_t)depth, plane = (size_t)conv->height * row; \
        for (int b = 0; b < conv->blocks; b++, src += plane) { \
            for (int r = 0; r < conv->kernel; r++) { \
                for (int s = 0; s < conv->kernel; s++) { \
                    const float *x = src + (size_t)(r * conv->dilation) * row + (size_t)(s * conv->dilation * depth); \
                    for (int c = 0; c < depth; c++, x++, weight += LS_VL) { \
                        vf w = load(weight); \
                        EACH(TAP) \
                    } \
                } \
            } \
        } \
        EACH(PUT) \
    }

#define ONE(X) X(0)
PIXELS(pixels_12, EACH_12)
PIXELS(pixels_4, EACH_4)
PIXELS(pixels_1, ONE)

static inline __attribute__((always_inline)) void whole_map(const ls_kernel_conv *conv, int stride, int depth) {
    size_t row = (size_t)conv->width * (size_t)depth, step = (size_t)(stride * depth);
    float *dst = conv->dst;
    for (int p = 0; p < conv->p; p++) {
        const float *src = conv->src + (size_t)(p * stride) * row;
        int q = 0;
        for (; q + 12 <= conv->q; q += 12, dst += 12 * LS_VL) pixels_12(conv, src + (size_t)q * step, step, depth, dst);
        for (; q + 4 <= conv->q; q += 4, dst += 4 * LS_VL) pixels_4(conv, src + (size_t)q * step, step, depth, dst);
        for (; q < conv->q; q++, dst += LS_VL) pixels_1(conv, src + (size_t)q * step, step, depth, dst);
    }
}

void LS_KERNEL(conv)(const ls_kernel_conv *conv) {
    if (conv->stride == 1 && conv->depth == LS_VL)
        whole_map(conv, 1, LS_VL); // constants: the usual case gets its own code
    else if (conv->stride == 1 && conv->depth == 1)
        whole_map(conv, 1, 1);
    else if (conv->stride == 1 && conv->depth == 3)
        whole_map(conv, 1, 3);
    else
        whole_map(conv, conv->stride, conv->depth);
}

// TILE (tap, channel) pairs at once: offset[i] is where pair i reads relative to the output pixel's corner.
#define GRAD_START(i) \
    vf acc##i = { 0 }; \
    const size_t o##i = offset[i];
#define GRAD_TAP(i) acc##i += x[o##i] * g;
#define GRAD_PUT(i) \
    if (i < count) store(to + i * LS_VL, load(to + i * LS_VL) + acc##i);
#define PAIRS(name, EACH) \
    static void name(const ls_kernel_conv_grad *conv, const size_t *offset, int count, float *to) { \
        EACH(GRAD_START) \
        const float *grad = conv->grad_dst; \
        size_t row = (size_t)conv->width * (size_t)conv->depth, step = (size_t)(conv->stride * conv->depth); \
        for (int p = 0; p < conv->p; p++) { \
            const float *x = conv->src + (size_t)(p * conv->stride) * row; \
            for (int q = 0; q < conv->q; q++, x += step, grad += LS_VL) { \
                vf g = load(grad); \
                EACH(GRAD_TAP) \
            } \
        } \
        EACH(GRAD_PUT) \
    }

PAIRS(pairs_12, EACH_12)
PAIRS(pairs_4, EACH_4)

void LS_KERNEL(conv_grad)(const ls_kernel_conv_grad *conv) {
    int pairs = conv->kernel * conv->kernel * conv->depth;
    for (int done = 0; done < pairs; done += TILE) {
        int count = pairs - done < TILE ? pairs - done : TILE;
        size_t offset[TILE] = { 0 };
        for (int i = 0; i < count; i++) {
            int channel = (done + i) % conv->depth, tap = (done + i) / conv->depth;
            int r = tap / conv->kernel, s = tap % conv->kernel;
            offset[i] =
                (size_t)(r * conv->dilation * conv->width + s * conv->dilation) * (size_t)conv->depth + (size_t)channel;
        }
        if (count <= 4)
            pairs_4(conv, offset, count, conv->grad_weight + (size_t)done * LS_VL);
        else
            pairs_12(conv, offset, count, conv->grad_weight + (size_t)done * LS_VL);
    }
}
