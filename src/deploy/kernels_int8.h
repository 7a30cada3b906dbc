// kernels_int8.h - the integer kernels of an exported C file (write_c.h), and the one definition of Lockstep's int8
// arithmetic. The program includes this file for `train eval --int8` (execute_int8.c), and write_c.c copies the parts
// that a network uses. So both compute the same integers.
//
// A real number r is stored as q = r / scale + zero, from -128 to 127; `scale` and `zero` belong to the whole tensor.
// A weight is w = r / scale(o), from -127 to 127, with a scale for each output channel and without a zero. A bias is
// an int32 of scale(input) * scale(o). Sums are int32, of (q - zero) * w. They are then multiplied by
// M = scale(input) * scale(o) / scale(output) in integers (`rescale`), and clamped: to -128 and 127, and to the zero
// point from below if a relu follows.
//
// This is the arithmetic of TensorFlow Lite's reference kernels (CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, ADD, MUL,
// MAX_POOL_2D). Means are those of its MEAN: the sum is rescaled once, by scale(input) / (scale(output) * elements).
// A shift to the left saturates, where TensorFlow Lite's result is undefined.
// Source  tensorflow/lite/kernels/internal/common.h, reference/integer_ops; gemmlowp, fixedpoint/fixedpoint.h
#ifndef LS_DEPLOY_KERNELS_INT8_H
#define LS_DEPLOY_KERNELS_INT8_H

#include "deploy/kernels_layer.h"

//: rescale
// Returns x * multiplier / 2^31 * 2^shift. Rounds twice to the nearest: the product (halves up), and after a shift to
// the right (halves away from zero).
static int32_t rescale(int32_t x, int32_t multiplier, int32_t shift) {
    const int right = shift < 0 ? -shift : 0;
    const int64_t half = right == 0 ? 0 : (int64_t)1 << (right - 1);
    int64_t wide = (int64_t)x * ((int64_t)1 << (shift > 0 ? shift : 0));
    wide = wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : wide;
    wide *= multiplier;
    wide = (wide + (wide >= 0 ? (int64_t)1 << 30 : 1 - ((int64_t)1 << 30))) / ((int64_t)1 << 31);
    return (int32_t)(wide >= 0 ? (wide + half) >> right : -((half - wide) >> right));
}

static int8_t clamped(const int8_layer *l, int32_t value) {
    if (value < l->low - l->out) return (int8_t)l->low;
    return (int8_t)(value > 127 - l->out ? 127 : value + l->out);
}

//: normalise
// weight: a table (channels, 256), the quantised value of each pixel
static void normalise(const int8_layer *l, const uint8_t *pixels, int8_t *dst) {
    const int area = l->w.out_h * l->w.out_w, channels = l->w.out_c;
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < area; i++) dst[i * channels + c] = l->weight[c * 256 + pixels[c * area + i]];
}

//: conv
// weight: (out_c, kernel_h, kernel_w, in_c / groups); multiplier, shift: of each output channel
static void conv(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const window *w = &l->w;
    const int ins = w->in_c / w->groups, outs = w->out_c / w->groups, kernel = w->kernel_h * w->kernel_w;
    (void)b;
    for (int at = 0; at < w->out_h * w->out_w; at++)
        for (int o = 0; o < w->out_c; o++) {
            int32_t sum = l->bias[o];
            for (int k = 0; k < kernel; k++) {
                const int from = position(w, at, k), zero = l->a;
                if (from < 0) continue;
                const int8_t *taken = a + from * w->in_c + o / outs * ins, *row = l->weight + (o * kernel + k) * ins;
                for (int i = 0; i < ins; i++) sum += (taken[i] - zero) * row[i];
            }
            dst[at * w->out_c + o] = clamped(l, rescale(sum, l->multiplier[o], l->shift[o]));
        }
}

//: depthwise
// weight: (kernel_h, kernel_w, channels). Eight channels at a time.
static void depthwise(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const int channels = l->w.out_c;
    (void)b;
    for (int at = 0; at < l->w.out_h * l->w.out_w; at++)
        for (int first = 0; first < channels; first += 8) {
            const int count = channels - first < 8 ? channels - first : 8;
            int32_t sum[8];
            for (int c = 0; c < count; c++) sum[c] = l->bias[first + c];
            for (int k = 0; k < l->w.kernel_h * l->w.kernel_w; k++) {
                const int from = position(&l->w, at, k);
                for (int c = 0; from >= 0 && c < count; c++)
                    sum[c] += (a[from * channels + first + c] - l->a) * l->weight[k * channels + first + c];
            }
            for (int c = first; c < first + count; c++)
                dst[at * channels + c] = clamped(l, rescale(sum[c - first], l->multiplier[c], l->shift[c]));
        }
}

//: max_pool
static void max_pool(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const int channels = l->w.out_c;
    (void)b;
    for (int at = 0; at < l->w.out_h * l->w.out_w; at++) {
        int8_t *most = dst + at * channels;
        for (int c = 0; c < channels; c++) most[c] = (int8_t)l->low;
        for (int k = 0; k < l->w.kernel_h * l->w.kernel_w; k++) {
            const int from = position(&l->w, at, k);
            for (int c = 0; from >= 0 && c < channels; c++)
                if (a[from * channels + c] > most[c]) most[c] = a[from * channels + c];
        }
    }
}

//: mean_pool
// Padding counts as zeros. Eight channels at a time.
static void mean_pool(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const int channels = l->w.out_c;
    (void)b;
    for (int at = 0; at < l->w.out_h * l->w.out_w; at++)
        for (int first = 0; first < channels; first += 8) {
            const int count = channels - first < 8 ? channels - first : 8;
            int32_t sum[8] = { 0 };
            for (int k = 0; k < l->w.kernel_h * l->w.kernel_w; k++) {
                const int from = position(&l->w, at, k);
                for (int c = 0; from >= 0 && c < count; c++) sum[c] += a[from * channels + first + c] - l->a;
            }
            for (int c = 0; c < count; c++)
                dst[at * channels + first + c] = clamped(l, rescale(sum[c], l->multiplier[0], l->shift[0]));
        }
}

//: add
// multiplier, shift: of a, of b, and of their sum. Both are shifted left by 20 bits before they are rescaled.
static void add(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    for (int i = 0; i < l->w.out_h * l->w.out_w * l->w.out_c; i++) {
        const int32_t one = rescale((a[i] - l->a) * (1 << 20), l->multiplier[0], l->shift[0]);
        const int32_t other = rescale((b[i] - l->b) * (1 << 20), l->multiplier[1], l->shift[1]);
        dst[i] = clamped(l, rescale(one + other, l->multiplier[2], l->shift[2]));
    }
}

//: multiply
// b: a map of the same shape, or a number for each channel. in_h, in_w: its size
static void multiply(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const int channels = l->w.out_c, area = l->w.out_h * l->w.out_w,
              step = l->w.in_h * l->w.in_w == area ? channels : 0;
    for (int i = 0; i < area; i++)
        for (int c = 0; c < channels; c++) {
            const int32_t product = (a[i * channels + c] - l->a) * (b[i * step + c] - l->b);
            dst[i * channels + c] = clamped(l, rescale(product, l->multiplier[0], l->shift[0]));
        }
}

//: map_values
// weight: a table, the output of each value from -128 to 127
static void map_values(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    (void)b;
    for (int i = 0; i < l->w.out_h * l->w.out_w * l->w.out_c; i++) dst[i] = l->weight[a[i] + 128];
}

//: join
// Copies channels through a table: channel c to channel first + c * groups, if that exists.
static void join(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    (void)b;
    for (int i = 0; i < l->w.out_h * l->w.out_w; i++)
        for (int c = 0; c < l->w.in_c; c++) {
            const int to = l->first + c * l->w.groups;
            if (to >= 0 && to < l->w.out_c) dst[i * l->w.out_c + to] = l->weight[a[i * l->w.in_c + c] + 128];
        }
}

//: shortcut
// Every stride-th row and column; channels of zeros before and after the input's.
static void shortcut(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const window *w = &l->w;
    const int first = (w->out_c - w->in_c) / 2;
    (void)b;
    for (int at = 0; at < w->out_h * w->out_w; at++)
        for (int c = 0; c < w->out_c; c++) {
            const int inside = c >= first && c < first + w->in_c;
            const int value = inside ? a[position(w, at, 0) * w->in_c + c - first] : l->out;
            dst[at * w->out_c + c] = (int8_t)(value < l->low ? l->low : value);
        }
}

//: logits
static void write_logits(const int8_layer *l, const int8_t *a, float *logits) {
    for (int c = 0; c < l->w.out_c; c++) logits[c] = l->scale * (float)(a[c] - l->a);
}

//: end

#endif
