// norm.c - batch normalisation of one channel block over a range of samples.
//
// Sums are taken in fp32 over segments of at most LS_SEGMENT pixels (which stay in the first cache), about the
// segment's own mean, and go on in double: no cancellation however far the mean is from zero.
#include "device/cpu/kernels/activations.h"

typedef double vd __attribute__((vector_size(LS_VL * 8)));

static inline vd widen(vf v) {
    return __builtin_convertvector(v, vd);
}

static vf segment_sum(const float *x, int count) {
    vf a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    int i = 0;
    for (; i + 4 <= count; i += 4) {
        a += load(x + (i + 0) * LS_VL);
        b += load(x + (i + 1) * LS_VL);
        c += load(x + (i + 2) * LS_VL);
        d += load(x + (i + 3) * LS_VL);
    }
    for (; i < count; i++) a += load(x + i * LS_VL);
    return (a + b) + (c + d);
}

// Sums of (x - mean) and of its square.
static void segment_spread(const float *x, int count, vf mean, vf *rest, vf *squares) {
    vf a = { 0 }, b = { 0 }, s = { 0 }, t = { 0 };
    int i = 0;
    for (; i + 2 <= count; i += 2) {
        vf u = load(x + (i + 0) * LS_VL) - mean, v = load(x + (i + 1) * LS_VL) - mean;
        s += u;
        t += v;
        a += u * u;
        b += v * v;
    }
    for (; i < count; i++) {
        vf u = load(x + i * LS_VL) - mean;
        s += u;
        a += u * u;
    }
    *rest = s + t;
    *squares = a + b;
}

void LS_KERNEL(norm_stats)(const ls_kernel_span *span, const float *src, double *sums) {
    vd sum = { 0 }, squares = { 0 };
    for (int n = 0; n < span->samples; n++) {
        const float *plane = src + (size_t)n * span->stride;
        for (int i = 0; i < span->pixels; i += LS_SEGMENT) {
            int count = span->pixels - i < LS_SEGMENT ? span->pixels - i : LS_SEGMENT;
            const float *x = plane + (size_t)i * LS_VL;
            vf mean = segment_sum(x, count) * (1.0f / (float)count);
            vf rest, spread; // the rest makes up for the rounding of mean
            segment_spread(x, count, mean, &rest, &spread);
            vd m = widen(mean), whole = m * (double)count;
            sum += whole + widen(rest);
            squares += widen(spread) + 2 * m * widen(rest) + m * whole;
        }
    }
    for (int c = 0; c < LS_VL; c++) {
        sums[c] = sum[c];
        sums[LS_VL + c] = squares[c];
    }
}

// What follows the normalisation is known when this is compiled: the loops have no branches.
static inline __attribute__((always_inline)) vf follow(vf y, ls_activation activation) {
    return activation == LS_ACTIVATION_RELU ? positive(y) : activation == LS_ACTIVATION_GELU ? gelu(y) : y;
}

static inline __attribute__((always_inline)) void apply(const ls_kernel_span *span, const float *src,
    const float *residual, const ls_activation activation, const float *constants, float *dst) {
    vf mean = load(constants), factor = load(constants + LS_VL), offset = load(constants + 2 * LS_VL);
    for (int n = 0; n < span->samples; n++) {
        const float *x = src + (size_t)n * span->stride, *r = residual ? residual + (size_t)n * span->stride : NULL;
        float *d = dst + (size_t)n * span->stride;
        for (int i = 0; i < span->pixels; i++) {
            vf y = (load(x + i * LS_VL) - mean) * factor + offset;
            if (r) y += load(r + i * LS_VL);
            y = follow(y, activation);
            if (span->stream)
                store_around(d + i * LS_VL, y);
            else
                store(d + i * LS_VL, y);
        }
    }
    if (span->stream) store_fence();
}

void LS_KERNEL(norm_apply)(const ls_kernel_span *span, const float *src, const float *residual,
    ls_activation activation, const float *constants, float *dst) {
    if (activation == LS_ACTIVATION_GELU)
        apply(span, src, NULL, LS_ACTIVATION_GELU, constants, dst);
    else if (activation == LS_ACTIVATION_RELU)
        apply(span, src, residual, LS_ACTIVATION_RELU, constants, dst);
    else
        apply(span, src, residual, LS_ACTIVATION_NONE, constants, dst);
}

// One plane of the backward pass.
typedef struct {
    const float *x, *y, *g1, *g2; // y, g2: or NULL
    vf mean, factor, offset;
} plane;

static inline __attribute__((always_inline)) plane plane_of(
    const ls_kernel_norm_grad *grad, size_t at, const ls_activation activation, const float *constants) {
    plane p = { .x = grad->src + at, .g1 = grad->grad_dst + at, .mean = load(constants) };
    if (activation == LS_ACTIVATION_RELU) p.y = grad->dst + at;
    if (grad->grad_dst2) p.g2 = grad->grad_dst2 + at;
    if (activation != LS_ACTIVATION_GELU) return p;
    p.factor = load(constants + LS_VL);
    p.offset = load(constants + 2 * LS_VL);
    return p;
}

// The gradient at pixel i before the normalisation: both incoming gradients,
// through the activation. *x: the input there, less its mean.
static inline __attribute__((always_inline)) vf incoming(const plane *p, const ls_activation activation, int i, vf *x) {
    vf g = load(p->g1 + i * LS_VL);
    *x = load(p->x + i * LS_VL) - p->mean;
    if (p->g2) g += load(p->g2 + i * LS_VL);
    if (activation == LS_ACTIVATION_RELU) g = (vf)((vi)(load(p->y + i * LS_VL) > (vf){ 0 }) & (vi)g);
    if (activation == LS_ACTIVATION_GELU) g *= gelu_slope(*x * p->factor + p->offset);
    return g;
}

static inline __attribute__((always_inline)) void grad_sums(const ls_kernel_span *span, const ls_kernel_norm_grad *grad,
    const ls_activation activation, const float *constants, double *sums) {
    vd sum = { 0 }, dot = { 0 };
    for (int n = 0; n < span->samples; n++) {
        const plane p = plane_of(grad, (size_t)n * span->stride, activation, constants);
        for (int i = 0; i < span->pixels; i += LS_SEGMENT) {
            int end = span->pixels - i < LS_SEGMENT ? span->pixels : i + LS_SEGMENT;
            vf s0 = { 0 }, s1 = { 0 }, d0 = { 0 }, d1 = { 0 }, x0, x1;
            int j = i;
            for (; j + 2 <= end; j += 2) {
                vf a = incoming(&p, activation, j, &x0), b = incoming(&p, activation, j + 1, &x1);
                s0 += a;
                s1 += b;
                d0 += a * x0;
                d1 += b * x1;
            }
            for (; j < end; j++) {
                vf a = incoming(&p, activation, j, &x0);
                s0 += a;
                d0 += a * x0;
            }
            sum += widen(s0 + s1);
            dot += widen(d0 + d1);
        }
    }
    for (int c = 0; c < LS_VL; c++) {
        sums[c] = sum[c];
        sums[LS_VL + c] = dot[c];
    }
}

void LS_KERNEL(norm_grad_sums)(
    const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants, double *sums) {
    if (grad->activation == LS_ACTIVATION_GELU)
        grad_sums(span, grad, LS_ACTIVATION_GELU, constants, sums);
    else if (grad->activation == LS_ACTIVATION_RELU)
        grad_sums(span, grad, LS_ACTIVATION_RELU, constants, sums);
    else
        grad_sums(span, grad, LS_ACTIVATION_NONE, constants, sums);
}

// grad_src = (g - level - (x - mean) * slope) * factor
static inline __attribute__((always_inline)) void grad_apply(const ls_kernel_span *span,
    const ls_kernel_norm_grad *grad, const ls_activation activation, const float *constants) {
    vf factor = load(constants + LS_VL), level = load(constants + 3 * LS_VL), slope = load(constants + 4 * LS_VL);
    for (int n = 0; n < span->samples; n++) {
        size_t at = (size_t)n * span->stride;
        const plane p = plane_of(grad, at, activation, constants);
        float *gs = grad->grad_src + at, *gr = grad->grad_residual ? grad->grad_residual + at : NULL;
        for (int i = 0; i < span->pixels; i++) {
            vf x, g = incoming(&p, activation, i, &x), to = (g - level - x * slope) * factor;
            if (span->stream) {
                if (gr) store_around(gr + i * LS_VL, g);
                store_around(gs + i * LS_VL, to);
            } else {
                if (gr) store(gr + i * LS_VL, g);
                store(gs + i * LS_VL, to);
            }
        }
    }
    if (span->stream) store_fence();
}

void LS_KERNEL(norm_grad_apply)(const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants) {
    if (grad->activation == LS_ACTIVATION_GELU)
        grad_apply(span, grad, LS_ACTIVATION_GELU, constants);
    else if (grad->activation == LS_ACTIVATION_RELU)
        grad_apply(span, grad, LS_ACTIVATION_RELU, constants);
    else
        grad_apply(span, grad, LS_ACTIVATION_NONE, constants);
}

// grad_src = g * factor - level - (x - mean) * slope; constants: mean, factor, level, slope
void LS_KERNEL(group_norm_grad)(
    const float *src, const float *grad_dst, const float *constants, float *grad_src, int pixels) {
    const vf mean = load(constants), factor = load(constants + LS_VL), level = load(constants + 2 * LS_VL),
             slope = load(constants + 3 * LS_VL);
    for (size_t i = 0; i < (size_t)pixels * LS_VL; i += LS_VL)
        store(grad_src + i, load(grad_dst + i) * factor - level - (load(src + i) - mean) * slope);
}
