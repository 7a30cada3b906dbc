// conv_pass.c - data, expected values and plain loops of one convolution pass.
#include <stdlib.h>
#include <string.h>
#include "conv.h"

static const double EXPECTED_TERMS = 3e7; // multiply-adds spent on expected values
enum { SAMPLES_LEAST = 256, SAMPLES_MOST = 16384 };

ls_conv_attr conv_attr_of(const conv_layer *l) {
    const int p = (l->src.h + 2 * l->pad - l->kernel) / l->stride + 1;
    const int q = (l->src.w + 2 * l->pad - l->kernel) / l->stride + 1;
    return (ls_conv_attr){ .src = l->src,
        .dst = { l->src.n, l->out_channels, p, q },
        .kernel_h = l->kernel,
        .kernel_w = l->kernel,
        .stride_h = l->stride,
        .stride_w = l->stride,
        .pad_h = l->pad,
        .pad_w = l->pad,
        .dilation = 1,
        .groups = l->groups,
        .storage = LS_F32 };
}

const char *conv_pass_name(ls_op op) {
    return op == LS_OP_CONV_FORWARD ? "forward" : op == LS_OP_CONV_BACKWARD_DATA ? "backward data" : "backward weight";
}

ls_conv_attr conv_smaller(ls_conv_attr attr, double flops_most) {
    const double flops = ls_op_flops(&(ls_op_desc){ .op = LS_OP_CONV_FORWARD, .attr.conv = attr });
    int n = (int)(flops_most / (flops / attr.src.n));
    if (n < 1) n = 1;
    if (n < attr.src.n) attr.src.n = attr.dst.n = n;
    return attr;
}

// --- plain loops: one output after another -------------------------------------------------------

static size_t at(ls_nchw s, int n, int c, int y, int x) {
    return (((size_t)n * (size_t)s.c + (size_t)c) * (size_t)s.h + (size_t)y) * (size_t)s.w + (size_t)x;
}

// c: of its group
static size_t weight_at(const ls_conv_attr *a, int k, int c, int r, int s) {
    return at((ls_nchw){ a->dst.c, a->src.c / a->groups, a->kernel_h, a->kernel_w }, k, c, r, s);
}

typedef struct {
    double exact;
    float plain;
} sums;

// One of the two sums: which is known where this is inlined.
#define ADD(x, y) \
    do { \
        if (exact) \
            sum.exact += (double)(x) * (double)(y); \
        else \
            sum.plain += (x) * (y); \
    } while (0)

static inline __attribute__((always_inline)) sums forward_at(const conv_pass *d, size_t index, int exact) {
    const ls_conv_attr *a = &d->attr;
    const size_t plane = (size_t)a->dst.h * (size_t)a->dst.w;
    const int q = (int)(index % (size_t)a->dst.w), p = (int)(index % plane / (size_t)a->dst.w);
    const int k = (int)(index / plane % (size_t)a->dst.c), n = (int)(index / plane / (size_t)a->dst.c);
    const int each = a->src.c / a->groups, first = k / (a->dst.c / a->groups) * each;
    sums sum = { 0 };
    for (int c = 0; c < each; c++)
        for (int r = 0; r < a->kernel_h; r++)
            for (int s = 0; s < a->kernel_w; s++) {
                const int y = p * a->stride_h - a->pad_h + r, x = q * a->stride_w - a->pad_w + s;
                if (y < 0 || y >= a->src.h || x < 0 || x >= a->src.w) continue;
                ADD(d->src[at(a->src, n, first + c, y, x)], d->weight[weight_at(a, k, c, r, s)]);
            }
    return sum;
}

static inline __attribute__((always_inline)) sums backward_data_at(const conv_pass *d, size_t index, int exact) {
    const ls_conv_attr *a = &d->attr;
    const size_t plane = (size_t)a->src.h * (size_t)a->src.w;
    const int x = (int)(index % (size_t)a->src.w), y = (int)(index % plane / (size_t)a->src.w);
    const int c = (int)(index / plane % (size_t)a->src.c), n = (int)(index / plane / (size_t)a->src.c);
    const int each = a->dst.c / a->groups, depth = a->src.c / a->groups, first = c / depth * each;
    sums sum = { 0 };
    for (int k = first; k < first + each; k++)
        for (int r = 0; r < a->kernel_h; r++)
            for (int s = 0; s < a->kernel_w; s++) {
                const int p = (y + a->pad_h - r) / a->stride_h, q = (x + a->pad_w - s) / a->stride_w;
                if (p * a->stride_h != y + a->pad_h - r || q * a->stride_w != x + a->pad_w - s) continue;
                if (p < 0 || p >= a->dst.h || q < 0 || q >= a->dst.w) continue;
                ADD(d->grad_dst[at(a->dst, n, k, p, q)], d->weight[weight_at(a, k, c % depth, r, s)]);
            }
    return sum;
}

static inline __attribute__((always_inline)) sums backward_weight_at(const conv_pass *d, size_t index, int exact) {
    const ls_conv_attr *a = &d->attr;
    const size_t width = (size_t)a->kernel_w, height = (size_t)a->kernel_h, taps = width * height;
    const int s = (int)(index % width), r = (int)(index / width % height);
    const int each = a->src.c / a->groups, k = (int)(index / taps / (size_t)each);
    const int c = (int)(index / taps % (size_t)each) + k / (a->dst.c / a->groups) * each;
    sums sum = { 0 };
    for (int n = 0; n < a->src.n; n++)
        for (int p = 0; p < a->dst.h; p++)
            for (int q = 0; q < a->dst.w; q++) {
                const int y = p * a->stride_h - a->pad_h + r, x = q * a->stride_w - a->pad_w + s;
                if (y < 0 || y >= a->src.h || x < 0 || x >= a->src.w) continue;
                ADD(d->src[at(a->src, n, c, y, x)], d->grad_dst[at(a->dst, n, k, p, q)]);
            }
    return sum;
}

float conv_plain(const conv_pass *d, size_t index) {
    if (d->op == LS_OP_CONV_FORWARD) return forward_at(d, index, 0).plain;
    if (d->op == LS_OP_CONV_BACKWARD_DATA) return backward_data_at(d, index, 0).plain;
    return backward_weight_at(d, index, 0).plain;
}

static double exact_at(const conv_pass *d, size_t index) {
    if (d->op == LS_OP_CONV_FORWARD) return forward_at(d, index, 1).exact;
    if (d->op == LS_OP_CONV_BACKWARD_DATA) return backward_data_at(d, index, 1).exact;
    return backward_weight_at(d, index, 1).exact;
}

// --- data ----------------------------------------------------------------------------------------

static size_t weights_of(const ls_conv_attr *a) {
    return (size_t)(a->dst.c * (a->src.c / a->groups) * ls_conv_taps(a));
}

static ls_status fill(conv_pass *d, int zeros) {
    const ls_conv_attr *a = &d->attr;
    const size_t src = (size_t)ls_nchw_count(a->src), dst = (size_t)ls_nchw_count(a->dst), weights = weights_of(a);
    LS_TRY(bench_floats(src, &d->src));
    LS_TRY(bench_floats(weights, &d->weight));
    LS_TRY(bench_floats(dst, &d->grad_dst));
    LS_TRY(bench_floats(d->outs, &d->out));
    bench_fill_normal(d->src, src, 1);
    bench_fill_normal(d->weight, weights, 1U << 30);
    bench_fill_normal(d->grad_dst, dst, 2U << 30);
    for (size_t i = 0; zeros && i < src; i++)
        if (d->src[i] < 0) d->src[i] = 0;
    for (size_t i = 0; zeros && i < dst; i++)
        if ((uint32_t)i * 2654435761U >> 31) d->grad_dst[i] = 0;
    return LS_SUCCESS;
}

static ls_status expect(conv_pass *d) {
    const double terms = ls_op_flops(&(ls_op_desc){ .op = d->op, .attr.conv = d->attr }) / 2 / (double)d->outs;
    double samples = EXPECTED_TERMS / terms;
    if (samples < SAMPLES_LEAST) samples = SAMPLES_LEAST;
    if (samples > SAMPLES_MOST) samples = SAMPLES_MOST;
    d->samples = (int)samples;
    d->sample = malloc((size_t)d->samples * sizeof *d->sample);
    d->expected = malloc((size_t)d->samples * sizeof *d->expected);
    if (!d->sample || !d->expected) return ls_fail(LS_DEVICE, "out of memory for expected values");
    for (int i = 0; i < d->samples; i++) {
        d->sample[i] = ((uint64_t)i + 1) * 0x9E3779B97F4A7C15U % d->outs;
        d->expected[i] = exact_at(d, d->sample[i]);
    }
    return LS_SUCCESS;
}

ls_status conv_pass_new(ls_op op, ls_conv_attr attr, int zeros, conv_pass *pass) {
    *pass = (conv_pass){ .op = op, .attr = attr };
    pass->outs = op == LS_OP_CONV_FORWARD         ? (size_t)ls_nchw_count(attr.dst)
                 : op == LS_OP_CONV_BACKWARD_DATA ? (size_t)ls_nchw_count(attr.src)
                                                  : weights_of(&attr);
    ls_status status = fill(pass, zeros);
    if (!ls_failed(status)) status = expect(pass);
    if (ls_failed(status)) conv_pass_free(pass);
    return status;
}

void conv_pass_free(conv_pass *d) {
    free(d->src), free(d->weight), free(d->grad_dst), free(d->out), free(d->sample), free(d->expected);
    *d = (conv_pass){ 0 };
}

bench_error conv_pass_error(const conv_pass *d) {
    bench_error error = { 0 };
    for (int i = 0; i < d->samples; i++) bench_error_add(&error, (double)d->out[d->sample[i]], d->expected[i]);
    return error;
}

// --- on a device ---------------------------------------------------------------------------------

static ls_param_shape weight_shape(const ls_conv_attr *a) {
    return (ls_param_shape){ LS_PARAM_CONV, { a->dst.c, a->src.c / a->groups, a->kernel_h, a->kernel_w }, a->groups };
}

ls_status conv_operands(const conv_pass *d, ls_device *device, bench_operands *o) {
    const ls_conv_attr *a = &d->attr;
    *o = (bench_operands){ .device = device };
    if (d->op == LS_OP_CONV_FORWARD) {
        LS_TRY(bench_operand_activation(o, LS_CONV_FORWARD_SRC, a->src, d->src));
        LS_TRY(bench_operand_param(o, LS_CONV_FORWARD_WEIGHT, weight_shape(a), d->weight));
        return bench_operand_activation(o, LS_CONV_FORWARD_DST, a->dst, NULL);
    }
    if (d->op == LS_OP_CONV_BACKWARD_DATA) {
        LS_TRY(bench_operand_activation(o, LS_CONV_BACKWARD_DATA_GRAD_DST, a->dst, d->grad_dst));
        LS_TRY(bench_operand_param(o, LS_CONV_BACKWARD_DATA_WEIGHT, weight_shape(a), d->weight));
        return bench_operand_activation(o, LS_CONV_BACKWARD_DATA_GRAD_SRC, a->src, NULL);
    }
    LS_TRY(bench_operand_activation(o, LS_CONV_BACKWARD_WEIGHT_SRC, a->src, d->src));
    LS_TRY(bench_operand_activation(o, LS_CONV_BACKWARD_WEIGHT_GRAD_DST, a->dst, d->grad_dst));
    return bench_operand_param(o, LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT, weight_shape(a), NULL);
}

ls_status conv_run_once(const conv_pass *d, bench_parts *parts, bench_operands *o) {
    const ls_device_api *api = o->device->api;
    const ls_conv_attr *a = &d->attr;
    const int out = d->op == LS_OP_CONV_FORWARD         ? (int)LS_CONV_FORWARD_DST
                    : d->op == LS_OP_CONV_BACKWARD_DATA ? (int)LS_CONV_BACKWARD_DATA_GRAD_SRC
                                                        : (int)LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT;
    const ls_param_shape weight = weight_shape(a);
    api->zero(o->args[out], o->args[out].bytes, parts->queue);
    bench_parts_run(parts);
    LS_TRY(api->queue_sync(parts->queue));
    if (d->op == LS_OP_CONV_BACKWARD_WEIGHT)
        api->param_export(o->device, &weight, o->args[out], d->out);
    else
        api->activation_export(o->device, d->op == LS_OP_CONV_FORWARD ? a->dst : a->src, LS_F32, o->args[out], d->out);
    return LS_SUCCESS;
}
