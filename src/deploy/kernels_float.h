// kernels_float.h - the float kernels of an exported C file (write_c.h). write_c.c copies the parts that a network
// uses; "//: NAME" begins a part. The program calibrates with the same functions (execute_float.c).
//
// A kernel reads the maps a and b, and writes dst. dst may be the same buffer as b of a convolution, a or b of `add`,
// and a of `multiply` and `map_values`. Sums are in fp32.
#ifndef LS_DEPLOY_KERNELS_FLOAT_H
#define LS_DEPLOY_KERNELS_FLOAT_H

#include <math.h>
#include "deploy/kernels_layer.h"

//: activate
enum {
    NONE,
    RELU,
    GELU,
    SILU,
    SIGMOID,
    LEAKY_RELU,
    RELU6,
    ELU,
    GELU_TANH,
    HARDSIGMOID,
    HARDSWISH,
    MISH,
    TANH,
    SOFTPLUS
};
static float activate(const float_layer *l, float x) {
    (void)l;
    //: relu
    if (l->activation == RELU) return x > 0 ? x : 0;
    //: gelu
    if (l->activation == GELU) return 0.5f * x * erfcf(-0.707106781f * x);
    //: silu
    if (l->activation == SILU) return x / (1 + expf(-x));
    //: sigmoid
    if (l->activation == SIGMOID) return 1 / (1 + expf(-x));
    //: leaky_relu
    if (l->activation == LEAKY_RELU) return x > 0 ? x : x * l->parameter;
    //: relu6
    if (l->activation == RELU6) return x > 6 ? 6 : x > 0 ? x : 0;
    //: elu
    if (l->activation == ELU) return x > 0 ? x : l->parameter * expm1f(x);
    //: gelu_tanh
    if (l->activation == GELU_TANH) return x / (1 + expf(-1.59576912f * x * (1 + 0.044715f * x * x)));
    //: hardsigmoid
    if (l->activation == HARDSIGMOID) return x > 3 ? 1 : x > -3 ? (x + 3) / 6 : 0;
    //: hardswish
    if (l->activation == HARDSWISH) return x > 3 ? x : x > -3 ? x * (x + 3) / 6 : 0;
    //: mish
    if (l->activation == MISH) return x * tanhf(log1pf(expf(x)));
    //: tanh
    if (l->activation == TANH) return tanhf(x);
    //: softplus
    if (l->activation == SOFTPLUS) return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
    //: activated
    return x;
}

//: normalise
// dst (rows, columns, channels) = pixels (channels, rows, columns) * weight + bias
static void normalise(const float_layer *l, const uint8_t *pixels, float *dst) {
    const int area = l->w.out_h * l->w.out_w, channels = l->w.out_c;
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < area; i++) dst[i * channels + c] = (float)pixels[c * area + i] * l->weight[c] + l->bias[c];
}

//: conv
// weight: (groups, kernel_h, kernel_w, in_c / groups, out_c / groups); b: is added, or 0
static void conv(const float_layer *l, const float *a, const float *b, float *dst) {
    const window *w = &l->w;
    const int ins = w->in_c / w->groups, outs = w->out_c / w->groups, kernel = w->kernel_h * w->kernel_w;
    for (int at = 0; at < w->out_h * w->out_w * w->groups; at++) {
        const int g = at % w->groups;
        float *sum = dst + at * outs;
        for (int o = 0; o < outs; o++) sum[o] = l->bias[g * outs + o] + (b ? b[at * outs + o] : 0);
        for (int k = 0; k < kernel; k++) {
            const int from = position(w, at / w->groups, k);
            if (from < 0) continue;
            const float *taken = a + from * w->in_c + g * ins, *row = l->weight + (g * kernel + k) * ins * outs;
            for (int i = 0; i < ins; i++)
                for (int o = 0; o < outs; o++) sum[o] += taken[i] * row[i * outs + o];
        }
        for (int o = 0; o < outs; o++) sum[o] = activate(l, sum[o]);
    }
}

//: depthwise
// Each channel by itself. weight: (kernel_h, kernel_w, channels); b: is added, or 0
static void depthwise(const float_layer *l, const float *a, const float *b, float *dst) {
    const int channels = l->w.out_c;
    for (int at = 0; at < l->w.out_h * l->w.out_w; at++) {
        float *sum = dst + at * channels;
        for (int c = 0; c < channels; c++) sum[c] = l->bias[c] + (b ? b[at * channels + c] : 0);
        for (int k = 0; k < l->w.kernel_h * l->w.kernel_w; k++) {
            const int from = position(&l->w, at, k);
            for (int c = 0; from >= 0 && c < channels; c++)
                sum[c] += a[from * channels + c] * l->weight[k * channels + c];
        }
        for (int c = 0; c < channels; c++) sum[c] = activate(l, sum[c]);
    }
}

//: max_pool
static void max_pool(const float_layer *l, const float *a, const float *b, float *dst) {
    const int channels = l->w.out_c;
    (void)b;
    for (int at = 0; at < l->w.out_h * l->w.out_w; at++) {
        float *most = dst + at * channels;
        int found = 0;
        for (int k = 0; k < l->w.kernel_h * l->w.kernel_w; k++) {
            const int from = position(&l->w, at, k);
            if (from < 0) continue;
            for (int c = 0; c < channels; c++)
                if (!found || a[from * channels + c] > most[c]) most[c] = a[from * channels + c];
            found = 1;
        }
        for (int c = 0; c < channels; c++) most[c] = activate(l, most[c]);
    }
}

//: mean_pool
// Padding counts as zeros. The sum of each row is added, which loses less to rounding. stride_h 0: adaptive windows.
static void mean_pool(const float_layer *l, const float *a, const float *b, float *dst) {
    const window *w = &l->w;
    (void)b;
    for (int at = 0; at < w->out_h * w->out_w; at++) {
        const int p = at / w->out_w, q = at % w->out_w, adapts = w->stride_h == 0;
        const int top = adapts ? p * w->in_h / w->out_h : p * w->stride_h - w->pad_h;
        const int left = adapts ? q * w->in_w / w->out_w : q * w->stride_w - w->pad_w;
        const int rows = adapts ? ((p + 1) * w->in_h + w->out_h - 1) / w->out_h - top : w->kernel_h;
        const int columns = adapts ? ((q + 1) * w->in_w + w->out_w - 1) / w->out_w - left : w->kernel_w;
        for (int c = 0; c < w->out_c; c++) {
            float sum = 0;
            for (int y = top; y < top + rows; y++) {
                float row = 0;
                for (int x = left; x < left + columns && y >= 0 && y < w->in_h; x++)
                    if (x >= 0 && x < w->in_w) row += a[(y * w->in_w + x) * w->out_c + c];
                sum += row;
            }
            dst[at * w->out_c + c] = activate(l, sum / (float)(rows * columns));
        }
    }
}

//: add
static void add(const float_layer *l, const float *a, const float *b, float *dst) {
    for (int i = 0; i < l->w.out_h * l->w.out_w * l->w.out_c; i++) dst[i] = activate(l, a[i] + b[i]);
}

//: multiply
// b: a map of the same shape, or a number for each channel. in_h, in_w: its size
static void multiply(const float_layer *l, const float *a, const float *b, float *dst) {
    const int channels = l->w.out_c, area = l->w.out_h * l->w.out_w,
              step = l->w.in_h * l->w.in_w == area ? channels : 0;
    for (int i = 0; i < area; i++)
        for (int c = 0; c < channels; c++) dst[i * channels + c] = activate(l, a[i * channels + c] * b[i * step + c]);
}

//: map_values
static void map_values(const float_layer *l, const float *a, const float *b, float *dst) {
    (void)b;
    for (int i = 0; i < l->w.out_h * l->w.out_w * l->w.out_c; i++) dst[i] = activate(l, a[i] * l->factor);
}

//: join
// Copies channels: channel c to channel first + c * groups, if that exists.
static void join(const float_layer *l, const float *a, const float *b, float *dst) {
    (void)b;
    for (int i = 0; i < l->w.out_h * l->w.out_w; i++)
        for (int c = 0; c < l->w.in_c; c++) {
            const int to = l->first + c * l->w.groups;
            if (to >= 0 && to < l->w.out_c) dst[i * l->w.out_c + to] = a[i * l->w.in_c + c];
        }
}

//: shortcut
// Every stride-th row and column; channels of zeros before and after the input's.
static void shortcut(const float_layer *l, const float *a, const float *b, float *dst) {
    const window *w = &l->w;
    const int first = (w->out_c - w->in_c) / 2;
    (void)b;
    for (int at = 0; at < w->out_h * w->out_w; at++)
        for (int c = 0; c < w->out_c; c++) {
            const int inside = c >= first && c < first + w->in_c;
            const float x = inside ? a[position(w, at, 0) * w->in_c + c - first] : 0;
            dst[at * w->out_c + c] = activate(l, x);
        }
}

//: group_norm
// Each group is normalised over as many pixels as the window has: all, or one.
static void group_norm(const float_layer *l, const float *a, const float *b, float *dst) {
    const int channels = l->w.out_c, area = l->w.kernel_h * l->w.kernel_w, each = channels / l->w.groups;
    const int elements = l->w.out_h * l->w.out_w * channels;
    (void)b;
    for (int at = 0; at < elements; at += area * channels, a += area * channels, dst += area * channels)
        for (int g = 0; g < channels; g += each) {
            float mean = 0, variance = 0;
            for (int i = 0; i < area; i++) {
                float sum = 0;
                for (int c = g; c < g + each; c++) sum += a[i * channels + c];
                mean += sum;
            }
            mean /= (float)(area * each);
            for (int i = 0; i < area; i++) {
                float sum = 0;
                for (int c = g; c < g + each; c++) sum += (a[i * channels + c] - mean) * (a[i * channels + c] - mean);
                variance += sum;
            }
            const float factor = 1 / sqrtf(variance / (float)(area * each) + l->factor);
            for (int i = 0; i < area; i++)
                for (int c = g; c < g + each; c++) {
                    const float x = (a[i * channels + c] - mean) * factor;
                    dst[i * channels + c] = activate(l, x * l->weight[c] + l->bias[c]);
                }
        }
}

//: logits
static void write_logits(const float_layer *l, const float *a, float *logits) {
    for (int c = 0; c < l->w.out_c; c++) logits[c] = a[c];
}

//: end

#endif
