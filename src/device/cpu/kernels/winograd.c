// winograd.c (kernels) - the transforms of Winograd convolution, B channels at a time,
// no shuffles but in the backward filter.
//
// Points 0, +-5/8, +-3/2, infinity for 6 positions a side; 0, +-1, +-7/4, 3/8, infinity for 7; 0, +-3/2, 1/2, infinity
// for 5; 0, +-1, infinity for 4. For a pair +-p the even and odd powers are summed apart, so that a pair costs little more than a point.
// Each 2-D transform is one pass over columns and one over rows.
#include "device/cpu/kernels/winograd.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/winograd_gemm.h"
#include <stdint.h>
#include <string.h>

enum { SIDE_MAX = 7 };

// Points a and b, their squares, and the denominators of the filter transform:
// products of the differences to the other points.
#define PA 0.625f
#define PB 1.5f
#define AA (PA * PA)
#define BB (PB * PB)
#define NA (1 / (2 * AA * (AA - BB)))
#define NB (1 / (2 * BB * (BB - AA)))
// Of 5 positions: the pair +-PB, and PC by itself.
#define PC 0.5f
#define CC (PC * PC)
// Of 7 positions: the pairs +-1 and +-PE, and PF by itself.
#define PE 1.75f
#define PF 0.375f
#define EE (PE * PE)
#define FF (PF * PF)

INLINE float power(float base, int exponent) {
    float p = 1;
    for (int i = 0; i < exponent; i++) p *= base;
    return p;
}

// --- lines of up to SIDE_MAX vectors -------------------------------------------------------------
// Members, not an array: they stay in registers. `count` is always a constant.

typedef struct {
    vf x0, x1, x2, x3, x4, x5, x6;
} line;

INLINE line read_line(int count, const float *x, size_t stride) {
    const vf none = { 0 };
    return (line){ load(x), load(x + stride), count > 2 ? load(x + 2 * stride) : none,
        count > 3 ? load(x + 3 * stride) : none, count > 4 ? load(x + 4 * stride) : none,
        count > 5 ? load(x + 5 * stride) : none, count > 6 ? load(x + 6 * stride) : none };
}

INLINE line read_column(int count, const float *const *rows, size_t at) {
    const vf none = { 0 };
    return (line){ load(rows[0] + at), load(rows[1] + at), count > 2 ? load(rows[2] + at) : none,
        count > 3 ? load(rows[3] + at) : none, count > 4 ? load(rows[4] + at) : none,
        count > 5 ? load(rows[5] + at) : none, count > 6 ? load(rows[6] + at) : none };
}

INLINE void write_line(int count, line l, float *y, size_t stride) {
    store(y, l.x0);
    store(y + stride, l.x1);
    if (count > 2) store(y + 2 * stride, l.x2);
    if (count > 3) store(y + 3 * stride, l.x3);
    if (count > 4) store(y + 4 * stride, l.x4);
    if (count > 5) store(y + 5 * stride, l.x5);
    if (count > 6) store(y + 6 * stride, l.x6);
}

INLINE void write_pixel(int stream, float *to, vf v) {
    if (stream)
        store_around(to, v);
    else
        store(to, v);
}

INLINE void write_column(int count, int stream, line l, float *const *rows, size_t at) {
    write_pixel(stream, rows[0] + at, l.x0);
    write_pixel(stream, rows[1] + at, l.x1);
    if (count > 2) write_pixel(stream, rows[2] + at, l.x2);
    if (count > 3) write_pixel(stream, rows[3] + at, l.x3);
    if (count > 4) write_pixel(stream, rows[4] + at, l.x4);
}

INLINE void add_line(int count, line l, float *y, size_t stride) {
    line old = read_line(count, y, stride);
    l.x0 += old.x0, l.x1 += old.x1, l.x2 += old.x2, l.x3 += old.x3, l.x4 += old.x4;
    write_line(count, l, y, stride);
}

// --- one-dimensional transforms; `side`, `taps`, `outs` and `pair` are constants -----------------

// Two positions of a line: those of a pair of points +-p, or, as pair 0, of the points 0 and infinity. Of 5 and of 7 positions
// the last pair is one point: `plus`.
typedef struct {
    vf plus, minus;
} two;

INLINE two even_odd(vf even, vf odd) {
    return (two){ even + odd, even - odd };
}

// 7 positions: s is the line times x - PF, w and u are s times x*x - EE and x*x - 1.
INLINE two data_pair_7(int pair, line l) {
    if (pair == 3) return (two){ l.x5 - (1 + EE) * l.x3 + EE * l.x1, l.x5 };
    const vf s1 = l.x2 - PF * l.x1, s2 = l.x3 - PF * l.x2, s3 = l.x4 - PF * l.x3, s4 = l.x5 - PF * l.x4;
    if (pair == 1) return even_odd(s4 - EE * s2, s3 - EE * s1);
    if (pair == 2) return even_odd(s4 - s2, PE * (s3 - s1));
    const vf s0 = l.x1 - PF * l.x0, s5 = l.x6 - PF * l.x5;
    return (two){ s4 - (1 + EE) * s2 + EE * s0, s5 - (1 + EE) * s3 + EE * s1 };
}

// B^T: `side` values -> as many positions.
INLINE two data_pair(int side, int pair, line l) {
    if (side == 4) return pair == 0 ? (two){ l.x2 - l.x0, l.x3 - l.x1 } : even_odd(l.x2, l.x1);
    if (side == 5) {
        const vf a = l.x2 - PC * l.x1, b = l.x3 - PC * l.x2; // times x - PC
        if (pair == 0) return (two){ b - BB * (l.x1 - PC * l.x0), l.x4 - PC * l.x3 - BB * a };
        return pair == 1 ? even_odd(b, PB * a) : (two){ l.x3 - BB * l.x1, l.x3 };
    }
    if (side == 7) return data_pair_7(pair, l);
    if (pair == 0) return (two){ l.x4 - (AA + BB) * l.x2 + AA * BB * l.x0, l.x5 - (AA + BB) * l.x3 + AA * BB * l.x1 };
    return pair == 1 ? even_odd(l.x4 - BB * l.x2, PA * (l.x3 - BB * l.x1))
                     : even_odd(l.x4 - AA * l.x2, PB * (l.x3 - AA * l.x1));
}

// The even and the odd part of G's rows for a pair of points +-p, scaled by n.
INLINE vf taps_even(int taps, float p, float n, line l) {
    vf sum = n * l.x0;
    if (taps > 2) sum += (n * power(p, 2)) * l.x2;
    if (taps > 4) sum += (n * power(p, 4)) * l.x4;
    return sum;
}

INLINE vf taps_odd(int taps, float p, float n, line l) {
    vf sum = (n * p) * l.x1;
    if (taps > 3) sum += (n * power(p, 3)) * l.x3;
    return sum;
}

// A filter at +-p, each over the products of differences: n is what both have of them, p - f and p + f the rest.
INLINE two taps_beside(int taps, float p, float f, float n, line l) {
    const vf even = taps_even(taps, p, n, l), odd = taps_odd(taps, p, n, l);
    return (two){ (1 / (p - f)) * (even + odd), (-1 / (p + f)) * (even - odd) };
}

INLINE two taps_pair_7(int taps, int pair, vf last, line l) {
    if (pair == 0) return (two){ (-1 / (EE * PF)) * l.x0, last };
    if (pair == 1) return taps_beside(taps, 1, PF, 1 / (2 * (1 - EE)), l);
    if (pair == 2) return taps_beside(taps, PE, PF, 1 / (2 * EE * (EE - 1)), l);
    const float n = 1 / (PF * (FF - 1) * (FF - EE));
    const vf at_f = taps_even(taps, PF, n, l) + taps_odd(taps, PF, n, l);
    return (two){ at_f, at_f };
}

// G: `taps` values -> `side` positions.
INLINE two taps_pair(int side, int taps, int pair, line l) {
    const vf last = taps == 2 ? l.x1 : taps == 3 ? l.x2 : taps == 4 ? l.x3 : l.x4;
    if (side == 7) return taps_pair_7(taps, pair, last, l);
    if (side == 5) {
        if (pair == 0) return (two){ (1 / (BB * PC)) * l.x0, last };
        if (pair == 1) return taps_beside(taps, PB, PC, 1 / (2 * BB), l);
        const vf at_c = (1 / (PC * (CC - BB))) * (l.x0 + PC * l.x1 + CC * l.x2);
        return (two){ at_c, at_c };
    }
    if (pair == 0) return (two){ side == 4 ? -l.x0 : (1 / (AA * BB)) * l.x0, last };
    const float p = side == 4 ? 1 : pair == 1 ? PA : PB, n = side == 4 ? 0.5f : pair == 1 ? NA : NB;
    return even_odd(taps_even(taps, p, n, l), taps_odd(taps, p, n, l));
}

INLINE two transform_pair(int side, int taps, int pair, line l) { // taps > 0: a filter
    return taps > 0 ? taps_pair(side, taps, pair, l) : data_pair(side, pair, l);
}

// Where the positions of a pair are in a line.
INLINE int plus_at(int pair) {
    return pair == 0 ? 0 : 2 * pair - 1;
}

INLINE int minus_at(int side, int pair) {
    return pair == 0 ? side - 1 : 2 * pair;
}

INLINE int is_single(int side, int pair) {
    return side % 2 && pair == side / 2;
}

// A line's positions, at multiples of `stride`.
INLINE void transform_line(int side, int taps, line l, float *y, size_t stride) {
#pragma GCC unroll 4
    for (int pair = 0; pair < (side + 1) / 2; pair++) {
        const two to = transform_pair(side, taps, pair, l);
        store(y + (size_t)plus_at(pair) * stride, to.plus);
        if (!is_single(side, pair)) store(y + (size_t)minus_at(side, pair) * stride, to.minus);
    }
}

// One row of A^T without the points 0 and infinity: sums of even or odd pairs, weighted by the points' powers.
INLINE vf outs_row(int side, int exponent, vf a, vf b, vf begin) {
    if (side == 4) return begin + a;
    return begin + power(PA, exponent) * a + power(PB, exponent) * b;
}

// A^T: `side` positions -> `outs` values.
INLINE line outs_1d(int side, int outs, line l) {
    const vf none = { 0 }, last = side == 4 ? l.x3 : side == 6 ? l.x5 : l.x6;
    if (side == 5) {
        const vf even = l.x1 + l.x2, odd = l.x1 - l.x2;
        return (line){ .x0 = l.x0 + even + l.x3, .x1 = PB * odd + PC * l.x3, .x2 = BB * even + CC * l.x3 + l.x4 };
    }
    if (side == 7) {
        const vf even = l.x1 + l.x2, odd = l.x1 - l.x2, even_e = l.x3 + l.x4, odd_e = l.x3 - l.x4;
        return (line){ .x0 = l.x0 + even + even_e + l.x5,
            .x1 = odd + PE * odd_e + PF * l.x5,
            .x2 = even + EE * even_e + FF * l.x5 + (outs == 3 ? last : none),
            .x3 = odd + PE * EE * odd_e + PF * FF * l.x5,
            .x4 = even + EE * EE * even_e + FF * FF * l.x5 + (outs == 5 ? last : none) };
    }
    const vf even_a = l.x1 + l.x2, odd_a = l.x1 - l.x2, even_b = l.x3 + l.x4, odd_b = l.x3 - l.x4;
    return (line){ .x0 = outs_row(side, 0, even_a, even_b, l.x0),
        .x1 = outs_row(side, 1, odd_a, odd_b, outs == 2 ? last : none),
        .x2 = outs_row(side, 2, even_a, even_b, outs == 3 ? last : none),
        .x3 = outs_row(side, 3, odd_a, odd_b, outs == 4 ? last : none),
        .x4 = outs_row(side, 4, even_a, even_b, outs == 5 ? last : none) };
}

// --- two-dimensional transforms ------------------------------------------------------------------

// A tile or filter (taps > 0) -> its positions, pos_stride apart. rows[i] is row i from column `begin` on, columns are
// `column` floats apart; those outside of [begin,end) are zero.
#if LS_VL == 16
#define EACH_COLUMN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
// The two rows that a pair makes of the columns stay in registers; the columns are read once for each pair. On AVX2,
// which has half the registers, this costs up to a quarter more.
INLINE void transform_2d(
    int side, int taps, const float *const *rows, size_t column, int begin, int end, float *v, size_t pos_stride) {
    const int size = taps > 0 ? taps : side;
#pragma GCC unroll 4
    for (int pair = 0; pair < (side + 1) / 2; pair++) {
        line plus = { .x0 = { 0 } }, minus = { .x0 = { 0 } };
#define COLUMN(j) \
    if (j < size && j >= begin && j < end) { \
        const two to = transform_pair(side, taps, pair, read_column(size, rows, (size_t)(j - begin) * column)); \
        plus.x##j = to.plus, minus.x##j = to.minus; \
    }
        EACH_COLUMN(COLUMN)
#undef COLUMN
        transform_line(side, taps, plus, v + (size_t)(plus_at(pair) * side) * pos_stride, pos_stride);
        if (!is_single(side, pair))
            transform_line(side, taps, minus, v + (size_t)(minus_at(side, pair) * side) * pos_stride, pos_stride);
    }
}
#else
INLINE void transform_2d(
    int side, int taps, const float *const *rows, size_t column, int begin, int end, float *v, size_t pos_stride) {
    const int size = taps > 0 ? taps : side;
    float t[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
    if (end - begin < size) memset(t, 0, sizeof t);
#pragma GCC unroll 2
    for (int j = begin; j < end; j++)
        transform_line(
            side, taps, read_column(size, rows, (size_t)(j - begin) * column), t + j * B, (size_t)(size * B));
#pragma GCC unroll 2
    for (int i = 0; i < side; i++)
        transform_line(
            side, taps, read_line(size, t + i * size * B, B), v + (size_t)(i * side) * pos_stride, pos_stride);
}
#endif

// --- tiles of feature maps -----------------------------------------------------------------------

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

// Columns [begin,end) of a tile lie inside of the map; its first element would be at row top, column left of the plane.
typedef struct {
    const float *plane;
    int top, left, begin, end;
} tile_part;

INLINE tile_part tile_inside(const ls_winograd_map *map, const float *data, int block, tile_at at, int size) {
    tile_part p = { .top = at.y * map->step - map->pad, .left = at.x * map->step - map->pad };
    p.begin = at_least(-p.left, 0), p.end = at_most(map->w - p.left, size);
    p.plane = data + ((size_t)at.image * (size_t)map->image_blocks + (size_t)block) * (size_t)(map->h * map->w * B);
    return p;
}

// Prefetches what the tile below adds to this one: the hardware sees no pattern in rows as short as a tile. The address
// may lie outside of the map; a prefetch does not mind.
INLINE void prefetch_below(const ls_winograd_map *map, tile_part p, int size) {
    const ptrdiff_t element = (ptrdiff_t)((p.top + size) * map->w + p.left) * B;
    uintptr_t row = (uintptr_t)p.plane + (uintptr_t)(element * (ptrdiff_t)sizeof(float));
    for (int i = 0; i < map->step; i++, row += (size_t)(map->w * B) * sizeof(float))
        for (uintptr_t at = row; at < row + (size_t)(map->step * B) * sizeof(float); at += 64)
            __builtin_prefetch((const void *)at);
}

INLINE void read_tiles(int side, int taps, const ls_winograd_map *map, const float *data, int block, int first,
    int tiles, int padded_tiles, float *v, size_t pos_stride) {
    static const float zeros[SIDE_MAX * B] __attribute__((aligned(64)));
    const int size = taps > 0 ? taps : side;
    tile_at at = tile_first(map, first);
    for (int n = 0; n < tiles; n++, v += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, data, block, at, size);
        prefetch_below(map, p, size);
        const float *rows[SIDE_MAX]; // of the tile, beginning at column p.begin
        for (int i = 0; i < size; i++) {
            const int y = p.top + i;
            rows[i] = y < 0 || y >= map->h ? zeros : p.plane + (size_t)((y * map->w + p.left + p.begin) * B);
        }
        transform_2d(side, taps, rows, B, p.begin, p.end, v, pos_stride);
    }
    for (int n = tiles; n < padded_tiles; n++, v += B)
        for (int i = 0; i < side * side; i++) store(v + (size_t)i * pos_stride, (vf){ 0 });
}

INLINE void write_tiles(int side, int outs, const ls_winograd_map *map, float *data, int block, int first, int tiles,
    const float *m, size_t pos_stride, const float *bias) {
    const vf add = bias ? load(bias) : (vf){ 0 };
    float t[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
    float outside[SIDE_MAX * B] __attribute__((aligned(64))); // for rows below the map
    tile_at at = tile_first(map, first);
    for (int n = 0; n < tiles; n++, m += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, data, block, at, outs);
        float *rows[SIDE_MAX];
        for (int i = 0; i < outs; i++)
            rows[i] = p.top + i >= map->h ? outside : data + (p.plane - data) + ((p.top + i) * map->w + p.left) * B;
#pragma GCC unroll 2
        for (int i = 0; i < side; i++)
            write_line(outs, outs_1d(side, outs, read_line(side, m + (size_t)(i * side) * pos_stride, pos_stride)),
                t + i * outs * B, B);
#pragma GCC unroll 2
        for (int j = 0; j < p.end; j++) {
            line l = outs_1d(side, outs, read_line(side, t + j * B, (size_t)(outs * B)));
            l.x0 += add, l.x1 += add, l.x2 += add, l.x3 += add, l.x4 += add;
            write_column(outs, map->stream, l, rows, (size_t)(j * B));
        }
    }
    if (map->stream) store_fence();
}

static void tiles_in(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
    int padded_tiles, float *v, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F23)
        read_tiles(4, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride);
    else if (variant == LS_WINOGRAD_F33)
        read_tiles(5, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride);
    else if (variant == LS_WINOGRAD_F53)
        read_tiles(7, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride);
    else
        read_tiles(6, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride);
}

static void gradients_in(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
    int padded_tiles, float *z, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F23)
        read_tiles(4, 2, map, data, block, first, tiles, padded_tiles, z, pos_stride);
    else if (variant == LS_WINOGRAD_F33)
        read_tiles(5, 3, map, data, block, first, tiles, padded_tiles, z, pos_stride);
    else if (variant == LS_WINOGRAD_F53)
        read_tiles(7, 5, map, data, block, first, tiles, padded_tiles, z, pos_stride);
    else if (variant == LS_WINOGRAD_F25)
        read_tiles(6, 2, map, data, block, first, tiles, padded_tiles, z, pos_stride);
    else
        read_tiles(6, 4, map, data, block, first, tiles, padded_tiles, z, pos_stride);
}

static void tiles_out(int variant, const ls_winograd_map *map, float *data, int block, int first, int tiles,
    const float *m, size_t pos_stride, const float *bias) {
    if (variant == LS_WINOGRAD_F23)
        write_tiles(4, 2, map, data, block, first, tiles, m, pos_stride, bias);
    else if (variant == LS_WINOGRAD_F33)
        write_tiles(5, 3, map, data, block, first, tiles, m, pos_stride, bias);
    else if (variant == LS_WINOGRAD_F53)
        write_tiles(7, 5, map, data, block, first, tiles, m, pos_stride, bias);
    else if (variant == LS_WINOGRAD_F25)
        write_tiles(6, 2, map, data, block, first, tiles, m, pos_stride, bias);
    else
        write_tiles(6, 4, map, data, block, first, tiles, m, pos_stride, bias);
}

// --- filters -------------------------------------------------------------------------------------

// B x B floats: from[i][o] -> to[o][i]
INLINE void transpose(const float *from, float *to, size_t to_row) {
    for (int i = 0; i < B; i++)
        for (int o = 0; o < B; o++) to[(size_t)o * to_row + (size_t)i] = from[i * B + o];
}

// One filter of vectors: taps B*B floats apart -> positions.
INLINE void filter_2d(int side, int taps, const float *filter, float *u, size_t pos_stride) {
    const float *rows[SIDE_MAX];
    for (int i = 0; i < taps; i++) rows[i] = filter + i * taps * B * B;
    transform_2d(side, taps, rows, B * B, 0, taps, u, pos_stride);
}

// Forward: weight[o block][i block][r][s][i][o] is a filter of vectors over o for each i.
// Backward: the block transposed and the taps in reverse order, so that again the vector runs over the outputs
// of the product (i) for each of its inputs (o).
INLINE void read_filters(int side, int taps, int backward, const float *weight, int in_blocks, int out_blocks,
    int panel, float *u, size_t pos_stride) {
    enum { TAPS_MAX = 25 };
    const int reduced_blocks = backward ? out_blocks : in_blocks, panel_blocks = backward ? in_blocks : out_blocks;
    const int first = panel * LS_WINOGRAD_PANEL, width = at_most(panel_blocks - first, LS_WINOGRAD_PANEL);
    const size_t block_floats = (size_t)(taps * taps * B * B);
    float turned[TAPS_MAX * B * B] __attribute__((aligned(64)));
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
                filter_2d(side, taps, block + c * B, u + (size_t)((k * B + c) * width + j) * B, pos_stride);
            }
        }
    }
}

static void filters_in(int variant, int backward, const float *weight, int in_blocks, int out_blocks, int panel,
    float *u, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F23)
        read_filters(4, 3, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
    else if (variant == LS_WINOGRAD_F33)
        read_filters(5, 3, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
    else if (variant == LS_WINOGRAD_F53)
        read_filters(7, 3, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
    else if (variant == LS_WINOGRAD_F25)
        read_filters(6, 5, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
    else
        read_filters(6, 3, backward, weight, in_blocks, out_blocks, panel, u, pos_stride);
}

INLINE void write_filters(int side, int outs, const float *sums, size_t pos_stride, int parts, size_t part_stride,
    int in_blocks, int out_blocks, int block, float *grad_weight) {
    const int panel = block / LS_WINOGRAD_SUM_PANEL, first = panel * LS_WINOGRAD_SUM_PANEL;
    const int width = at_most(out_blocks - first, LS_WINOGRAD_SUM_PANEL);
    for (int i = 0; i < in_blocks; i++) {
        float *to = grad_weight + ((size_t)block * (size_t)in_blocks + (size_t)i) * (size_t)(outs * outs * B * B);
        for (int c = 0; c < B; c++) {
            float total[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
            float t[SIDE_MAX * SIDE_MAX * B] __attribute__((aligned(64)));
            const float *from = sums + (size_t)((i * B + c) * width + block - first) * B;
            for (int p = 0; p < side * side; p++) {
                vf sum = load(from + (size_t)p * pos_stride);
                for (int part = 1; part < parts; part++)
                    sum += load(from + (size_t)p * pos_stride + (size_t)part * part_stride);
                store(total + p * B, sum);
            }
            for (int r = 0; r < side; r++)
                write_line(outs, outs_1d(side, outs, read_line(side, total + r * side * B, B)), t + r * outs * B, B);
            for (int j = 0; j < outs; j++)
                add_line(outs, outs_1d(side, outs, read_line(side, t + j * B, (size_t)(outs * B))),
                    to + (j * B + c) * B, (size_t)(outs * B * B));
        }
    }
}

static void filters_out(int variant, const float *sums, size_t pos_stride, int parts, size_t part_stride, int in_blocks,
    int out_blocks, int block, float *grad_weight) {
    if (variant == LS_WINOGRAD_F23)
        write_filters(4, 3, sums, pos_stride, parts, part_stride, in_blocks, out_blocks, block, grad_weight);
    else if (variant == LS_WINOGRAD_F33)
        write_filters(5, 3, sums, pos_stride, parts, part_stride, in_blocks, out_blocks, block, grad_weight);
    else if (variant == LS_WINOGRAD_F53)
        write_filters(7, 3, sums, pos_stride, parts, part_stride, in_blocks, out_blocks, block, grad_weight);
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
