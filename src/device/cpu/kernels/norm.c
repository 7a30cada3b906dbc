// norm.c - batch normalisation of one channel block over a range of samples; parts of group norms; norms over pixels.
//
// Sums over pixels are taken in fp32 over segments of at most LS_SEGMENT pixels, then added in double. norm_stats takes
// them about the segment's own mean, so nothing cancels, however far the mean is from zero.
#include "device/cpu/kernels/activations.h"

typedef double vd __attribute__((vector_size(LS_VL * 8)));

static inline vd widen(vf v) {
    return __builtin_convertvector(v, vd);
}

// How many elements ahead data is prefetched into the second-level cache. The hardware sees no pattern in short planes
// with gaps between them. For a short plane the prefetch is some samples ahead, for a longer plane further on in the
// plane.
static size_t lead_of(const ls_kernel_span *span) {
    enum { LEAD = 64, SHORT = 256 }; // pixels
    return span->pixels >= SHORT ? LEAD * LS_VL : (size_t)((LEAD - 1) / span->pixels + 1) * span->stride;
}

static inline void prefetch(const stored *x) {
    __builtin_prefetch(x, 0, 2);
}

static vf segment_sum(const stored *x, int count, size_t lead) {
    vf a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    int i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int j = 0; j < 4; j++) prefetch(x + (size_t)(i + j) * LS_VL + lead);
        a += load(x + (i + 0) * LS_VL);
        b += load(x + (i + 1) * LS_VL);
        c += load(x + (i + 2) * LS_VL);
        d += load(x + (i + 3) * LS_VL);
    }
    for (; i < count; i++) a += load(x + i * LS_VL);
    return (a + b) + (c + d);
}

// Sums of (x - mean) and of its square.
static void segment_spread(const stored *x, int count, vf mean, vf *rest, vf *squares) {
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

void LS_KERNEL(norm_stats)(const ls_kernel_span *span, const void *src, double *sums) {
    vd sum = { 0 }, squares = { 0 };
    const size_t lead = lead_of(span);
    for (int n = 0; n < span->samples; n++) {
        const stored *plane = (const stored *)src + (size_t)n * span->stride;
        for (int i = 0; i < span->pixels; i += LS_SEGMENT) {
            int count = span->pixels - i < LS_SEGMENT ? span->pixels - i : LS_SEGMENT;
            const stored *x = plane + (size_t)i * LS_VL;
            vf mean = segment_sum(x, count, lead) * (1.0f / (float)count);
            vf rest, spread; // rest corrects the rounding of mean
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

// activation: a compile-time constant, so that the loops have no branches
static inline __attribute__((always_inline)) void apply(const ls_kernel_span *span, const stored *src,
    const stored *residual, const ls_activation activation, float parameter, const float *constants, stored *dst) {
    vf mean = load(constants), factor = load(constants + LS_VL), offset = load(constants + 2 * LS_VL);
    const size_t lead = lead_of(span);
    for (int n = 0; n < span->samples; n++) {
        const stored *x = src + (size_t)n * span->stride, *r = residual ? residual + (size_t)n * span->stride : NULL;
        stored *d = dst + (size_t)n * span->stride;
        for (int i = 0; i < span->pixels; i++) {
            prefetch(x + (size_t)i * LS_VL + lead);
            vf y = (load(x + i * LS_VL) - mean) * factor + offset;
            if (r) y += load(r + i * LS_VL);
            y = activation_value(y, activation, parameter);
            if (span->stream)
                store_around(d + i * LS_VL, y);
            else
                store(d + i * LS_VL, y);
        }
    }
    if (span->stream) store_fence();
}

void LS_KERNEL(norm_apply)(const ls_kernel_span *span, const void *src, const void *residual, ls_activation activation,
    float parameter, const float *constants, void *dst) {
    switch (activation) {
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        if (zero) apply(span, src, NULL, LS_ACTIVATION_##NAME, parameter, constants, dst); \
        return;
#include "config/activations.def"
    case LS_ACTIVATION_RELU:
        apply(span, src, residual, LS_ACTIVATION_RELU, parameter, constants, dst);
        return;
    default:
        apply(span, src, residual, LS_ACTIVATION_NONE, parameter, constants, dst);
    }
}

// Returns relu of a sum: the normalised value at i plus, if there is one, the residual.
static inline __attribute__((always_inline)) vf relu_at(
    const stored *x, const stored *residual, size_t i, vf mean, vf factor, vf offset) {
    vf y = (load(x + i) - mean) * factor + offset;
    if (residual) y += load(residual + i);
    return positive(y);
}

static inline __attribute__((always_inline)) void apply_pool(const ls_kernel_span *span, const stored *src,
    const stored *residual, const float *constants, const ls_kernel_norm_pool *pool) {
    const vf mean = load(constants), factor = load(constants + LS_VL), offset = load(constants + 2 * LS_VL);
    const size_t row = (size_t)pool->width * LS_VL;
    for (int n = 0; n < span->samples; n++) {
        const stored *x = src + (size_t)n * span->stride, *r = residual ? residual + (size_t)n * span->stride : NULL;
        stored *dst = (stored *)pool->dst + (size_t)n * span->stride / 4;
        uint8_t *index = pool->index ? pool->index + (size_t)n * span->stride / 4 : NULL;
        for (int p = 0; p < span->pixels / pool->width / 2; p++) {
            for (int q = 0; q < pool->width / 2; q++, dst += LS_VL) {
                const size_t i = (size_t)(2 * p) * row + (size_t)(2 * q) * LS_VL;
                const vf a = relu_at(x, r, i, mean, factor, offset), b = relu_at(x, r, i + LS_VL, mean, factor, offset),
                         c = relu_at(x, r, i + row, mean, factor, offset),
                         d = relu_at(x, r, i + row + LS_VL, mean, factor, offset);
                const vi right = b > a, lower_right = d > c;
                const vf upper = pick(right, b, a), lower = pick(lower_right, d, c);
                const vi below = lower > upper;
                const vf best = pick(below, lower, upper);
                store(dst, best);
                if (!index) continue;
                const vi winner = (vi)pick(below, (vf)(2 - lower_right), (vf)(-right));
                const vi closed = best <= (vf){ 0 };
                store_bytes(index, (winner | closed) & 255);
                index += LS_VL;
            }
        }
    }
}

void LS_KERNEL(norm_apply_pool)(const ls_kernel_span *span, const void *src, const void *residual,
    const float *constants, const ls_kernel_norm_pool *pool) {
    if (residual)
        apply_pool(span, src, residual, constants, pool);
    else
        apply_pool(span, src, NULL, constants, pool);
}

// One plane of the backward pass.
typedef struct {
    const stored *x, *y, *g1, *g2; // y, g2: may be NULL
    vf mean, factor, offset;
    float parameter;
    size_t lead;
} plane;

static inline __attribute__((always_inline)) plane plane_of(
    const ls_kernel_norm_grad *grad, size_t at, const ls_activation activation, const float *constants, size_t lead) {
    plane p = { .x = (const stored *)grad->src + at,
        .g1 = (const stored *)grad->grad_dst + at,
        .mean = load(constants),
        .parameter = grad->parameter,
        .lead = lead };
    if (grad->dst) p.y = (const stored *)grad->dst + at;
    if (grad->grad_dst2) p.g2 = (const stored *)grad->grad_dst2 + at;
    if (activation == LS_ACTIVATION_NONE) return p;
    p.factor = load(constants + LS_VL);
    p.offset = load(constants + 2 * LS_VL);
    return p;
}

// Returns the gradient with respect to the normalised value y of pixel i: the sum of both gradients of dst, passed back
// through the activation. *x: the pixel's src minus the mean.
static inline __attribute__((always_inline)) vf incoming(const plane *p, const ls_activation activation, int i, vf *x) {
    prefetch(p->g1 + (size_t)i * LS_VL + p->lead);
    prefetch(p->x + (size_t)i * LS_VL + p->lead);
    vf g = load(p->g1 + i * LS_VL);
    *x = load(p->x + i * LS_VL) - p->mean;
    if (p->g2) g += load(p->g2 + i * LS_VL);
    if (activation == LS_ACTIVATION_NONE) return g;
    // computing y again gives the same bits as the forward pass
    const vf y = p->y ? load(p->y + i * LS_VL) : *x * p->factor + p->offset;
    if (activation == LS_ACTIVATION_RELU) return (vf)((vi)(y > (vf){ 0 }) & (vi)g);
    return g * activation_slope(y, activation, p->parameter);
}

static inline __attribute__((always_inline)) void grad_sums(const ls_kernel_span *span, const ls_kernel_norm_grad *grad,
    const ls_activation activation, const float *constants, double *sums) {
    vd sum = { 0 }, dot = { 0 };
    const size_t lead = lead_of(span);
    for (int n = 0; n < span->samples; n++) {
        const plane p = plane_of(grad, (size_t)n * span->stride, activation, constants, lead);
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

// One plane of the backward pass with pooling after the relu, and the position in it. Two pixels of a window's row are
// read at a time, in the map's order.
typedef struct {
    const stored *x, *g1, *g2; // g2: may be NULL
    const uint8_t *index;
    vf mean;
    int width, column, row; // width of the map; position of the next pixels
} pooled_plane;

static inline __attribute__((always_inline)) pooled_plane pooled_plane_of(
    const ls_kernel_norm_grad *grad, size_t at, const float *constants) {
    return (pooled_plane){ .x = (const stored *)grad->src + at,
        .g1 = (const stored *)grad->grad_dst + at / 4,
        .g2 = grad->grad_dst2 ? (const stored *)grad->grad_dst2 + at / 4 : NULL,
        .index = grad->index + at / 4,
        .mean = load(constants),
        .width = grad->width };
}

typedef struct {
    vf g[2], x[2];
} pixel_pair;

static inline __attribute__((always_inline)) pixel_pair incoming_pooled(pooled_plane *p) {
    const size_t window = (size_t)(p->row / 2 * (p->width / 2) + p->column / 2) * LS_VL;
    const stored *x = p->x + (size_t)(p->row * p->width + p->column) * LS_VL;
    const vi winner = load_bytes(p->index + window);
    vf g = load(p->g1 + window);
    if (p->g2) g += load(p->g2 + window);
    const int first = p->row % 2 * 2;
    p->column += 2;
    if (p->column == p->width) p->column = 0, p->row++;
    return (pixel_pair){ .g = { (vf)((winner == first) & (vi)g), (vf)((winner == first + 1) & (vi)g) },
        .x = { load(x) - p->mean, load(x + LS_VL) - p->mean } };
}

static void grad_sums_pooled(
    const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants, double *sums) {
    vd sum = { 0 }, dot = { 0 };
    for (int n = 0; n < span->samples; n++) {
        pooled_plane p = pooled_plane_of(grad, (size_t)n * span->stride, constants);
        for (int i = 0; i < span->pixels; i += LS_SEGMENT) {
            int end = span->pixels - i < LS_SEGMENT ? span->pixels : i + LS_SEGMENT;
            vf s0 = { 0 }, s1 = { 0 }, d0 = { 0 }, d1 = { 0 };
            for (int j = i; j < end; j += 2) {
                const pixel_pair two = incoming_pooled(&p);
                s0 += two.g[0];
                s1 += two.g[1];
                d0 += two.g[0] * two.x[0];
                d1 += two.g[1] * two.x[1];
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
    if (grad->index) {
        grad_sums_pooled(span, grad, constants, sums);
        return;
    }
    switch (grad->activation) {
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        if (zero) grad_sums(span, grad, LS_ACTIVATION_##NAME, constants, sums); \
        return;
#include "config/activations.def"
    case LS_ACTIVATION_RELU:
        grad_sums(span, grad, LS_ACTIVATION_RELU, constants, sums);
        return;
    default:
        grad_sums(span, grad, LS_ACTIVATION_NONE, constants, sums);
    }
}

static inline __attribute__((always_inline)) void write_grads(
    const ls_kernel_span *span, stored *grad_src, stored *grad_residual, vf to, vf g) {
    if (span->stream) {
        if (grad_residual) store_around(grad_residual, g);
        store_around(grad_src, to);
    } else {
        if (grad_residual) store(grad_residual, g);
        store(grad_src, to);
    }
}

// grad_src = (g - level - (x - mean) * slope) * factor
static inline __attribute__((always_inline)) void grad_apply(const ls_kernel_span *span,
    const ls_kernel_norm_grad *grad, const ls_activation activation, const float *constants) {
    vf factor = load(constants + LS_VL), level = load(constants + 3 * LS_VL), slope = load(constants + 4 * LS_VL);
    const size_t lead = lead_of(span);
    for (int n = 0; n < span->samples; n++) {
        size_t at = (size_t)n * span->stride;
        const plane p = plane_of(grad, at, activation, constants, lead);
        stored *gs = (stored *)grad->grad_src + at,
               *gr = grad->grad_residual ? (stored *)grad->grad_residual + at : NULL;
        for (int i = 0; i < span->pixels; i++) {
            vf x, g = incoming(&p, activation, i, &x), to = (g - level - x * slope) * factor;
            write_grads(span, gs + i * LS_VL, gr ? gr + i * LS_VL : NULL, to, g);
        }
    }
    if (span->stream) store_fence();
}

static void grad_apply_pooled(const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants) {
    vf factor = load(constants + LS_VL), level = load(constants + 3 * LS_VL), slope = load(constants + 4 * LS_VL);
    for (int n = 0; n < span->samples; n++) {
        size_t at = (size_t)n * span->stride;
        pooled_plane p = pooled_plane_of(grad, at, constants);
        stored *gs = (stored *)grad->grad_src + at,
               *gr = grad->grad_residual ? (stored *)grad->grad_residual + at : NULL;
        for (int i = 0; i < span->pixels; i += 2) {
            const pixel_pair two = incoming_pooled(&p);
            for (int k = 0; k < 2; k++, gs += LS_VL) {
                write_grads(span, gs, gr, (two.g[k] - level - two.x[k] * slope) * factor, two.g[k]);
                if (gr) gr += LS_VL;
            }
        }
    }
    if (span->stream) store_fence();
}

void LS_KERNEL(norm_grad_apply)(const ls_kernel_span *span, const ls_kernel_norm_grad *grad, const float *constants) {
    if (grad->index) {
        grad_apply_pooled(span, grad, constants);
        return;
    }
    switch (grad->activation) {
#define ACTIVATION(NAME, name, zero, text) \
    case LS_ACTIVATION_##NAME: \
        if (zero) grad_apply(span, grad, LS_ACTIVATION_##NAME, constants); \
        return;
#include "config/activations.def"
    case LS_ACTIVATION_RELU:
        grad_apply(span, grad, LS_ACTIVATION_RELU, constants);
        return;
    default:
        grad_apply(span, grad, LS_ACTIVATION_NONE, constants);
    }
}

// grad_src = g * factor - level - (x - mean) * slope; constants: mean, factor, level, slope
void LS_KERNEL(group_norm_grad)(
    const void *src, const void *grad_dst, const float *constants, void *grad_src, int pixels) {
    const vf mean = load(constants), factor = load(constants + LS_VL), level = load(constants + 2 * LS_VL),
             slope = load(constants + 3 * LS_VL);
    const stored *x = src, *g = grad_dst;
    stored *to = grad_src;
    for (size_t i = 0; i < (size_t)pixels * LS_VL; i += LS_VL)
        store(to + i, load(g + i) * factor - level - (load(x + i) - mean) * slope);
}

// --- a norm over the channels of each pixel: NEIGHBOURS pixels at a time, which stay in the cache

enum { NEIGHBOURS = 8 };

typedef double vdu __attribute__((vector_size(LS_VL * 8), aligned(8), may_alias));

static inline vf sum_of_lanes(vf v) { // each lane gets the sum
#if LS_VL > 1
    for (int step = LS_VL / 2; step > 0; step /= 2) v += take_lanes(v, lanes() ^ step);
#endif
    return v;
}

static inline vi inside_of(const ls_kernel_pixel_norm *k, int cb) { // lanes that are no padding
    return lanes() < k->channels - cb * LS_VL;
}

static inline vf vector_of(const float *vector, int cb, float absent) {
    if (!vector) return broadcast(absent);
    return load(vector + cb * LS_VL);
}

// first: the first pixel. count: a compile-time constant
static inline __attribute__((always_inline)) void norm_pixels(
    const ls_kernel_pixel_norm *k, int first, const int count) {
    const stored *src = (const stored *)k->src + (size_t)first * LS_VL;
    stored *dst = (stored *)k->out + (size_t)first * LS_VL;
    const float share = 1.0f / (float)k->channels;
    vf mean[NEIGHBOURS] = { 0 }, r[NEIGHBOURS] = { 0 };
    for (int cb = 0; cb < k->blocks; cb++)
        for (int i = 0; i < count; i++) mean[i] += load(src + (size_t)cb * k->plane + i * LS_VL);
    for (int i = 0; i < count; i++) mean[i] = sum_of_lanes(mean[i]) * share;
    for (int cb = 0; cb < k->blocks; cb++) {
        const vi inside = inside_of(k, cb);
        for (int i = 0; i < count; i++) {
            const vf x = (vf)(inside & (vi)(load(src + (size_t)cb * k->plane + i * LS_VL) - mean[i]));
            r[i] += x * x;
        }
    }
    for (int i = 0; i < count; i++) {
        k->mean[first + i] = mean[i][0];
        k->r[first + i] = 1 / __builtin_sqrtf(sum_of_lanes(r[i])[0] * share + k->eps);
        r[i] = broadcast(k->r[first + i]);
    }
    for (int cb = 0; cb < k->blocks; cb++) {
        const vi inside = inside_of(k, cb);
        const vf gamma = vector_of(k->gamma, cb, 1), beta = vector_of(k->beta, cb, 0);
        for (int i = 0; i < count; i++) {
            const size_t at = (size_t)cb * k->plane + (size_t)i * LS_VL;
            store(dst + at, (vf)(inside & (vi)((load(src + at) - mean[i]) * r[i] * gamma + beta)));
        }
    }
}

static inline __attribute__((always_inline)) void norm_grad_pixels(
    const ls_kernel_pixel_norm *k, int first, const int count) {
    const stored *src = (const stored *)k->src + (size_t)first * LS_VL;
    const stored *grad_dst = (const stored *)k->grad_dst + (size_t)first * LS_VL;
    stored *grad_src = (stored *)k->out + (size_t)first * LS_VL;
    const float share = 1.0f / (float)k->channels;
    vf sum[NEIGHBOURS] = { 0 }, dot[NEIGHBOURS] = { 0 };
    for (int cb = 0; cb < k->blocks; cb++) {
        const vf gamma = vector_of(k->gamma, cb, 1);
        vf of_g = { 0 }, of_product = { 0 };
        for (int i = 0; i < count; i++) {
            const size_t at = (size_t)cb * k->plane + (size_t)i * LS_VL;
            const vf g = load(grad_dst + at), x = (load(src + at) - k->mean[first + i]) * k->r[first + i];
            of_g += g;
            of_product += g * x;
            sum[i] += g * gamma;
            dot[i] += g * gamma * x;
        }
        *(vdu *)(k->sums + cb * LS_VL) += widen(of_g);
        *(vdu *)(k->sums + (k->blocks + cb) * LS_VL) += widen(of_product);
    }
    for (int i = 0; i < count; i++) {
        sum[i] = sum_of_lanes(sum[i]) * share;
        dot[i] = sum_of_lanes(dot[i]) * share;
    }
    for (int cb = 0; cb < k->blocks; cb++) {
        const vi inside = inside_of(k, cb);
        const vf gamma = vector_of(k->gamma, cb, 1);
        for (int i = 0; i < count; i++) {
            const size_t at = (size_t)cb * k->plane + (size_t)i * LS_VL;
            const vf x = (load(src + at) - k->mean[first + i]) * k->r[first + i];
            const vf grad = (load(grad_dst + at) * gamma - sum[i] - x * dot[i]) * k->r[first + i];
            store(grad_src + at, (vf)(inside & (vi)grad));
        }
    }
}

void LS_KERNEL(pixel_norm)(const ls_kernel_pixel_norm *k) {
    int first = 0;
    for (; first + NEIGHBOURS <= k->pixels; first += NEIGHBOURS) norm_pixels(k, first, NEIGHBOURS);
    for (; first < k->pixels; first++) norm_pixels(k, first, 1);
}

void LS_KERNEL(pixel_norm_grad)(const ls_kernel_pixel_norm *k) {
    int first = 0;
    for (; first + NEIGHBOURS <= k->pixels; first += NEIGHBOURS) norm_grad_pixels(k, first, NEIGHBOURS);
    for (; first < k->pixels; first++) norm_grad_pixels(k, first, 1);
}
