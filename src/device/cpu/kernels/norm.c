// norm.c - batch normalisation of one channel block over a range of samples.
//
// Sums are taken in fp32 over segments of at most LS_SEGMENT pixels (which stay in the first cache), about the
// segment's own mean, and go on in double: no cancellation however far the mean is from zero.
#include "device/cpu/kernels/kernels.h"

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

#define APPLY(with_residual, with_relu, put) \
    for (int i = 0; i < pixels; i++) { \
        vf y = (load(x + i * LS_VL) - mean) * factor + offset; \
        if (with_residual) y += load(r + i * LS_VL); \
        if (with_relu) y = positive(y); \
        put(d + i * LS_VL, y); \
    }

void LS_KERNEL(norm_apply)(
    const ls_kernel_span *span, const float *src, const float *residual, int relu, const float *constants, float *dst) {
    vf mean = load(constants), factor = load(constants + LS_VL), offset = load(constants + 2 * LS_VL);
    int pixels = span->pixels;
    for (int n = 0; n < span->samples; n++) {
        const float *x = src + (size_t)n * span->stride, *r = residual ? residual + (size_t)n * span->stride : NULL;
        float *d = dst + (size_t)n * span->stride;
        if (span->stream) {
            if (r && relu)
                APPLY(1, 1, store_around)
            else if (r)
                APPLY(1, 0, store_around)
            else if (relu)
                APPLY(0, 1, store_around)
            else
                APPLY(0, 0, store_around)
        } else {
            if (r && relu)
                APPLY(1, 1, store)
            else if (r)
                APPLY(1, 0, store)
            else if (relu)
                APPLY(0, 1, store)
            else
                APPLY(0, 0, store)
        }
    }
    if (span->stream) store_fence();
}

// The gradient at pixel i of a plane, before the normalisation: both incoming gradients, stopped where the ReLU was
// closed.
static inline vf incoming(const float *dst, const float *grad_dst, const float *grad_dst2, int i) {
    vf g = load(grad_dst + i * LS_VL);
    if (grad_dst2) g += load(grad_dst2 + i * LS_VL);
    if (dst) g = (vf)((vi)(load(dst + i * LS_VL) > (vf){ 0 }) & (vi)g);
    return g;
}

void LS_KERNEL(norm_grad_sums)(
    const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *mean_at, double *sums) {
    vf mean = load(mean_at);
    vd sum = { 0 }, dot = { 0 };
    for (int n = 0; n < span->samples; n++) {
        size_t at = (size_t)n * span->stride;
        const float *x = grad->src + at, *y = grad->relu ? grad->dst + at : NULL, *g1 = grad->grad_dst + at;
        const float *g2 = grad->grad_dst2 ? grad->grad_dst2 + at : NULL;
        for (int i = 0; i < span->pixels; i += LS_SEGMENT) {
            int end = span->pixels - i < LS_SEGMENT ? span->pixels : i + LS_SEGMENT;
            vf s0 = { 0 }, s1 = { 0 }, d0 = { 0 }, d1 = { 0 };
            int j = i;
            for (; j + 2 <= end; j += 2) {
                vf a = incoming(y, g1, g2, j), b = incoming(y, g1, g2, j + 1);
                s0 += a;
                s1 += b;
                d0 += a * (load(x + j * LS_VL) - mean);
                d1 += b * (load(x + (j + 1) * LS_VL) - mean);
            }
            for (; j < end; j++) {
                vf a = incoming(y, g1, g2, j);
                s0 += a;
                d0 += a * (load(x + j * LS_VL) - mean);
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

#define GRAD_APPLY(put) \
    for (int i = 0; i < span->pixels; i++) { \
        vf g = incoming(y, g1, g2, i); \
        if (gr) put(gr + i * LS_VL, g); \
        put(gs + i * LS_VL, (g - level - (load(x + i * LS_VL) - mean) * slope) * factor); \
    }

// constants: mean, factor, level, slope, each [LS_VL]: grad_src = (g - level - (x - mean) * slope) * factor
void LS_KERNEL(norm_grad_apply)(const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants) {
    vf mean = load(constants), factor = load(constants + LS_VL), level = load(constants + 2 * LS_VL);
    vf slope = load(constants + 3 * LS_VL);
    for (int n = 0; n < span->samples; n++) {
        size_t at = (size_t)n * span->stride;
        const float *x = grad->src + at, *y = grad->relu ? grad->dst + at : NULL, *g1 = grad->grad_dst + at;
        const float *g2 = grad->grad_dst2 ? grad->grad_dst2 + at : NULL;
        float *gs = grad->grad_src + at, *gr = grad->grad_residual ? grad->grad_residual + at : NULL;
        if (span->stream) {
            GRAD_APPLY(store_around)
        } else {
            GRAD_APPLY(store)
        }
    }
    if (span->stream) store_fence();
}
