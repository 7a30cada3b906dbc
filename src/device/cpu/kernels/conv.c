// conv.c - direct convolution of one sample, mostly where oneDNN has no fast kernel: few channels, channel counts
// that leave the last block mostly empty, dilation, gradients of strided convolutions.
//
// The source is a padded copy with `depth` channels in each pixel, so no tap needs a bounds check. Forward keeps 6
// output pixels of two channel blocks (or 12 of one) in registers. The weight gradient keeps up to TILE weight vectors
// and streams over the map. If the last block has at most half of its channels, a vector multiplies two source channels
// at once: lanes 2k and 2k+1 hold output k's products of the first and of the second channel.
#include "device/cpu/kernels/kernels.h"

#define TILE 12
#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X) X(1)
#define EACH_4(X) EACH_2(X) X(2) X(3)
#define EACH_6(X) EACH_4(X) X(4) X(5)
#define EACH_8(X) EACH_6(X) X(6) X(7)
#define EACH_12(X) EACH_8(X) X(8) X(9) X(10) X(11)

// a##i and b##i: output pixel i of the first and second block. step: floats between the sources of neighbouring pixels.
#define START(i) vf a##i = start;
#define START_PAIR(i) START(i) vf b##i = start_b;
#define TAP(i) a##i += x[(size_t)i * step] * w;
#define TAP_PAIR(i) \
    { \
        float v = x[(size_t)i * step]; \
        a##i += v * w; \
        b##i += v * w_b; \
    }
#define PUT(i) store(dst + (size_t)i * conv->dst_step, a##i);
#define PUT_PAIR(i) PUT(i) store(dst + conv->dst_next + (size_t)i * conv->dst_step, b##i);
// Multiplies one tap's channels with the sources of the pixels.
#define CHANNELS(EACH) \
    _Pragma("GCC unroll 1") for (int c = 0; c < channels; c++, x++, weight += LS_VL) { \
        const vf w = load(weight); \
        EACH(TAP) \
    }
#define CHANNELS_PAIR(EACH) \
    _Pragma("GCC unroll 1") for (int c = 0; c < channels; c++, x++, weight += LS_VL) { \
        const vf w = load(weight), w_b = load(weight + conv->weight_next); \
        EACH(TAP_PAIR) \
    }
// PUT_ and CHANNELS_ exist for one block, for two blocks and for half a block.
#define PIXELS(name, EACH, START_, CHANNELS_, PUT_, ...) \
    static inline __attribute__((always_inline)) void name( \
        const ls_kernel_conv *conv, const float *src, size_t step, int depth, stored *dst) { \
        __VA_ARGS__ \
        EACH(START_) \
        size_t row = (size_t)conv->width * (size_t)depth, plane = (size_t)conv->height * row; \
        for (int block = 0; block < conv->blocks; block++, src += plane) { \
            const int channels = block + 1 < conv->blocks ? depth : conv->last; \
            for (int r = 0; r < conv->kernel_h; r++) { \
                const float *tap = conv->weight + (size_t)block * conv->weight_block + (size_t)r * conv->weight_row; \
                const float *from = src + (size_t)(r * conv->dilation_h) * row; \
                for (int s = 0; s < conv->kernel_w; s++, tap += conv->weight_tap) { \
                    const float *x = from + (size_t)(s * conv->dilation_w * depth), *weight = tap; \
                    CHANNELS_(EACH) \
                } \
            } \
        } \
        EACH(PUT_) \
    }

#define ONE(name, EACH) \
    PIXELS(name, EACH, START, CHANNELS, PUT, const vf start = conv->bias ? load(conv->bias) : (vf){ 0 };)
#define PAIR(name, EACH) \
    PIXELS( \
        name, EACH, START_PAIR, CHANNELS_PAIR, PUT_PAIR, const vf start = conv->bias ? load(conv->bias) : (vf){ 0 }; \
        const vf start_b = conv->bias ? load(conv->bias + LS_VL) : (vf){ 0 };)
ONE(one_12, EACH_12)
ONE(one_8, EACH_8)
ONE(one_4, EACH_4)
ONE(one_1, EACH_1)
PAIR(pair_6, EACH_6)
PAIR(pair_4, EACH_4)
PAIR(pair_2, EACH_2)
PAIR(pair_1, EACH_1)

#if LS_VL > 1
#define TAP_TWO(i) a##i += two_channels(x + (size_t)i * step) * w;
#define PUT_HALF(i) store(dst + (size_t)i * conv->dst_step, evens(a##i) + odds(a##i));
// The odd channel at the end is multiplied in the even lanes, next to zeros.
#define CHANNELS_HALF(EACH) \
    int c = 0; \
    _Pragma("GCC unroll 1") for (; c + 2 <= channels; c += 2, x += 2, weight += 2 * LS_VL) { \
        const vf w = in_turn(load(weight), load(weight + LS_VL)); \
        EACH(TAP_TWO) \
    } \
    if (c < channels) { \
        const vf w = in_turn(load(weight), (vf){ 0 }); \
        EACH(TAP) \
    }
#define HALF(name, EACH) \
    PIXELS(name, EACH, START, CHANNELS_HALF, PUT_HALF, \
           const vf start = conv->bias ? in_turn(load(conv->bias), (vf){ 0 }) : (vf){ 0 };)
HALF(half_12, EACH_12)
HALF(half_8, EACH_8)
HALF(half_4, EACH_4)
HALF(half_1, EACH_1)
#endif

// Computes a row of output pixels, several at a time. Fewer than 8 sums take as long as 8, because each addition waits
// for the one before. So the last pixels are computed together with some that have been computed already.
#define RUN(name, count) \
    { \
        if (left < count) q = conv->q - count; \
        name(conv, src + (size_t)q * step, step, depth, dst + (size_t)q * conv->dst_step); \
        q += count; \
    }
#define ROW(name) \
    static inline __attribute__((always_inline)) void row_of_##name( \
        const ls_kernel_conv *conv, const float *src, size_t step, int depth, stored *dst)
ROW(pair) {
    for (int q = 0, left; (left = conv->q - q) > 0;) {
        if (conv->q >= 6 && (left == 5 || left == 6 || left > 8))
            RUN(pair_6, 6)
        else if (conv->q >= 4)
            RUN(pair_4, 4)
        else if (conv->q >= 2)
            RUN(pair_2, 2)
        else
            RUN(pair_1, 1)
    }
}
#define ROW_OF_ONE(name) \
    ROW(name) { \
        for (int q = 0, left; (left = conv->q - q) > 0;) { \
            if (conv->q >= 12 && (left > 16 || (left > 8 && left <= 12))) \
                RUN(name##_12, 12) \
            else if (conv->q >= 8 && left > 4) \
                RUN(name##_8, 8) \
            else if (conv->q >= 4) \
                RUN(name##_4, 4) \
            else \
                RUN(name##_1, 1) \
        } \
    }
ROW_OF_ONE(one)
#if LS_VL > 1
ROW_OF_ONE(half)
#endif

// Returns the number of filter rows that lie above row y of the copy if the filter's first row is at row 0.
static inline int rows_before(const ls_kernel_conv *conv, int y) {
    int rows = 0;
    while (rows < conv->kernel_h && rows * conv->dilation_h < y) rows++;
    return rows;
}

// Computes all rows of output pixels. Rows of the filter outside the map are skipped, because they would multiply
// zeros.
static inline __attribute__((always_inline)) void whole_map(
    const ls_kernel_conv *conv, int stride_h, int stride_w, int depth) {
    size_t row = (size_t)conv->width * (size_t)depth, step = (size_t)(stride_w * depth);
    ls_kernel_conv inside = *conv;
    if (conv->blocks == 1 && conv->last == depth && conv->dilation_w == 1 &&
        conv->weight_tap == (size_t)(depth * LS_VL)) { // treat the taps of a row as one tap with more channels
        inside.last *= conv->kernel_w;
        inside.kernel_w = 1;
    }
    for (int p = 0; p < conv->p; p++) {
        const float *src = conv->src + (size_t)(p * stride_h) * row;
        stored *dst = (stored *)conv->dst + (size_t)p * conv->dst_row;
        const int r = rows_before(conv, conv->top - p * stride_h);
        inside.kernel_h = rows_before(conv, conv->top + conv->filled - p * stride_h) - r;
        inside.weight = conv->weight + (size_t)r * conv->weight_row;
        src += (size_t)(r * conv->dilation_h) * row;
        if (conv->pair) row_of_pair(&inside, src, step, depth, dst);
#if LS_VL > 1
        else if (conv->half)
            row_of_half(&inside, src, step, depth, dst);
#endif
        else
            row_of_one(&inside, src, step, depth, dst);
    }
}

void LS_KERNEL(conv)(const ls_kernel_conv *conv) {
    const int dense = conv->stride_h == 1 && conv->stride_w == 1;
    if (dense && conv->depth == LS_VL)
        whole_map(conv, 1, 1, LS_VL); // constants, so that the usual cases get code of their own
    else if (dense && conv->depth == 1)
        whole_map(conv, 1, 1, 1);
    else if (dense && conv->depth == 3)
        whole_map(conv, 1, 1, 3);
    else if (conv->stride_w == 2 && conv->depth == LS_VL)
        whole_map(conv, conv->stride_h, 2, LS_VL);
    else
        whole_map(conv, conv->stride_h, conv->stride_w, conv->depth);
}

// The weight gradient keeps the sums of several pairs. A pair is a tap and a channel, or for half a block a tap and two
// channels. Pair i reads offset[i] floats after the output pixel's corner. Its sums are at place[i]; those of the
// second channel follow, unless the first channel is the last one.
typedef struct {
    size_t offset[TILE], place[TILE];
    int last[TILE];
    int count;
} some_pairs;

#define GRAD_START(i) vf a##i = { 0 };
#define GRAD_OFFSET(i) const size_t o##i = pairs->offset[i];
#define GRAD_TAP(i) a##i += x[o##i] * g;
#define GRAD_LOOP(EACH, TAP_, GRADIENT) \
    EACH(GRAD_START) \
    const stored *grad = conv->grad_dst; \
    size_t row = (size_t)conv->width * (size_t)conv->depth, step = (size_t)(conv->stride_w * conv->depth); \
    for (int p = 0; p < conv->p; p++) { \
        const float *x = src + (size_t)(p * conv->stride_h) * row; \
        for (int q = 0; q < conv->q; q++, x += step, grad += LS_VL) { \
            const vf g = GRADIENT(load(grad)); \
            EACH(TAP_) \
        } \
    }

#define ANY_TAPS(name, EACH, TAP_, GRADIENT, PUT_) \
    static void name(const ls_kernel_conv_grad *conv, const some_pairs *pairs) { \
        const float *src = conv->src; \
        EACH(GRAD_OFFSET) \
        GRAD_LOOP(EACH, TAP_, GRADIENT) \
        EACH(PUT_) \
    }
#define ADD(to, sum) store(to, load(to) + (sum));
#define GRAD_PUT(i) \
    if (i < pairs->count) ADD(conv->grad_weight + pairs->place[i], a##i)
#define AS_IT_IS(g) g
ANY_TAPS(taps_12, EACH_12, GRAD_TAP, AS_IT_IS, GRAD_PUT)
ANY_TAPS(taps_8, EACH_8, GRAD_TAP, AS_IT_IS, GRAD_PUT)
#if LS_VL > 1
#define GRAD_TAP_TWO(i) a##i += two_channels(x + o##i) * g;
#define GRAD_PUT_TWO(i) \
    if (i < pairs->count) { \
        float *const to = conv->grad_weight + pairs->place[i]; \
        ADD(to, evens(a##i)) \
        if (!pairs->last[i]) ADD(to + LS_VL, odds(a##i)) \
    }
ANY_TAPS(half_taps_12, EACH_12, GRAD_TAP_TWO, twice, GRAD_PUT_TWO)
ANY_TAPS(half_taps_8, EACH_8, GRAD_TAP_TWO, twice, GRAD_PUT_TWO)
#else
#define half_taps_12 taps_12
#define half_taps_8 taps_8
#endif

static void any_taps(const ls_kernel_conv_grad *conv) {
    const int half = conv->half && LS_VL > 1, each = half ? 2 : 1;
    // treat a row's taps as one tap with more channels
    const int flat = conv->dilation == 1 && conv->channels == conv->depth;
    const int columns = flat ? 1 : conv->kernel_w, channels = flat ? conv->kernel_w * conv->depth : conv->channels;
    const int per_tap = (channels + each - 1) / each, all = conv->kernel_h * columns * per_tap;
    for (int done = 0; done < all; done += TILE) {
        some_pairs pairs = { .count = all - done < TILE ? all - done : TILE };
        for (int i = 0; i < pairs.count; i++) {
            const int tap = (done + i) / per_tap, channel = (done + i) % per_tap * each;
            const int r = tap / columns, s = tap % columns;
            const size_t pixel = (size_t)(r * conv->dilation * conv->width + s * conv->dilation);
            pairs.offset[i] = pixel * (size_t)conv->depth + (size_t)channel;
            pairs.place[i] = (size_t)((r * conv->kernel_w + s) * conv->depth + channel) * LS_VL;
            pairs.last[i] = channel + 1 == channels;
        }
        if (pairs.count <= 8)
            (half ? half_taps_8 : taps_8)(conv, &pairs);
        else
            (half ? half_taps_12 : taps_12)(conv, &pairs);
    }
}

// With few channels, the pairs of a filter row are adjacent, so their offsets are constants and need no loads. Computes
// one, two or three whole filter rows at once, with `length` pairs in each.
#define ROW_TAP(i) a##i += x[(size_t)(i / length) * row + i % length] * g;
#define ROW_PUT(i) ADD(to + i * LS_VL, a##i)
#define FILTER_ROWS(name, EACH, length_) \
    static void name(const ls_kernel_conv_grad *conv, const float *src, float *to) { \
        enum { length = length_ }; \
        GRAD_LOOP(EACH, ROW_TAP, AS_IT_IS) \
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
    const int kernel = conv->kernel_h == conv->kernel_w ? conv->kernel_h : 0; // other kernels have no special code
    int length = conv->dilation == 1 ? kernel * conv->depth : 0;
    size_t row = (size_t)conv->width * (size_t)conv->depth;
    const float *src = conv->src;
    float *to = conv->grad_weight;
    if (conv->half && LS_VL > 1) {
        any_taps(conv);
    } else if (length == 9 && kernel == 3) {
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
