// conv_grouped.c - grouped convolution of one block of one sample (ls_kernel_grouped); a lane is one output channel.
//
// A ring of padded copies holds the rows that an output row needs. So no tap needs a bounds check, the source is read
// once, and the factors are in the first-level cache. Up to 8 pixels are summed in registers; each is a separate chain
// of additions.
#include "device/cpu/kernels/kernels.h"

#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X) X(1)
#define EACH_3(X) EACH_2(X) X(2)
#define EACH_4(X) EACH_3(X) X(3)
#define EACH_5(X) EACH_4(X) X(4)
#define EACH_7(X) EACH_5(X) X(5) X(6)
#define EACH_8(X) EACH_7(X) X(7)
#define EACH_9(X) EACH_8(X) X(8)

typedef struct {
    const float *row[LS_GROUPED_ROWS]; // the row that each row of the kernel reads
    float *zero;                       // a row outside the source
    size_t floats;                     // size of a row of one channel
    int brought;                       // source rows below this number have been copied or are not needed
    int begin, end;                    // columns of the source that lie inside the copy
} window;

static inline window window_of(const ls_kernel_grouped *k) {
    window w = { .floats = (size_t)k->width * LS_VL, .end = k->w };
    w.zero = k->rows + (size_t)(k->kept * k->depth) * w.floats;
    while (w.begin < w.end && k->left + w.begin * k->spread_w < 0) w.begin++;
    while (w.begin < w.end && k->left + (w.end - 1) * k->spread_w >= k->width) w.end--;
    return w;
}

static inline float *kept_row(const ls_kernel_grouped *k, const window *w, int y) {
    return k->rows + (size_t)((y & (k->kept - 1)) * k->depth) * w->floats;
}

// Copies a row of the i-th channels of each lane's group. These channels may lie in several blocks; two blocks are read
// at a time.
static void gather_row(const ls_kernel_grouped *k, int i, const stored *from, size_t count, float *to, size_t step) {
#if LS_VL == 1
    const size_t plane = (size_t)(k->h * k->w);
    for (size_t x = 0; x < count; x++) to[x * step] = number(from + (size_t)(k->first[0] + i) * plane + x);
#else
    const size_t plane = (size_t)(k->h * k->w) * LS_VL;
    const int lowest = (k->first[0] + i) / LS_VL, highest = (k->last + i) / LS_VL;
    for (int block = lowest; block <= highest; block += 2) {
        const vi lane = (vi)load((const float *)(const void *)k->first) + i - block * LS_VL;
        const vi here = (lane >= 0) & (lane < 2 * LS_VL);
        const stored *low = from + (size_t)block * plane, *high = block < highest ? low + plane : low;
        for (size_t x = 0; x < count; x++) {
            const vi taken = here & (vi)take_lanes_of_two(load(low + x * LS_VL), load(high + x * LS_VL), lane);
            float *const at = to + x * step;
            store(at, (vf)(block == lowest ? taken : taken | (vi)load(at)));
        }
    }
#endif
}

static void bring_row(const ls_kernel_grouped *k, const window *w, int y) {
    const stored *from = (const stored *)k->src + (size_t)(y * k->w + w->begin) * LS_VL;
    const size_t step = (size_t)k->spread_w * LS_VL, count = (size_t)(w->end - w->begin);
    float *to = kept_row(k, w, y) + (ptrdiff_t)(k->left + w->begin * k->spread_w) * LS_VL;
    if (!k->first)
        for (size_t x = 0; x < count; x++) store(to + x * step, load(from + x * LS_VL));
    else
        for (int i = 0; i < k->depth; i++, to += w->floats) gather_row(k, i, from, count, to, step);
}

static inline int quotient(int value, int by) {
    return by == 1 ? value : value / by; // avoids a division where possible: it takes longer than a row of a small map
}

// Moves the window to output row p. Source row y is row y * spread_h + top of the padded map.
static inline void move_window(const ls_kernel_grouped *k, window *w, int p, int kernel_h) {
    const int spread = k->spread_h, from = p * k->stride_h - k->top, to = from + k->dilation * (kernel_h - 1);
    int last = to < 0 ? -1 : quotient(to, spread), y = from <= 0 ? 0 : quotient(from + spread - 1, spread);
    if (last >= k->h) last = k->h - 1;
    if (y < w->brought) y = w->brought;
    for (; y <= last; y++) bring_row(k, w, y);
    if (w->brought <= last) w->brought = last + 1;
    for (int r = 0, at = from; r < kernel_h; r++, at += k->dilation) {
        const int source = quotient(at, spread), inside = at >= 0 && source <= last && source * spread == at;
        w->row[r] = inside ? kept_row(k, w, source) : w->zero;
    }
}

// Address of the rows after the last copied row, in the first block that is read.
static inline const stored *next_rows(const ls_kernel_grouped *k, const window *w) {
    const size_t row = (size_t)k->w * LS_VL, plane = (size_t)k->h * row;
    return (const stored *)k->src + (size_t)w->brought * row + (k->first ? (size_t)(k->first[0] / LS_VL) * plane : 0);
}

// Prefetches the source of the next output row, a few pixels at a time: prefetching a whole row at once would stall.
static inline void prefetch_rows(const ls_kernel_grouped *k, const window *w, int begin, int end) {
    const size_t row = (size_t)k->w * LS_VL, plane = (size_t)k->h * row;
    const int blocks = k->first ? (k->last + k->depth - 1) / LS_VL - k->first[0] / LS_VL + 1 : 1;
    const stored *from = next_rows(k, w);
    if (end > k->w) end = k->w;
    for (int block = 0; block < blocks; block++, from += plane)
        for (int y = 0; y < k->stride_h; y++)
            for (int x = begin; x < end; x++) __builtin_prefetch(from + (size_t)y * row + (size_t)x * LS_VL);
}

// --- forward, and backward data as a forward pass with the gradient spread by the stride -----------------

#define START(i) vf a##i = start;
#define TAP(i) a##i += load(x + (size_t)i * step) * weight_of_lane;
#define PUT(i) store(dst + i * LS_VL, a##i);
#define PUT_AROUND(i) store_around(dst + i * LS_VL, a##i);
// at: floats from the start of a row to the first pixel's first tap. step: floats between the sources of neighbouring
// pixels.
#define PIXELS(name, EACH) \
    static inline __attribute__((always_inline)) void name(const ls_kernel_grouped *k, const window *w, size_t at, \
        int kernel_h, int kernel_w, int depth, size_t step, int dilation, stored *dst) { \
        const vf start = k->bias ? load(k->bias) : (vf){ 0 }; \
        EACH(START) \
        const float *weight = k->weight; \
        for (int r = 0; r < kernel_h; r++) { \
            const float *row = w->row[r]; \
            if (row == w->zero) { \
                weight += depth * kernel_w * LS_VL; \
                continue; \
            } \
            row += at; \
            for (int i = 0; i < depth; i++, row += w->floats) { \
                const float *x = row; \
                for (int s = 0; s < kernel_w; s++, x += dilation * LS_VL, weight += LS_VL) { \
                    const vf weight_of_lane = load(weight); \
                    EACH(TAP) \
                } \
            } \
        } \
        if (k->stream) { \
            EACH(PUT_AROUND) \
        } else { \
            EACH(PUT) \
        } \
    }
PIXELS(pixels_8, EACH_8)
PIXELS(pixels_4, EACH_4)
PIXELS(pixels_2, EACH_2)
PIXELS(pixels_1, EACH_1)

#define RUN(count) \
    { \
        prefetch_rows(k, w, q *stride_w, (q + count) * stride_w); \
        pixels_##count(k, w, (size_t)q *step, kernel_h, kernel_w, depth, step, dilation, dst + (size_t)q * LS_VL); \
        q += count; \
    }
static inline __attribute__((always_inline)) void whole_map(
    const ls_kernel_grouped *k, int kernel_h, int kernel_w, int depth, int stride_w, int dilation) {
    const size_t step = (size_t)stride_w * LS_VL;
    window all = window_of(k);
    window *const w = &all;
    stored *dst = k->dst;
    for (int p = 0; p < k->p; p++, dst += (size_t)k->q * LS_VL) {
        move_window(k, w, p, kernel_h);
        int q = 0;
        while (k->q - q >= 8) RUN(8)
        if (k->q - q >= 4) RUN(4)
        if (k->q - q >= 2) RUN(2)
        if (k->q - q >= 1) RUN(1)
    }
    if (k->stream) store_fence();
}

void LS_KERNEL(conv_grouped)(const ls_kernel_grouped *k) {
    const int usual = k->dilation == 1 && k->kernel_h == k->kernel_w ? k->kernel_h : 0;
    const int depthwise = k->depth == 1;
    if (depthwise && usual == 3 && k->stride_w == 1) // constants, so that the usual cases get code of their own
        whole_map(k, 3, 3, 1, 1, 1);
    else if (depthwise && usual == 3 && k->stride_w == 2)
        whole_map(k, 3, 3, 1, 2, 1);
    else if (depthwise && usual == 5 && k->stride_w == 1)
        whole_map(k, 5, 5, 1, 1, 1);
    else if (depthwise && usual == 7 && k->stride_w == 1)
        whole_map(k, 7, 7, 1, 1, 1);
    else if (usual == 3 && k->stride_w == 1)
        whole_map(k, 3, 3, k->depth, 1, 1);
    else if (usual == 5 && k->stride_w == 1)
        whole_map(k, 5, 5, k->depth, 1, 1);
    else
        whole_map(k, k->kernel_h, k->kernel_w, k->depth, k->stride_w, k->dilation);
}

// --- backward weight: sums over a row of pixels are added to those of the map --------------------------

#define SUM_START(i) vf a##i = { 0 };
#define SUM_START_PAIR(i) vf a##i = { 0 }, b##i = { 0 };
#define SUM_TAP(i) a##i += load(x + (size_t)i * tap) * g;
#define SUM_TAP_PAIR(i) SUM_TAP(i) b##i += load(below + (size_t)i * tap) * g;
#define SUM_PUT(i) store(sums + i * LS_VL, load(sums + i * LS_VL) + a##i);
#define SUM_PUT_PAIR(i) SUM_PUT(i) store(sums + next + i * LS_VL, load(sums + next + i * LS_VL) + b##i);
// Sums for neighbouring taps of one row of the kernel, or of two rows whose sums are `next` floats apart. (The five
// chains of additions of one row are too few to hide the latency of each.) tap, step: floats between the sources of
// neighbouring taps and of neighbouring pixels. ahead: data to prefetch, one vector for each pixel.
#define TAPS(name, EACH) \
    static void name( \
        const float *x, size_t tap, size_t step, const stored *grad, const stored *ahead, int q, float *sums) { \
        EACH(SUM_START) \
        for (int j = 0; j < q; j++, x += step, grad += LS_VL, ahead += LS_VL) { \
            __builtin_prefetch(ahead); \
            const vf g = load(grad); \
            EACH(SUM_TAP) \
        } \
        EACH(SUM_PUT) \
    }
#define TAPS_PAIR(name, EACH) \
    static void name(const float *x, const float *below, size_t tap, size_t step, const stored *grad, \
        const stored *ahead, int q, float *sums, size_t next) { \
        EACH(SUM_START_PAIR) \
        for (int j = 0; j < q; j++, x += step, below += step, grad += LS_VL, ahead += LS_VL) { \
            __builtin_prefetch(ahead); \
            const vf g = load(grad); \
            EACH(SUM_TAP_PAIR) \
        } \
        EACH(SUM_PUT_PAIR) \
    }
TAPS(taps_7, EACH_7)
TAPS(taps_5, EACH_5)
TAPS(taps_3, EACH_3)
TAPS(taps_1, EACH_1)
TAPS_PAIR(two_taps_7, EACH_7)
TAPS_PAIR(two_taps_5, EACH_5)
TAPS_PAIR(two_taps_3, EACH_3)
TAPS_PAIR(two_taps_1, EACH_1)

// The nine taps of a 3x3 kernel. Its rows of sums are `next` floats apart.
#define PUT_NINE(i) \
    { \
        float *to = sums + (size_t)(i / 3) * next + i % 3 * LS_VL; \
        store(to, load(to) + a##i); \
    }
static void taps_3x3(const float *const row[3], size_t tap, size_t step, const stored *grad, const stored *ahead, int q,
    float *sums, size_t next) {
    const float *top = row[0], *middle = row[1], *bottom = row[2];
    const stored *grad_ahead = grad + q * LS_VL;
    EACH_9(SUM_START)
    for (int j = 0; j < q; j++, top += step, middle += step, bottom += step, grad += LS_VL, ahead += LS_VL) {
        __builtin_prefetch(ahead);
        __builtin_prefetch(grad_ahead + j * LS_VL);
        const vf g = load(grad);
        a0 += load(top) * g;
        a1 += load(top + tap) * g;
        a2 += load(top + 2 * tap) * g;
        a3 += load(middle) * g;
        a4 += load(middle + tap) * g;
        a5 += load(middle + 2 * tap) * g;
        a6 += load(bottom) * g;
        a7 += load(bottom + tap) * g;
        a8 += load(bottom + 2 * tap) * g;
    }
    EACH_9(PUT_NINE)
}

// x, below: sources of one row of the kernel, or of two rows if below is not NULL.
static void taps_of_rows(const ls_kernel_grouped *k, const float *x, const float *below, const stored *grad,
    const stored *ahead, float *sums, size_t next) {
    const size_t tap = (size_t)k->dilation * LS_VL, step = (size_t)k->stride_w * LS_VL;
    for (int s = 0, count; s < k->kernel_w; s += count, sums += count * LS_VL) {
        const int left = k->kernel_w - s;
        const size_t at = (size_t)s * tap;
        count = left >= 7 ? 7 : left >= 5 ? 5 : left >= 3 ? 3 : 1;
        if (below)
            (count == 7      ? two_taps_7
                : count == 5 ? two_taps_5
                : count == 3 ? two_taps_3
                             : two_taps_1)(x + at, below + at, tap, step, grad, ahead, k->q, sums, next);
        else
            (count == 7      ? taps_7
                : count == 5 ? taps_5
                : count == 3 ? taps_3
                             : taps_1)(x + at, tap, step, grad, ahead, k->q, sums);
    }
}

// Adds one output row's part to the sums of channel i of each group. Meanwhile it prefetches the next rows of both
// maps.
static void taps_of_window(const ls_kernel_grouped *k, const window *w, int i, const stored *grad) {
    const size_t at = w->floats * (size_t)i, next = (size_t)(k->depth * k->kernel_w) * LS_VL;
    const stored *const next_grad = grad + (size_t)k->q * LS_VL, *ahead = next_rows(k, w) + (size_t)(i * k->q) * LS_VL;
    float *sums = k->sums + (size_t)(i * k->kernel_w) * LS_VL;
    if (k->kernel_h == 3 && k->kernel_w == 3) {
        const float *const three[] = { w->row[0] + at, w->row[1] + at, w->row[2] + at };
        taps_3x3(three, (size_t)k->dilation * LS_VL, (size_t)k->stride_w * LS_VL, grad, ahead, k->q, sums, next);
        return;
    }
    for (int r = 0; r < k->kernel_h; r++, sums += next) {
        if (w->row[r] == w->zero) continue;
        const int two = r + 1 < k->kernel_h && w->row[r + 1] != w->zero;
        taps_of_rows(k, w->row[r] + at, two ? w->row[r + 1] + at : NULL, grad, ahead, sums, next);
        ahead = next_grad;
        if (two) r++, sums += next;
    }
}

void LS_KERNEL(conv_grouped_grad)(const ls_kernel_grouped *k) {
    window w = window_of(k);
    for (int p = 0; p < k->p; p++) {
        move_window(k, &w, p, k->kernel_h);
        const stored *grad = (const stored *)k->grad_dst + (size_t)(p * k->q) * LS_VL;
        for (int i = 0; i < k->depth; i++) taps_of_window(k, &w, i, grad);
    }
}
