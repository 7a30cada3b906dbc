// conv.c - direct convolution of one sample, for what oneDNN has no fast kernel for:
// few channels, numbers of channels that leave much of the last block over, dilation, gradients of strided convolutions.
//
// The source is a padded copy with `depth` channels to a pixel, so no tap needs a bounds check.
// Forward keeps 6 output pixels of two channel blocks (or 12 of one) in registers; the weight gradient keeps up
// to TILE weight vectors and streams over the map. Where the last block has no more than half of its channels, its sums are
// half vectors, of which a processor that splits the whole ones computes twice as many.
#include "device/cpu/kernels/kernels.h"

#define TILE 12
#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X) X(1)
#define EACH_4(X) EACH_2(X) X(2) X(3)
#define EACH_6(X) EACH_4(X) X(4) X(5)
#define EACH_12(X) EACH_6(X) X(6) X(7) X(8) X(9) X(10) X(11)

// In memory, as vfu. Only of 16 floats: half of 8 takes as long as all of them.
#if LS_VL == 16
typedef float hfu __attribute__((vector_size(LS_VL * 2), aligned(4), may_alias));
#else
typedef vfu hfu;
#endif

// Half a vector is stored as a whole one.
#define STORE(type, address, sum) \
    { \
        float *const to_ = address; \
        *(type *)to_ = sum; \
        if (sizeof(type) < sizeof(vf)) *(type *)(to_ + LS_VL / 2) = (type){ 0 }; \
    }

// a##i and b##i: output pixel i of the first and second block. step: floats between neighbouring pixels' sources.
#define START(i) first a##i = start;
#define START_PAIR(i) START(i) second b##i = start_b;
#define TAP(i) a##i += x[(size_t)i * step] * w;
#define TAP_PAIR(i) \
    { \
        float v = x[(size_t)i * step]; \
        a##i += v * w; \
        b##i += v * w_b; \
    }
#define PUT(i) STORE(first, dst + (size_t)i * conv->dst_step, a##i)
#define PUT_PAIR(i) PUT(i) STORE(second, dst + conv->dst_next + (size_t)i * conv->dst_step, b##i)
// pair: 1 for two blocks. The variables of the second are there in either case; unused, they vanish.
#define PIXELS(name, EACH, pair, first_, second_, START_, TAP_, PUT_) \
    static inline __attribute__((always_inline)) void name( \
        const ls_kernel_conv *conv, const float *src, size_t step, int depth, float *dst) { \
        typedef first_ first; \
        typedef second_ second; \
        first start = conv->bias ? *(const first *)conv->bias : (first){ 0 }; \
        second start_b = pair && conv->bias ? *(const second *)(conv->bias + LS_VL) : (second){ 0 }; \
        (void)start_b; \
        EACH(START_) \
        size_t next = pair ? conv->weight_next : 0; \
        size_t row = (size_t)conv->width * (size_t)depth, plane = (size_t)conv->height * row; \
        for (int block = 0; block < conv->blocks; block++, src += plane) { \
            const int channels = block + 1 < conv->blocks ? depth : conv->last; \
            for (int r = 0; r < conv->kernel_h; r++) { \
                const float *tap = conv->weight + (size_t)block * conv->weight_block + (size_t)r * conv->weight_row; \
                const float *from = src + (size_t)(r * conv->dilation_h) * row; \
                for (int s = 0; s < conv->kernel_w; s++, tap += conv->weight_tap) { \
                    const float *x = from + (size_t)(s * conv->dilation_w * depth), *weight = tap; \
                    for (int c = 0; c < channels; c++, x++, weight += LS_VL) { \
                        first w = *(const first *)weight; \
                        second w_b = *(const second *)(weight + next); \
                        (void)w_b; \
                        EACH(TAP_) \
                    } \
                } \
            } \
        } \
        EACH(PUT_) \
    }

#define ONE(name, EACH, first) PIXELS(name, EACH, 0, first, first, START, TAP, PUT)
#define PAIR(name, EACH, second) PIXELS(name, EACH, 1, vfu, second, START_PAIR, TAP_PAIR, PUT_PAIR)
ONE(one_12, EACH_12, vfu)
ONE(one_4, EACH_4, vfu)
ONE(one_1, EACH_1, vfu)
PAIR(pair_6, EACH_6, vfu)
PAIR(pair_4, EACH_4, vfu)
PAIR(pair_2, EACH_2, vfu)
PAIR(pair_1, EACH_1, vfu)
ONE(half_12, EACH_12, hfu)
ONE(half_4, EACH_4, hfu)
ONE(half_1, EACH_1, hfu)
PAIR(pair_half_6, EACH_6, hfu)
PAIR(pair_half_4, EACH_4, hfu)
PAIR(pair_half_2, EACH_2, hfu)
PAIR(pair_half_1, EACH_1, hfu)

// A row of output pixels, `count` at a time; six as four and two where that leaves no single pixels. Single pixels of one
// block take as long as four: the last four are computed again instead.
#define RUN(name, count) \
    { \
        name(conv, src + (size_t)q * step, step, depth, dst + (size_t)q * conv->dst_step); \
        q += count; \
    }
#define ROW_OF_PAIRS(name) \
    static inline __attribute__((always_inline)) void row_of_##name( \
        const ls_kernel_conv *conv, const float *src, size_t step, int depth, float *dst) { \
        int q = 0, left; \
        while ((left = conv->q - q) > 0) { \
            if (left >= 6 && left != 8) \
                RUN(name##_6, 6) \
            else if (left >= 4) \
                RUN(name##_4, 4) \
            else if (left >= 2) \
                RUN(name##_2, 2) \
            else \
                RUN(name##_1, 1) \
        } \
    }
#define ROW_OF_ONE(name) \
    static inline __attribute__((always_inline)) void row_of_##name( \
        const ls_kernel_conv *conv, const float *src, size_t step, int depth, float *dst) { \
        int q = 0, left; \
        while ((left = conv->q - q) > 0) { \
            if (left < 4 && conv->q >= 4) q = conv->q - 4; \
            if (left >= 12) \
                RUN(name##_12, 12) \
            else if (conv->q >= 4) \
                RUN(name##_4, 4) \
            else \
                RUN(name##_1, 1) \
        } \
    }
ROW_OF_PAIRS(pair)
ROW_OF_PAIRS(pair_half)
ROW_OF_ONE(one)
ROW_OF_ONE(half)

// The filter's rows that lie above row y of the copy, where its first is row 0.
static inline int rows_before(const ls_kernel_conv *conv, int y) {
    int rows = 0;
    while (rows < conv->kernel_h && rows * conv->dilation_h < y) rows++;
    return rows;
}

// Rows of the filter above and below the map would multiply zeros.
static inline __attribute__((always_inline)) void whole_map(
    const ls_kernel_conv *conv, int stride_h, int stride_w, int depth) {
    size_t row = (size_t)conv->width * (size_t)depth, step = (size_t)(stride_w * depth);
    const int half = conv->half && LS_VL == 16;
    ls_kernel_conv inside = *conv;
    for (int p = 0; p < conv->p; p++) {
        const float *src = conv->src + (size_t)(p * stride_h) * row;
        float *dst = conv->dst + (size_t)p * conv->dst_row;
        const int r = rows_before(conv, conv->top - p * stride_h);
        inside.kernel_h = rows_before(conv, conv->top + conv->filled - p * stride_h) - r;
        inside.weight = conv->weight + (size_t)r * conv->weight_row;
        src += (size_t)(r * conv->dilation_h) * row;
        if (conv->pair && half)
            row_of_pair_half(&inside, src, step, depth, dst);
        else if (conv->pair)
            row_of_pair(&inside, src, step, depth, dst);
        else if (half)
            row_of_half(&inside, src, step, depth, dst);
        else
            row_of_one(&inside, src, step, depth, dst);
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
    else if (conv->stride_w == 2 && conv->depth == LS_VL)
        whole_map(conv, conv->stride_h, 2, LS_VL);
    else
        whole_map(conv, conv->stride_h, conv->stride_w, conv->depth);
}

// The weight gradient keeps the sums of several (tap, channel) pairs.
// Pair i reads offset[i] floats from the output pixel's corner; its sums lie at place[i].
#define GRAD_START(i) sums a##i = { 0 };
#define GRAD_OFFSET(i) const size_t o##i = offset[i];
#define GRAD_TAP(i) a##i += x[o##i] * g;
#define GRAD_PUT(i) \
    if (i < count) *(sums *)(to + place[i]) += a##i;
#define GRAD_LOOP(type, EACH, TAP_) \
    typedef type sums; \
    EACH(GRAD_START) \
    const float *grad = conv->grad_dst; \
    size_t row = (size_t)conv->width * (size_t)conv->depth, step = (size_t)(conv->stride_w * conv->depth); \
    for (int p = 0; p < conv->p; p++) { \
        const float *x = src + (size_t)(p * conv->stride_h) * row; \
        for (int q = 0; q < conv->q; q++, x += step, grad += LS_VL) { \
            sums g = *(const sums *)grad; \
            EACH(TAP_) \
        } \
    }

#define ANY_TAPS(name, EACH, type) \
    static void name(const ls_kernel_conv_grad *conv, const size_t *offset, const size_t *place, int count) { \
        const float *src = conv->src; \
        float *to = conv->grad_weight; \
        EACH(GRAD_OFFSET) \
        GRAD_LOOP(type, EACH, GRAD_TAP) \
        EACH(GRAD_PUT) \
    }
ANY_TAPS(taps_12, EACH_12, vfu)
ANY_TAPS(taps_4, EACH_4, vfu)
ANY_TAPS(half_taps_12, EACH_12, hfu)
ANY_TAPS(half_taps_4, EACH_4, hfu)

static void any_taps(const ls_kernel_conv_grad *conv) {
    const int pairs = conv->kernel_h * conv->kernel_w * conv->channels, half = conv->half && LS_VL == 16;
    for (int done = 0; done < pairs; done += TILE) {
        int count = pairs - done < TILE ? pairs - done : TILE;
        size_t offset[TILE] = { 0 }, place[TILE] = { 0 };
        for (int i = 0; i < count; i++) {
            int channel = (done + i) % conv->channels, tap = (done + i) / conv->channels;
            int r = tap / conv->kernel_w, s = tap % conv->kernel_w;
            size_t pixel = (size_t)(r * conv->dilation * conv->width + s * conv->dilation);
            offset[i] = pixel * (size_t)conv->depth + (size_t)channel;
            place[i] = (size_t)(tap * conv->depth + channel) * LS_VL;
        }
        if (count <= 4)
            (half ? half_taps_4 : taps_4)(conv, offset, place, count);
        else
            (half ? half_taps_12 : taps_12)(conv, offset, place, count);
    }
}

// Few channels: the pairs of a filter row lie side by side, so offsets are constants and cost no loads. Whole filter
// rows, one, two or three at once, with `length` pairs in each.
#define ROW_TAP(i) a##i += x[(size_t)(i / length) * row + i % length] * g;
#define ROW_PUT(i) *(sums *)(to + i * LS_VL) += a##i;
#define FILTER_ROWS(name, EACH, length_) \
    static void name(const ls_kernel_conv_grad *conv, const float *src, float *to) { \
        enum { length = length_ }; \
        GRAD_LOOP(vfu, EACH, ROW_TAP) \
        EACH(ROW_PUT) \
    }
#define EACH_5(X) EACH_4(X) X(4)
#define EACH_9(X) EACH_6(X) X(6) X(7) X(8)
#define EACH_10(X) EACH_9(X) X(9)
FILTER_ROWS(three_rows_of_3, EACH_9, 3)
FILTER_ROWS(two_rows_of_5, EACH_10, 5)
FILTER_ROWS(row_of_5, EACH_5, 5)
FILTER_ROWS(row_of_9, EACH_9, 9)

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
