// conv.c - direct convolution of one sample, for what oneDNN has no fast kernel for:
// few channels, dilation, odd formats.
//
// The source is a padded copy with `depth` channels to a pixel, so no tap needs a bounds check.
// Forward keeps 6 output pixels of two channel blocks (or 12 of one) in registers; the weight gradient keeps up
// to TILE weight vectors and streams over the map.
#include "device/cpu/kernels/kernels.h"

#define TILE 12
#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X) X(1)
#define EACH_4(X) EACH_2(X) X(2) X(3)
#define EACH_6(X) EACH_4(X) X(4) X(5)
#define EACH_12(X) EACH_6(X) X(6) X(7) X(8) X(9) X(10) X(11)

// a##i and b##i: output pixel i of the first and second block. step: floats between neighbouring pixels' sources.
#define START(i) vf a##i = start;
#define START_PAIR(i) START(i) vf b##i = start_b;
#define TAP(i) a##i += x[(size_t)i * step] * w;
#define TAP_PAIR(i) \
    { \
        float v = x[(size_t)i * step]; \
        a##i += v * w; \
        b##i += v * w_b; \
    }
#define PUT(i) store(dst + i * LS_VL, a##i);
#define PUT_PAIR(i) PUT(i) store(dst + conv->dst_next + i * LS_VL, b##i);
// pair: 1 for two blocks. The variables of the second are there in either case; unused, they vanish.
#define PIXELS(name, EACH, pair, START_, TAP_, PUT_) \
    static inline __attribute__((always_inline)) void name( \
        const ls_kernel_conv *conv, const float *src, size_t step, int depth, float *dst) { \
        vf start = conv->bias ? load(conv->bias) : (vf){ 0 }; \
        vf start_b = pair && conv->bias ? load(conv->bias + LS_VL) : (vf){ 0 }; \
        (void)start_b; \
        EACH(START_) \
        const float *weight = conv->weight; \
        size_t next = pair ? conv->weight_next : 0; \
        size_t row = (size_t)conv->width * (size_t)depth, plane = (size_t)conv->height * row; \
        for (int block = 0; block < conv->blocks; block++, src += plane) { \
            for (int r = 0; r < conv->kernel_h; r++) { \
                for (int s = 0; s < conv->kernel_w; s++) { \
                    const float *x = src + (size_t)(r * conv->dilation) * row + (size_t)(s * conv->dilation * depth); \
                    for (int c = 0; c < depth; c++, x++, weight += LS_VL) { \
                        vf w = load(weight), w_b = load(weight + next); \
                        (void)w_b; \
                        EACH(TAP_) \
                    } \
                } \
            } \
        } \
        EACH(PUT_) \
    }

PIXELS(pixels_12, EACH_12, 0, START, TAP, PUT)
PIXELS(pixels_4, EACH_4, 0, START, TAP, PUT)
PIXELS(pixels_1, EACH_1, 0, START, TAP, PUT)
PIXELS(pairs_6, EACH_6, 1, START_PAIR, TAP_PAIR, PUT_PAIR)
PIXELS(pairs_4, EACH_4, 1, START_PAIR, TAP_PAIR, PUT_PAIR)
PIXELS(pairs_2, EACH_2, 1, START_PAIR, TAP_PAIR, PUT_PAIR)
PIXELS(pairs_1, EACH_1, 1, START_PAIR, TAP_PAIR, PUT_PAIR)

// A row of output pixels, `count` at a time; six as four and two where that leaves no single pixels.
#define RUN(name, count) \
    { \
        name(conv, src + (size_t)q * step, step, depth, dst + (size_t)q * LS_VL); \
        q += count; \
    }
static inline __attribute__((always_inline)) void row_of_pairs(
    const ls_kernel_conv *conv, const float *src, size_t step, int depth, float *dst) {
    int q = 0, left;
    while ((left = conv->q - q) > 0) {
        if (left >= 6 && left != 8)
            RUN(pairs_6, 6)
        else if (left >= 4)
            RUN(pairs_4, 4)
        else if (left >= 2)
            RUN(pairs_2, 2)
        else
            RUN(pairs_1, 1)
    }
}

static inline __attribute__((always_inline)) void row_of_one(
    const ls_kernel_conv *conv, const float *src, size_t step, int depth, float *dst) {
    int q = 0, left;
    while ((left = conv->q - q) > 0) {
        if (left >= 12)
            RUN(pixels_12, 12)
        else if (left >= 4)
            RUN(pixels_4, 4)
        else
            RUN(pixels_1, 1)
    }
}

static inline __attribute__((always_inline)) void whole_map(
    const ls_kernel_conv *conv, int stride_h, int stride_w, int depth) {
    size_t row = (size_t)conv->width * (size_t)depth, step = (size_t)(stride_w * depth);
    for (int p = 0; p < conv->p; p++) {
        const float *src = conv->src + (size_t)(p * stride_h) * row;
        float *dst = conv->dst + (size_t)p * (size_t)conv->q * LS_VL;
        if (conv->pair)
            row_of_pairs(conv, src, step, depth, dst);
        else
            row_of_one(conv, src, step, depth, dst);
    }
}

void LS_KERNEL(conv)(const ls_kernel_conv *conv) {
    const int dense = conv->stride_h == 1 && conv->stride_w == 1;
    if (dense && conv->depth == LS_VL)
        whole_map(conv, 1, 1, LS_VL); // constants: the usual case gets its own code
    else if (dense && conv->depth == 1)
        whole_map(conv, 1, 1, 1);
    else if (dense && conv->depth == 3)
        whole_map(conv, 1, 1, 3);
    else
        whole_map(conv, conv->stride_h, conv->stride_w, conv->depth);
}

// The weight gradient keeps the sums of several (tap, channel) pairs.
// Pair i reads offset[i] floats from the output pixel's corner.
#define GRAD_START(i) vf a##i = { 0 };
#define GRAD_OFFSET(i) const size_t o##i = offset[i];
#define GRAD_TAP(i) a##i += x[o##i] * g;
#define GRAD_PUT(i) \
    if (i < count) store(to + i * LS_VL, load(to + i * LS_VL) + a##i);
#define GRAD_LOOP(EACH, TAP_) \
    EACH(GRAD_START) \
    const float *grad = conv->grad_dst; \
    size_t row = (size_t)conv->width * (size_t)conv->depth, step = (size_t)(conv->stride_w * conv->depth); \
    for (int p = 0; p < conv->p; p++) { \
        const float *x = src + (size_t)(p * conv->stride_h) * row; \
        for (int q = 0; q < conv->q; q++, x += step, grad += LS_VL) { \
            vf g = load(grad); \
            EACH(TAP_) \
        } \
    } \
    EACH(GRAD_PUT)

static void taps_12(const ls_kernel_conv_grad *conv, const float *src, const size_t *offset, int count, float *to) {
    EACH_12(GRAD_OFFSET)
    GRAD_LOOP(EACH_12, GRAD_TAP)
}

static void taps_4(const ls_kernel_conv_grad *conv, const float *src, const size_t *offset, int count, float *to) {
    EACH_4(GRAD_OFFSET)
    GRAD_LOOP(EACH_4, GRAD_TAP)
}

static void any_taps(const ls_kernel_conv_grad *conv) {
    int pairs = conv->kernel_h * conv->kernel_w * conv->depth;
    for (int done = 0; done < pairs; done += TILE) {
        int count = pairs - done < TILE ? pairs - done : TILE;
        size_t offset[TILE] = { 0 };
        for (int i = 0; i < count; i++) {
            int channel = (done + i) % conv->depth, tap = (done + i) / conv->depth;
            int r = tap / conv->kernel_w, s = tap % conv->kernel_w;
            size_t pixel = (size_t)(r * conv->dilation * conv->width + s * conv->dilation);
            offset[i] = pixel * (size_t)conv->depth + (size_t)channel;
        }
        if (count <= 4)
            taps_4(conv, conv->src, offset, count, conv->grad_weight + (size_t)done * LS_VL);
        else
            taps_12(conv, conv->src, offset, count, conv->grad_weight + (size_t)done * LS_VL);
    }
}

// Few channels: the pairs of a filter row lie side by side, so offsets are constants and cost no loads. Whole filter
// rows, one, two or three at once, with `length` pairs in each.
#define ROW_TAP(i) a##i += x[(size_t)(i / length) * row + i % length] * g;
#define FILTER_ROWS(name, EACH, count_, length_) \
    static void name(const ls_kernel_conv_grad *conv, const float *src, float *to) { \
        enum { count = count_, length = length_ }; \
        GRAD_LOOP(EACH, ROW_TAP) \
    }
#define EACH_5(X) EACH_4(X) X(4)
#define EACH_9(X) EACH_6(X) X(6) X(7) X(8)
#define EACH_10(X) EACH_9(X) X(9)
FILTER_ROWS(three_rows_of_3, EACH_9, 9, 3)
FILTER_ROWS(two_rows_of_5, EACH_10, 10, 5)
FILTER_ROWS(row_of_5, EACH_5, 5, 5)
FILTER_ROWS(row_of_9, EACH_9, 9, 9)

void LS_KERNEL(conv_grad)(const ls_kernel_conv_grad *conv) {
    const int kernel = conv->kernel_h == conv->kernel_w ? conv->kernel_h : 0; // others have no code of their own
    int length = conv->dilation == 1 ? kernel * conv->depth : 0;
    size_t row = (size_t)conv->width * (size_t)conv->depth;
    const float *src = conv->src;
    float *to = conv->grad_weight;
    if (length == 9 && kernel == 3) {
        for (int r = 0; r < 3; r++, src += row, to += 9 * LS_VL) row_of_9(conv, src, to);
    } else if (length == 5 && kernel == 5) {
        two_rows_of_5(conv, src, to);
        two_rows_of_5(conv, src + 2 * row, to + 10 * LS_VL);
        row_of_5(conv, src + 4 * row, to + 20 * LS_VL);
    } else if (length == 3 && kernel == 3) {
        three_rows_of_3(conv, src, to);
    } else {
        any_taps(conv);
    }
}
