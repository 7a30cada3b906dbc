// pool.c - pooling of whole planes, LS_VL channels at a time.
#include "device/cpu/kernels/kernels.h"

static inline void put_index(const ls_kernel_pool *pool, void *index, size_t at, vi winner) {
    if (pool->wide_index)
        *(vhu *)((uint16_t *)index + at) = __builtin_convertvector(winner, vh);
    else
        store_bytes((uint8_t *)index + at, winner);
}

static inline vi get_index(const ls_kernel_pool *pool, const void *index, size_t at) {
    if (pool->wide_index) return __builtin_convertvector((vh) * (const vhu *)((const uint16_t *)index + at), vi);
    return load_bytes((const uint8_t *)index + at);
}

// The part of window (p,q) that lies inside the map: rows r0..r1-1, columns s0..s1-1.
typedef struct {
    int y, x, r0, r1, s0, s1;
} window;

static inline window window_at(const ls_kernel_pool *pool, int p, int q) {
    window w = { .y = p * pool->stride_h - pool->pad_h, .x = q * pool->stride_w - pool->pad_w };
    w.r0 = w.y < 0 ? -w.y : 0;
    w.s0 = w.x < 0 ? -w.x : 0;
    w.r1 = w.y + pool->kernel_h > pool->h ? pool->h - w.y : pool->kernel_h;
    w.s1 = w.x + pool->kernel_w > pool->w ? pool->w - w.x : pool->kernel_w;
    return w;
}

// The window of an adaptive average: all of it lies inside the map.
static inline window adaptive_at(const ls_kernel_pool *pool, int p, int q) {
    window w = { .y = p * pool->h / pool->p, .x = q * pool->w / pool->q };
    w.r1 = ((p + 1) * pool->h + pool->p - 1) / pool->p - w.y;
    w.s1 = ((q + 1) * pool->w + pool->q - 1) / pool->q - w.x;
    return w;
}

static int none(const ls_kernel_pool *pool) {
    return pool->wide_index ? 65535 : 255;
}

// Returns the largest element of a window's rows r0..r1-1 and columns s0..s1-1, and its number. The first of equal
// elements wins.
static inline __attribute__((always_inline)) vf max_of(
    const stored *x, int width, int kernel_w, int r0, int r1, int s0, int s1, vi *winner) {
    vf best = load(x + ((ptrdiff_t)r0 * width + s0) * LS_VL);
    *winner = r0 * kernel_w + s0 - (vi){ 0 };
    for (int r = r0; r < r1; r++) {
        for (int s = s0; s < s1; s++) {
            const vf v = load(x + ((ptrdiff_t)r * width + s) * LS_VL);
            const vi better = v > best;
            best = pick(better, v, best);
            *winner = (better & (r * kernel_w + s)) | (~better & *winner);
        }
    }
    return best;
}

// Max pooling of one plane. kernel_h, kernel_w: the pool's, or constants that let the compiler unroll windows inside
// the map.
static inline __attribute__((always_inline)) void max_windows(const ls_kernel_pool *pool, int kernel_h, int kernel_w,
    const stored *src, stored *dst, void *index, size_t index_at) {
    for (int p = 0; p < pool->p; p++) {
        for (int q = 0; q < pool->q; q++) {
            const window w = window_at(pool, p, q);
            const stored *x = src + ((ptrdiff_t)w.y * pool->w + w.x) * LS_VL;
            const int inside = w.r0 + w.s0 == 0 && w.r1 == kernel_h && w.s1 == kernel_w;
            vi winner;
            vf best = inside ? max_of(x, pool->w, kernel_w, 0, kernel_h, 0, kernel_w, &winner)
                             : max_of(x, pool->w, kernel_w, w.r0, w.r1, w.s0, w.s1, &winner);
            if (pool->relu) {
                vi open = ~(vi)(best <= (vf){ 0 });
                best = (vf)(open & (vi)best);
                winner = (open & winner) | (~open & none(pool));
            }
            size_t at = ((size_t)p * (size_t)pool->q + (size_t)q) * LS_VL;
            store(dst + at, best);
            if (index) put_index(pool, index, index_at + at, winner);
        }
    }
}

static void max_general(const ls_kernel_pool *pool, const stored *src, stored *dst, void *index, size_t index_at) {
    if (pool->kernel_h == 3 && pool->kernel_w == 3)
        max_windows(pool, 3, 3, src, dst, index, index_at);
    else
        max_windows(pool, pool->kernel_h, pool->kernel_w, src, dst, index, index_at);
}

// Max pooling of one plane with 2x2 windows that do not overlap, as most networks have them.
static void max_two(const ls_kernel_pool *pool, const stored *src, stored *dst, uint8_t *index) {
    for (int p = 0; p < pool->p; p++) {
        const stored *x = src + (size_t)(2 * p) * (size_t)pool->w * LS_VL, *y = x + (size_t)pool->w * LS_VL;
        for (int q = 0; q < pool->q; q++, x += 2 * LS_VL, y += 2 * LS_VL, dst += LS_VL) {
            vf a = load(x), b = load(x + LS_VL), c = load(y), d = load(y + LS_VL);
            vi right = b > a, lower_right = d > c;
            vf upper = pick(right, b, a), lower = pick(lower_right, d, c);
            vi below = lower > upper;
            vf best = pick(below, lower, upper);
            // numbers in the window: 0 1 in the upper row, 2 3 in the lower row
            vi winner = (vi)pick(below, (vf)(2 - lower_right), (vf)(-right));
            if (pool->relu) {
                vi closed = best <= (vf){ 0 };
                best = (vf)(~closed & (vi)best);
                winner = (winner | closed) & 255;
            }
            store(dst, best);
            if (index) {
                store_bytes(index, winner);
                index += LS_VL;
            }
        }
    }
}

static int side_by_side(const ls_kernel_pool *pool) {
    return pool->kernel_h == 2 && pool->kernel_w == 2 && pool->stride_h == 2 && pool->stride_w == 2 &&
           pool->pad_h == 0 && pool->pad_w == 0 && 2 * pool->p <= pool->h && 2 * pool->q <= pool->w;
}

void LS_KERNEL(pool_max_forward)(const ls_kernel_pool *pool, int planes, const void *src, void *dst, void *index) {
    const size_t in = (size_t)pool->h * (size_t)pool->w * LS_VL, out = (size_t)pool->p * (size_t)pool->q * LS_VL;
    const stored *x = src;
    stored *y = dst;
    for (size_t i = 0; i < (size_t)planes; i++) {
        if (side_by_side(pool))
            max_two(pool, x + i * in, y + i * out, index ? (uint8_t *)index + i * out : NULL);
        else
            max_general(pool, x + i * in, y + i * out, index, i * out);
    }
}

static void clear(stored *x, size_t elements) {
    for (size_t i = 0; i < elements; i += LS_VL) store(x + i, (vf){ 0 });
}

// The windows that a row or column of the map lies in, in one direction: first..end-1.
typedef struct {
    int first, end;
} reach;

// Returns the windows of this pixel. of: those of the pixel before; {0} for the first pixel.
static inline reach reach_next(reach of, int pixel, int kernel, int stride, int pad, int windows) {
    while (of.end < windows && of.end * stride - pad <= pixel) of.end++;
    while (of.first < of.end && of.first * stride - pad + kernel <= pixel) of.first++;
    return of;
}

// The gradient of a pixel from the nine 3x3 windows with stride 1 that contain it. grad_dst and index point to the
// first of them. row: elements from one row of windows to the next.
static inline vf from_nine(const stored *grad_dst, const uint8_t *index, size_t row) {
    vf sum = { 0 };
    for (int i = 0; i < 9; i++) {
        const size_t at = (size_t)(i / 3) * row + (size_t)(i % 3) * LS_VL;
        const vi won = load_bytes(index + at) == 8 - i;
        sum += (vf)(won & (vi)load(grad_dst + at));
    }
    return sum;
}

// Each pixel adds up the gradients of the windows in which it won, in the windows' order, and is written once.
static void max_grad_general(
    const ls_kernel_pool *pool, const stored *grad_dst, const void *index, size_t index_at, stored *grad_src) {
    const int usual = pool->kernel_h == 3 && pool->kernel_w == 3 && pool->stride_h == 1 && pool->stride_w == 1;
    reach rows = { 0 };
    for (int y = 0; y < pool->h; y++) {
        rows = reach_next(rows, y, pool->kernel_h, pool->stride_h, pool->pad_h, pool->p);
        const int three_rows = usual && rows.end - rows.first == 3;
        reach columns = { 0 };
        for (int x = 0; x < pool->w; x++, grad_src += LS_VL) {
            columns = reach_next(columns, x, pool->kernel_w, pool->stride_w, pool->pad_w, pool->q);
            if (three_rows && columns.end - columns.first == 3) {
                const size_t at = index_at + ((size_t)rows.first * (size_t)pool->q + (size_t)columns.first) * LS_VL;
                store(grad_src,
                    from_nine(grad_dst + (at - index_at), (const uint8_t *)index + at, (size_t)pool->q * LS_VL));
                continue;
            }
            vf sum = { 0 };
            for (int p = rows.first; p < rows.end; p++) {
                const int row = (y - p * pool->stride_h + pool->pad_h) * pool->kernel_w + x + pool->pad_w;
                for (int q = columns.first; q < columns.end; q++) {
                    const size_t at = ((size_t)p * (size_t)pool->q + (size_t)q) * LS_VL;
                    const vi won = get_index(pool, index, index_at + at) == row - q * pool->stride_w;
                    sum += (vf)(won & (vi)load(grad_dst + at));
                }
            }
            store(grad_src, sum);
        }
    }
}

static void max_grad_two(const ls_kernel_pool *pool, const stored *grad_dst, const uint8_t *index, stored *grad_src) {
    for (int p = 0; p < pool->p; p++) {
        stored *x = grad_src + (size_t)(2 * p) * (size_t)pool->w * LS_VL, *y = x + (size_t)pool->w * LS_VL;
        for (int q = 0; q < pool->q; q++, x += 2 * LS_VL, y += 2 * LS_VL, grad_dst += LS_VL, index += LS_VL) {
            vi g = (vi)load(grad_dst), winner = load_bytes(index);
            vf a = (vf)((winner == 0) & g), b = (vf)((winner == 1) & g), c = (vf)((winner == 2) & g),
               d = (vf)((winner == 3) & g);
            if (pool->stream) {
                store_around(x, a);
                store_around(x + LS_VL, b);
                store_around(y, c);
                store_around(y + LS_VL, d);
            } else {
                store(x, a);
                store(x + LS_VL, b);
                store(y, c);
                store(y + LS_VL, d);
            }
        }
        if (pool->w & 1) {
            store(x, (vf){ 0 });
            store(y, (vf){ 0 });
        }
    }
    size_t row = (size_t)pool->w * LS_VL;
    if (pool->h & 1) clear(grad_src + (size_t)(2 * pool->p) * row, row);
}

void LS_KERNEL(pool_max_backward)(
    const ls_kernel_pool *pool, int planes, const void *grad_dst, const void *index, void *grad_src) {
    const size_t in = (size_t)pool->h * (size_t)pool->w * LS_VL, out = (size_t)pool->p * (size_t)pool->q * LS_VL;
    const stored *from = grad_dst;
    stored *to = grad_src;
    for (size_t i = 0; i < (size_t)planes; i++) {
        if (side_by_side(pool))
            max_grad_two(pool, from + i * out, (const uint8_t *)index + i * out, to + i * in);
        else
            max_grad_general(pool, from + i * out, index, i * out, to + i * in);
    }
    if (pool->stream) store_fence();
}

void LS_KERNEL(pool_average_forward)(const ls_kernel_pool *pool, int planes, const void *src, void *dst) {
    const size_t in = (size_t)pool->h * (size_t)pool->w * LS_VL;
    const float share = 1.0f / (float)(pool->kernel_h * pool->kernel_w);
    const stored *plane = src;
    stored *to = dst;
    for (int i = 0; i < planes; i++, plane += in) {
        for (int p = 0; p < pool->p; p++) {
            for (int q = 0; q < pool->q; q++, to += LS_VL) {
                const window w = pool->stride_h ? window_at(pool, p, q) : adaptive_at(pool, p, q);
                const stored *x = plane + ((ptrdiff_t)w.y * pool->w + w.x) * LS_VL;
                vf sum = { 0 };
                for (int r = w.r0; r < w.r1; r++) {
                    vf row = { 0 }; // summing row by row gives shorter chains and a smaller error
                    for (int s = w.s0; s < w.s1; s++) row += load(x + ((ptrdiff_t)r * pool->w + s) * LS_VL);
                    sum += row;
                }
                store(to, sum * (pool->stride_h ? share : 1.0f / (float)(w.r1 * w.s1)));
            }
        }
    }
}

// Gives each pixel of the gradient of an adaptive average the shares of the windows that contain it. A window of rows
// i*h/p to ((i+1)*h + p-1)/p slides by h with a kernel of h + p-1, if a row of the map counts as p.
static void adaptive_grad(const ls_kernel_pool *pool, const stored *grad_dst, stored *grad_src) {
    reach rows = { 0 };
    for (int y = 0; y < pool->h; y++) {
        rows = reach_next(rows, (y + 1) * pool->p - 1, pool->h + pool->p - 1, pool->h, 0, pool->p);
        reach columns = { 0 };
        for (int x = 0; x < pool->w; x++, grad_src += LS_VL) {
            columns = reach_next(columns, (x + 1) * pool->q - 1, pool->w + pool->q - 1, pool->w, 0, pool->q);
            vf sum = { 0 };
            for (int p = rows.first; p < rows.end; p++)
                for (int q = columns.first; q < columns.end; q++) {
                    const window w = adaptive_at(pool, p, q);
                    const float share = 1.0f / (float)(w.r1 * w.s1);
                    sum += load(grad_dst + ((size_t)p * (size_t)pool->q + (size_t)q) * LS_VL) * share;
                }
            store(grad_src, sum);
        }
    }
}

// Each pixel adds up the shares of the windows that contain it, and is written once.
void LS_KERNEL(pool_average_backward)(const ls_kernel_pool *pool, int planes, const void *grad_dst, void *grad_src) {
    const size_t in = (size_t)pool->h * (size_t)pool->w * LS_VL, out = (size_t)pool->p * (size_t)pool->q * LS_VL;
    const float share = 1.0f / (float)(pool->kernel_h * pool->kernel_w);
    const stored *from = grad_dst;
    stored *to = grad_src;
    for (int i = 0; i < planes; i++, from += out) {
        if (!pool->stride_h) {
            adaptive_grad(pool, from, to);
            to += in;
            continue;
        }
        reach rows = { 0 };
        for (int y = 0; y < pool->h; y++) {
            rows = reach_next(rows, y, pool->kernel_h, pool->stride_h, pool->pad_h, pool->p);
            reach columns = { 0 };
            for (int x = 0; x < pool->w; x++, to += LS_VL) {
                columns = reach_next(columns, x, pool->kernel_w, pool->stride_w, pool->pad_w, pool->q);
                vf sum = { 0 };
                for (int p = rows.first; p < rows.end; p++)
                    for (int q = columns.first; q < columns.end; q++)
                        sum += load(from + ((size_t)p * (size_t)pool->q + (size_t)q) * LS_VL);
                store(to, sum * share);
            }
        }
    }
}
