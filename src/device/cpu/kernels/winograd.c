// winograd.c (kernels) - the transforms of Winograd convolution, B channels at a time, no shuffles but in the backward
// filter.
//
// Points 0, +-5/8, +-3/2, infinity for 6 positions a side; 0, +-1, infinity for 4. For a pair +-p the even and odd
// powers are summed apart, so that a pair costs little more than a point. Each 2-D transform is one pass over columns
// and one over rows.
#include "device/cpu/kernels/winograd.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/winograd_gemm.h"
#include <string.h>

enum { SIDE_MAX = 6 };

// Points a and b, their squares, and the denominators of the filter transform: products of the differences to the other
// points.
#define PA 0.625f
#define PB 1.5f
#define AA (PA * PA)
#define BB (PB * PB)
#define NA (1 / (2 * AA * (AA - BB)))
#define NB (1 / (2 * BB * (BB - AA)))

INLINE float power(float base, int exponent) {
    float p = 1;
    for (int i = 0; i < exponent; i++) p *= base;
    return p;
}

// ---- One-dimensional transforms; strides in floats, `side`, `taps` and `outs` constants.

// B^T: `side` values -> as many positions.
INLINE void data_1d(int side, const float *x, size_t xs, float *y, size_t ys) {
    vf x0 = load(x), x1 = load(x + xs), x2 = load(x + 2 * xs), x3 = load(x + 3 * xs);
    if (side == 4) {
        store(y, x2 - x0);
        store(y + ys, x2 + x1);
        store(y + 2 * ys, x2 - x1);
        store(y + 3 * ys, x3 - x1);
        return;
    }
    vf x4 = load(x + 4 * xs), x5 = load(x + 5 * xs);
    store(y, AA * BB * x0 - (AA + BB) * x2 + x4);
    vf even = x4 - BB * x2, odd = PA * (x3 - BB * x1);
    store(y + ys, even + odd);
    store(y + 2 * ys, even - odd);
    even = x4 - AA * x2, odd = PB * (x3 - AA * x1);
    store(y + 3 * ys, even + odd);
    store(y + 4 * ys, even - odd);
    store(y + 5 * ys, AA * BB * x1 - (AA + BB) * x3 + x5);
}

// One pair of points +-p of G, scaled by n.
INLINE void taps_pair(int taps, float p, float n, const float *x, size_t xs, float *y, size_t ys) {
    vf even = n * load(x), odd = (n * p) * load(x + xs);
    if (taps > 2) even += (n * power(p, 2)) * load(x + 2 * xs);
    if (taps > 3) odd += (n * power(p, 3)) * load(x + 3 * xs);
    if (taps > 4) even += (n * power(p, 4)) * load(x + 4 * xs);
    store(y, even + odd);
    store(y + ys, even - odd);
}

// G: `taps` values -> `side` positions.
INLINE void taps_1d(int side, int taps, const float *x, size_t xs, float *y, size_t ys) {
    if (side == 4) {
        store(y, -load(x));
        taps_pair(taps, 1, 0.5f, x, xs, y + ys, ys);
    } else {
        store(y, (1 / (AA * BB)) * load(x));
        taps_pair(taps, PA, NA, x, xs, y + ys, ys);
        taps_pair(taps, PB, NB, x, xs, y + 3 * ys, ys);
    }
    store(y + (size_t)(side - 1) * ys, load(x + (size_t)(taps - 1) * xs));
}

// A^T: `side` positions -> `outs` values.
INLINE void outs_1d(int side, int outs, const float *x, size_t xs, float *y, size_t ys) {
    vf x1 = load(x + xs), x2 = load(x + 2 * xs), last = load(x + (size_t)(side - 1) * xs);
    vf even_a = x1 + x2, odd_a = x1 - x2, even_b = { 0 }, odd_b = { 0 };
    if (side == 6) {
        vf x3 = load(x + 3 * xs), x4 = load(x + 4 * xs);
        even_b = x3 + x4, odd_b = x3 - x4;
    }
    const float a = side == 6 ? PA : 1;
    for (int i = 0; i < outs; i++) {
        vf sum = power(a, i) * (i % 2 ? odd_a : even_a);
        if (side == 6) sum += power(PB, i) * (i % 2 ? odd_b : even_b);
        if (i == 0) sum += load(x);
        if (i == outs - 1) sum += last;
        store(y + (size_t)i * ys, sum);
    }
}

// ---- Two-dimensional transforms

INLINE void data_2d(int side, const float *x, size_t row, float *y, size_t pos_stride) {
    float t[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
    for (int j = 0; j < side; j++) data_1d(side, x + j * B, row, t + j * B, (size_t)side * B);
    for (int i = 0; i < side; i++) data_1d(side, t + i * side * B, B, y + (size_t)(i * side) * pos_stride, pos_stride);
}

INLINE void taps_2d(int side, int taps, const float *x, size_t row, float *y, size_t pos_stride) {
    float t[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
    for (int j = 0; j < taps; j++) taps_1d(side, taps, x + j * B, row, t + j * B, (size_t)taps * B);
    for (int i = 0; i < side; i++)
        taps_1d(side, taps, t + i * taps * B, B, y + (size_t)(i * side) * pos_stride, pos_stride);
}

INLINE void outs_2d(int side, int outs, const float *x, size_t pos_stride, float *y, size_t row) {
    float t[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
    for (int i = 0; i < side; i++)
        outs_1d(side, outs, x + (size_t)(i * side) * pos_stride, pos_stride, t + i * outs * B, B);
    for (int j = 0; j < outs; j++) outs_1d(side, outs, t + j * B, (size_t)outs * B, y + j * B, row);
}

// ---- Tiles of feature maps

typedef struct {
    int image, y, x;
} tile_at;

static tile_at tile_first(const ls_winograd_map *map, int tile) {
    int per_image = map->tiles_y * map->tiles_x, in_image = tile % per_image;
    return (tile_at){ tile / per_image, in_image / map->tiles_x, in_image % map->tiles_x };
}

static void tile_next(const ls_winograd_map *map, tile_at *at) {
    if (++at->x < map->tiles_x) return;
    at->x = 0;
    if (++at->y < map->tiles_y) return;
    at->y = 0;
    at->image++;
}

static int at_least(int value, int bound) {
    return value > bound ? value : bound;
}

static int at_most(int value, int bound) {
    return value < bound ? value : bound;
}

// The part [y0,y1) x [x0,x1) of a size x size tile that lies inside of the map; top, left: where the tile begins.
typedef struct {
    int top, left, y0, y1, x0, x1;
    int whole;
} tile_part;

INLINE tile_part tile_inside(const ls_winograd_map *map, tile_at at, int size) {
    tile_part p = { .top = at.y * map->step - map->pad, .left = at.x * map->step - map->pad };
    p.y0 = at_least(-p.top, 0), p.y1 = at_most(map->h - p.top, size);
    p.x0 = at_least(-p.left, 0), p.x1 = at_most(map->w - p.left, size);
    p.whole = p.y1 - p.y0 == size && p.x1 - p.x0 == size;
    return p;
}

INLINE void read_tiles(int side, int taps, const ls_winograd_map *map, const float *data, int block, int first,
    int tiles, int padded_tiles, float *v, size_t pos_stride) {
    const int size = taps > 0 ? taps : side; // taps > 0: a tile is a filter
    const size_t row = (size_t)map->w * B;
    float patch[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
    tile_at at = tile_first(map, first);
    for (int t = 0; t < tiles; t++, v += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, at, size);
        const float *plane = data + ((size_t)at.image * (size_t)map->blocks + (size_t)block) * (size_t)map->h * row;
        const float *from = patch;
        size_t from_row = (size_t)size * B;
        if (p.whole) {
            from = plane + (size_t)p.top * row + (size_t)p.left * B, from_row = row;
        } else {
            memset(patch, 0, sizeof patch);
            for (int y = p.y0; y < p.y1; y++)
                for (int x = p.x0; x < p.x1; x++)
                    store(patch + (y * size + x) * B,
                        load(plane + (size_t)(p.top + y) * row + (size_t)((p.left + x) * B)));
        }
        if (taps > 0)
            taps_2d(side, taps, from, from_row, v, pos_stride);
        else
            data_2d(side, from, from_row, v, pos_stride);
    }
    for (int t = tiles; t < padded_tiles; t++, v += B)
        for (int i = 0; i < side * side; i++) store(v + (size_t)i * pos_stride, (vf){ 0 });
}

INLINE void write_tiles(int side, int outs, const ls_winograd_map *map, float *data, int block, int first, int tiles,
    const float *m, size_t pos_stride, const float *bias) {
    const size_t row = (size_t)map->w * B;
    const vf add = bias ? load(bias) : (vf){ 0 };
    float patch[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
    tile_at at = tile_first(map, first);
    for (int t = 0; t < tiles; t++, m += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, at, outs);
        float *plane = data + ((size_t)at.image * (size_t)map->blocks + (size_t)block) * (size_t)map->h * row;
        float *to = plane + (size_t)p.top * row + (size_t)p.left * B;
        outs_2d(side, outs, m, pos_stride, patch, (size_t)outs * B);
        if (p.whole) {
            for (int y = 0; y < outs; y++)
                for (int x = 0; x < outs; x++)
                    store(to + (size_t)y * row + x * B, load(patch + (y * outs + x) * B) + add);
        } else {
            for (int y = 0; y < p.y1; y++)
                for (int x = 0; x < p.x1; x++)
                    store(to + (size_t)y * row + x * B, load(patch + (y * outs + x) * B) + add);
        }
    }
}

static void tiles_in(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
    int padded_tiles, float *v, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F23)
        read_tiles(4, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride);
    else
        read_tiles(6, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride);
}

static void gradients_in(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
    int padded_tiles, float *z, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F23)
        read_tiles(4, 2, map, data, block, first, tiles, padded_tiles, z, pos_stride);
    else if (variant == LS_WINOGRAD_F25)
        read_tiles(6, 2, map, data, block, first, tiles, padded_tiles, z, pos_stride);
    else
        read_tiles(6, 4, map, data, block, first, tiles, padded_tiles, z, pos_stride);
}

static void tiles_out(int variant, const ls_winograd_map *map, float *data, int block, int first, int tiles,
    const float *m, size_t pos_stride, const float *bias) {
    if (variant == LS_WINOGRAD_F23)
        write_tiles(4, 2, map, data, block, first, tiles, m, pos_stride, bias);
    else if (variant == LS_WINOGRAD_F25)
        write_tiles(6, 2, map, data, block, first, tiles, m, pos_stride, bias);
    else
        write_tiles(6, 4, map, data, block, first, tiles, m, pos_stride, bias);
}

// ---- Filters

// B x B floats: from[i][o] -> to[o][i]
INLINE void transpose(const float *from, float *to, size_t to_row) {
    for (int i = 0; i < B; i++)
        for (int o = 0; o < B; o++) to[(size_t)o * to_row + (size_t)i] = from[i * B + o];
}

// Forward: weight[o block][i block][r][s][i][o] is a filter of vectors over o for each i. Backward: the block
// transposed and the taps in reverse order, so that again the vector runs over the outputs of the product (i) for each
// of its inputs (o).
INLINE void read_filters(int side, int taps, int backward, const float *weight, int in_blocks, int out_blocks,
    int panel, float *u, size_t pos_stride) {
    enum { TAPS_MAX = 25 };
    const int reduced_blocks = backward ? out_blocks : in_blocks, panel_blocks = backward ? in_blocks : out_blocks;
    const int first = panel * LS_WINOGRAD_PANEL, width = at_most(panel_blocks - first, LS_WINOGRAD_PANEL);
    const size_t block_floats = (size_t)(taps * taps * B * B);
    float turned[TAPS_MAX * B * B] __attribute__((aligned(64)));
    u += (size_t)(first * B) * (size_t)(reduced_blocks * B);
    for (int k = 0; k < reduced_blocks; k++) {
        for (int j = 0; j < width; j++) {
            const int o = backward ? k : first + j, i = backward ? first + j : k;
            const float *block = weight + ((size_t)o * (size_t)in_blocks + (size_t)i) * block_floats;
            if (backward) {
                for (int t = 0; t < taps * taps; t++)
                    transpose(block + t * B * B, turned + (taps * taps - 1 - t) * B * B, B);
                block = turned;
            }
            for (int c = 0; c < B; c++) {
                float filter[TAPS_MAX * B] __attribute__((aligned(64)));
                for (int t = 0; t < taps * taps; t++) store(filter + t * B, load(block + (t * B + c) * B));
                taps_2d(side, taps, filter, (size_t)taps * B, u + (size_t)((k * B + c) * width + j) * B, pos_stride);
            }
        }
    }
}

static void filters_in(int variant, int backward, const float *weight, int in_blocks, int out_blocks, int panel,
    float *u, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F23)
        read_filters(4, 3, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
    else if (variant == LS_WINOGRAD_F25)
        read_filters(6, 5, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
    else
        read_filters(6, 3, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
}

INLINE void write_filters(int side, int outs, const float *sums, size_t pos_stride, int parts, size_t part_stride,
    int in_blocks, int out_blocks, int block, float *grad_weight) {
    const int panel = block / LS_WINOGRAD_SUM_PANEL, first = panel * LS_WINOGRAD_SUM_PANEL;
    const int width = at_most(out_blocks - first, LS_WINOGRAD_SUM_PANEL);
    sums += (size_t)(first * B) * (size_t)(in_blocks * B);
    for (int i = 0; i < in_blocks; i++) {
        float *to = grad_weight + ((size_t)block * (size_t)in_blocks + (size_t)i) * (size_t)(outs * outs * B * B);
        for (int c = 0; c < B; c++) {
            float total[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
            float taps[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
            const float *from = sums + (size_t)((i * B + c) * width + block - first) * B;
            for (int p = 0; p < side * side; p++) {
                vf sum = load(from + (size_t)p * pos_stride);
                for (int part = 1; part < parts; part++)
                    sum += load(from + (size_t)p * pos_stride + (size_t)part * part_stride);
                store(total + p * B, sum);
            }
            outs_2d(side, outs, total, B, taps, (size_t)outs * B);
            for (int t = 0; t < outs * outs; t++)
                store(to + (t * B + c) * B, load(to + (t * B + c) * B) + load(taps + t * B));
        }
    }
}

static void filters_out(int variant, const float *sums, size_t pos_stride, int parts, size_t part_stride, int in_blocks,
    int out_blocks, int block, float *grad_weight) {
    if (variant == LS_WINOGRAD_F23)
        write_filters(4, 3, sums, pos_stride, parts, part_stride, in_blocks, out_blocks, block, grad_weight);
    else if (variant == LS_WINOGRAD_F25)
        write_filters(6, 5, sums, pos_stride, parts, part_stride, in_blocks, out_blocks, block, grad_weight);
    else
        write_filters(6, 3, sums, pos_stride, parts, part_stride, in_blocks, out_blocks, block, grad_weight);
}

// Sums of one image are added to the total: less rounding error than one running sum over the batch.
static void bias_out(const float *data, int n, int blocks, size_t pixels, int block, float *grad_bias) {
    vf total = load(grad_bias);
    for (int image = 0; image < n; image++) {
        const float *plane = data + ((size_t)image * (size_t)blocks + (size_t)block) * pixels * B;
        vf s0 = { 0 }, s1 = { 0 }, s2 = { 0 }, s3 = { 0 };
        size_t p = 0;
        for (; p + 4 <= pixels; p += 4) {
            s0 += load(plane + p * B), s1 += load(plane + (p + 1) * B);
            s2 += load(plane + (p + 2) * B), s3 += load(plane + (p + 3) * B);
        }
        for (; p < pixels; p++) s0 += load(plane + p * B);
        total += (s0 + s1) + (s2 + s3);
    }
    store(grad_bias, total);
}

extern const ls_winograd_kernels LS_KERNEL(ls_winograd);
const ls_winograd_kernels LS_KERNEL(ls_winograd) = {
    .width = B,
    .product_tiles = LS_WINOGRAD_PRODUCT_TILES,
    .tiles_in = tiles_in,
    .gradients_in = gradients_in,
    .tiles_out = tiles_out,
    .filters_in = filters_in,
    .filters_out = filters_out,
    .product = LS_KERNEL(ls_winograd_product),
    .sum = LS_KERNEL(ls_winograd_sum),
    .bias_out = bias_out,
};
