// winograd.c (kernels) - the transforms of Winograd convolution, B channels at a time,
// no shuffles but in the backward filter.
//
// An even number of positions has the points 0, infinity and the pairs +-p of the table below; 7 have 0, +-1, +-7/4, 3/8, infinity, and 5
// have 0, +-3/2, 1/2, infinity; one position is the value itself. For a pair +-p the even and odd powers are summed apart, so that
// a pair costs little more than a point. Each 2-D transform is one pass over columns and one over rows.
#include "device/cpu/kernels/winograd.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/winograd_gemm.h"
#include <stdint.h>
#include <string.h>

enum {
    SIDE_MAX = 10,
    POSITIONS_MAX = 49,                                        // of both directions
    REACH_MAX = (SIDE_MAX - 1) * LS_WINOGRAD_DILATION_MAX + 1, // pixels that a tile spans
};

// The pairs of an even number of positions, from 1 on, by position: the least errors of 10 values' combinations. (4 by 3 taps has
// an error of 3.5e-7 in one direction, 4 by 5 7e-7, 4 by 7 1.8e-6.)
static const float points[SIDE_MAX + 1][SIDE_MAX / 2] = {
    [4] = { 0, 1 },
    [6] = { 0, 0.625f, 1.5f },
    [8] = { 0, 0.5f, 1, 2 },
    [10] = { 0, 0.375f, 0.75f, 1.25f, 2 },
};
// Of 5 positions: the pair +-PB, and PC by itself.
#define PB 1.5f
#define BB (PB * PB)
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
// Members, not an array: they stay in registers. `count` and `i` are always constants.

typedef struct {
    vf x0, x1, x2, x3, x4, x5, x6, x7, x8, x9;
} line;
#define EACH_MEMBER(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define EACH_OUT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) // no direction has more of them

INLINE vf at(line l, int i) {
    vf member = { 0 };
#define MEMBER(j) \
    if (i == j) member = l.x##j;
    EACH_MEMBER(MEMBER)
#undef MEMBER
    return member;
}

INLINE line read_line(int count, const float *x, size_t stride) {
    line l = { .x0 = { 0 } };
#define MEMBER(j) \
    if (j < count) l.x##j = load(x + j * stride);
    EACH_MEMBER(MEMBER)
#undef MEMBER
    return l;
}

INLINE line read_column(int count, const float *const *rows, size_t at_column) {
    line l = { .x0 = { 0 } };
#define MEMBER(j) \
    if (j < count) l.x##j = load(rows[j] + at_column);
    EACH_MEMBER(MEMBER)
#undef MEMBER
    return l;
}

// Columns [begin,end) of a row; the others are zero.
INLINE line read_row(int count, const float *row, size_t column, int begin, int end) {
    line l = { .x0 = { 0 } };
#define MEMBER(j) \
    if (j < count && j >= begin && j < end) l.x##j = load(row + (size_t)(j - begin) * column);
    EACH_MEMBER(MEMBER)
#undef MEMBER
    return l;
}

INLINE void write_line(int count, line l, float *y, size_t stride) {
#define MEMBER(j) \
    if (j < count) store(y + j * stride, l.x##j);
    EACH_MEMBER(MEMBER)
#undef MEMBER
}

INLINE void write_pixel(int stream, float *to, vf v) {
    if (stream)
        store_around(to, v);
    else
        store(to, v);
}

INLINE void write_column(int count, int stream, line l, vf add, float *const *rows, size_t at_column) {
#define MEMBER(j) \
    if (j < count) write_pixel(stream, rows[j] + at_column, l.x##j + add);
    EACH_OUT(MEMBER)
#undef MEMBER
}

// --- one-dimensional transforms; `side`, `taps`, `outs` and `pair` are constants -----------------

// Two positions of a line: those of a pair of points +-p, or, as pair 0, of the points 0 and infinity. Of an odd number of positions
// the last pair is one point: `plus`.
typedef struct {
    vf plus, minus;
} two;

INLINE two even_odd(vf even, vf odd) {
    return (two){ even + odd, even - odd };
}

INLINE float square(int side, int pair) {
    return points[side][pair] * points[side][pair];
}

// The square of pair q, or 0 where there is none or it is left out.
INLINE float other_square(int side, int without, int q) {
    return q == without || q >= side / 2 ? 0 : square(side, q);
}

// The polynomial with all pairs but `without` (0: with all) as zeros, its coefficients times every other value of a line from
// `first` on.
INLINE vf with_zeros(int side, int without, int first, line l) {
    const int degree = side / 2 - 1 - (without > 0), top = first + 2 * degree;
    const float a = other_square(side, without, 1), b = other_square(side, without, 2);
    const float c = other_square(side, without, 3), d = other_square(side, without, 4);
    vf sum = at(l, top);
    if (degree > 0) sum -= (a + b + c + d) * at(l, top - 2);
    if (degree > 1) sum += (a * b + (a + b) * (c + d) + c * d) * at(l, top - 4);
    if (degree > 2) sum -= (a * b * (c + d) + (a + b) * c * d) * at(l, top - 6);
    if (degree > 3) sum += (a * b * c * d) * at(l, top - 8);
    return sum;
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
    if (side == 1) return (two){ l.x0, l.x0 };
    if (side == 5) {
        const vf a = l.x2 - PC * l.x1, b = l.x3 - PC * l.x2; // times x - PC
        if (pair == 0) return (two){ b - BB * (l.x1 - PC * l.x0), l.x4 - PC * l.x3 - BB * a };
        return pair == 1 ? even_odd(b, PB * a) : (two){ l.x3 - BB * l.x1, l.x3 };
    }
    if (side == 7) return data_pair_7(pair, l);
    if (pair == 0) return (two){ with_zeros(side, 0, 0, l), with_zeros(side, 0, 1, l) };
    return even_odd(with_zeros(side, pair, 2, l), points[side][pair] * with_zeros(side, pair, 1, l));
}

// The even and the odd part of G's rows for a pair of points +-p, scaled by n.
INLINE vf taps_even(int taps, float p, float n, line l) {
    vf sum = n * l.x0;
    if (taps > 2) sum += (n * power(p, 2)) * l.x2;
    if (taps > 4) sum += (n * power(p, 4)) * l.x4;
    if (taps > 6) sum += (n * power(p, 6)) * l.x6;
    return sum;
}

INLINE vf taps_odd(int taps, float p, float n, line l) {
    vf sum = (n * p) * l.x1;
    if (taps > 3) sum += (n * power(p, 3)) * l.x3;
    if (taps > 5) sum += (n * power(p, 5)) * l.x5;
    return sum;
}

// A filter at +-p, each over the products of differences: n is what both have of them, p - f and p + f the rest.
INLINE two taps_beside(int taps, float p, float f, float n, line l) {
    const vf even = taps_even(taps, p, n, l), odd = taps_odd(taps, p, n, l);
    return (two){ (1 / (p - f)) * (even + odd), (-1 / (p + f)) * (even - odd) };
}

INLINE two taps_pair_7(int taps, int pair, line l) {
    if (pair == 0) return (two){ (-1 / (EE * PF)) * l.x0, at(l, taps - 1) };
    if (pair == 1) return taps_beside(taps, 1, PF, 1 / (2 * (1 - EE)), l);
    if (pair == 2) return taps_beside(taps, PE, PF, 1 / (2 * EE * (EE - 1)), l);
    const float n = 1 / (PF * (FF - 1) * (FF - EE));
    const vf at_f = taps_even(taps, PF, n, l) + taps_odd(taps, PF, n, l);
    return (two){ at_f, at_f };
}

// The product of a pair's differences to all other points but infinity: of its square s to the other squares, times 2 s. Pair 0 is the
// point 0, of which s is 0.
INLINE float difference(float s, int side, int pair, int q) {
    return q == pair || q >= side / 2 ? 1 : s - square(side, q);
}

INLINE float differences(int side, int pair) {
    const float s = square(side, pair);
    return (pair == 0 ? 1 : 2 * s) * difference(s, side, pair, 1) * difference(s, side, pair, 2) *
           difference(s, side, pair, 3) * difference(s, side, pair, 4);
}

// G: `taps` values -> `side` positions.
INLINE two taps_pair(int side, int taps, int pair, line l) {
    if (side == 1) return (two){ l.x0, l.x0 };
    if (side == 7) return taps_pair_7(taps, pair, l);
    if (side == 5) {
        if (pair == 0) return (two){ (1 / (BB * PC)) * l.x0, l.x2 };
        if (pair == 1) return taps_beside(taps, PB, PC, 1 / (2 * BB), l);
        const vf at_c = (1 / (PC * (CC - BB))) * (l.x0 + PC * l.x1 + CC * l.x2);
        return (two){ at_c, at_c };
    }
    const float p = points[side][pair], n = 1 / differences(side, pair);
    if (pair == 0) return (two){ n * l.x0, at(l, taps - 1) };
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
#pragma GCC unroll 5
    for (int pair = 0; pair < (side + 1) / 2; pair++) {
        const two to = transform_pair(side, taps, pair, l);
        store(y + (size_t)plus_at(pair) * stride, to.plus);
        if (!is_single(side, pair)) store(y + (size_t)minus_at(side, pair) * stride, to.minus);
    }
}

// One row of A^T: sums of the even or odd parts of pairs, weighted by the points' powers; 0 adds to the first, infinity to the last.
INLINE vf outs_row(int side, int outs, int row, line l) {
    vf sum = { 0 };
    if (row == 0) sum = l.x0;
    if (row == outs - 1) sum = at(l, side - 1);
#define PAIR(p) \
    if (p < side / 2) { \
        const vf plus = at(l, 2 * p - 1), minus = at(l, 2 * p); \
        sum += power(points[side][p], row) * (row % 2 ? plus - minus : plus + minus); \
    }
    PAIR(1)
    PAIR(2)
    PAIR(3)
    PAIR(4)
#undef PAIR
    return sum;
}

// A^T: `side` positions -> `outs` values.
INLINE line outs_1d(int side, int outs, line l) {
    if (side == 1) return l;
    if (side == 5) {
        const vf even = l.x1 + l.x2, odd = l.x1 - l.x2;
        return (line){ .x0 = l.x0 + even + l.x3, .x1 = PB * odd + PC * l.x3, .x2 = BB * even + CC * l.x3 + l.x4 };
    }
    if (side == 7) {
        const vf none = { 0 };
        const vf even = l.x1 + l.x2, odd = l.x1 - l.x2, even_e = l.x3 + l.x4, odd_e = l.x3 - l.x4;
        return (line){ .x0 = l.x0 + even + even_e + l.x5,
            .x1 = odd + PE * odd_e + PF * l.x5,
            .x2 = even + EE * even_e + FF * l.x5 + (outs == 3 ? l.x6 : none),
            .x3 = odd + PE * EE * odd_e + PF * FF * l.x5,
            .x4 = even + EE * EE * even_e + FF * FF * l.x5 + (outs == 5 ? l.x6 : none) };
    }
#define ROW(j) .x##j = outs_row(side, outs, j, l),
    return (line){ EACH_OUT(ROW) };
#undef ROW
}

// --- two-dimensional transforms ------------------------------------------------------------------

// A tile or filter (taps_y, taps_x > 0) -> its positions, pos_stride apart. rows[i] is row i from column `begin` on, columns are
// `column` floats apart; those outside of [begin,end) are zero.
#if LS_VL == 16
// The two rows that a pair makes of the columns stay in registers; the columns are read once for each pair. On AVX2,
// which has half the registers, this costs up to a quarter more.
INLINE void transform_rows_and_columns(int side_y, int side_x, int taps_y, int taps_x, const float *const *rows,
    size_t column, int begin, int end, float *v, size_t pos_stride) {
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x;
#pragma GCC unroll 5
    for (int pair = 0; pair < (side_y + 1) / 2; pair++) {
        line plus = { .x0 = { 0 } }, minus = { .x0 = { 0 } };
#define COLUMN(j) \
    if (j < size_x && j >= begin && j < end) { \
        const two to = transform_pair(side_y, taps_y, pair, read_column(size_y, rows, (size_t)(j - begin) * column)); \
        plus.x##j = to.plus, minus.x##j = to.minus; \
    }
        EACH_MEMBER(COLUMN)
#undef COLUMN
        transform_line(side_x, taps_x, plus, v + (size_t)(plus_at(pair) * side_x) * pos_stride, pos_stride);
        if (!is_single(side_y, pair))
            transform_line(
                side_x, taps_x, minus, v + (size_t)(minus_at(side_y, pair) * side_x) * pos_stride, pos_stride);
    }
}
#else
INLINE void transform_rows_and_columns(int side_y, int side_x, int taps_y, int taps_x, const float *const *rows,
    size_t column, int begin, int end, float *v, size_t pos_stride) {
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x;
    float t[POSITIONS_MAX * B] __attribute__((aligned(64)));
    if (end - begin < size_x) memset(t, 0, (size_t)(side_y * size_x * B) * sizeof *t);
#pragma GCC unroll 2
    for (int j = begin; j < end; j++)
        transform_line(
            side_y, taps_y, read_column(size_y, rows, (size_t)(j - begin) * column), t + j * B, (size_t)(size_x * B));
#pragma GCC unroll 2
    for (int i = 0; i < side_y; i++)
        transform_line(side_x, taps_x, read_line(size_x, t + i * size_x * B, B), v + (size_t)(i * side_x) * pos_stride,
            pos_stride);
}
#endif

INLINE void transform_2d(int side_y, int side_x, int taps_y, int taps_x, const float *const *rows, size_t column,
    int begin, int end, float *v, size_t pos_stride) {
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x;
    if (side_x == 1)
        transform_line(side_y, taps_y, read_column(size_y, rows, 0), v, pos_stride);
    else if (side_y == 1)
        transform_line(side_x, taps_x, read_row(size_x, rows[0], column, begin, end), v, pos_stride);
    else
        transform_rows_and_columns(side_y, side_x, taps_y, taps_x, rows, column, begin, end, v, pos_stride);
}

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

// Where tile `tile` of a direction begins: the first tiles of all phases come first.
INLINE int origin(int tile, int step, int pad, int phases) {
    return (phases == 1 ? tile * step : tile / phases * (phases * step) + tile % phases) - pad;
}

// The pixels, so far apart, with which a distance is covered.
INLINE int pixels_over(int distance, int apart) {
    return apart == 1 ? distance : (distance + apart - 1) / apart;
}

// Columns [begin,end) of a tile lie inside of the map; its first element would be at row top, column left of the plane.
typedef struct {
    const float *plane;
    int top, left, begin, end;
} tile_part;

INLINE tile_part tile_inside(const ls_winograd_map *map, const float *data, int block, tile_at at, int size_x) {
    tile_part p = { .top = origin(at.y, map->step_y, map->pad_y, map->phases),
        .left = origin(at.x, map->step_x, map->pad_x, map->phases) };
    p.begin = at_least(pixels_over(-p.left, map->apart_x), 0);
    p.end = at_most(pixels_over(map->w - p.left, map->apart_x), size_x);
    p.plane = data + ((size_t)at.image * (size_t)map->image_blocks + (size_t)block) * (size_t)(map->h * map->w * B);
    return p;
}

// Prefetches what the tile below adds to this one: the hardware sees no pattern in rows as short as a tile. The address
// may lie outside of the map; a prefetch does not mind.
INLINE void prefetch_below(const ls_winograd_map *map, tile_part p, int size_y) {
    const ptrdiff_t element = (ptrdiff_t)((p.top + size_y * map->apart_y) * map->w + p.left) * B;
    const size_t row_bytes = (size_t)(map->apart_y * map->w * B) * sizeof(float);
    uintptr_t row = (uintptr_t)p.plane + (uintptr_t)(element * (ptrdiff_t)sizeof(float));
    for (int y = 0; y < map->step_y * map->phases; y += map->apart_y, row += row_bytes)
        for (uintptr_t at = row; at < row + (size_t)(map->step_x * map->phases * B) * sizeof(float); at += 64)
            __builtin_prefetch((const void *)at);
}

INLINE void read_tiles(int side_y, int side_x, int taps_y, int taps_x, const ls_winograd_map *map, const float *data,
    int block, int first, int tiles, int padded_tiles, float *v, size_t pos_stride) {
    static const float zeros[REACH_MAX * B] __attribute__((aligned(64)));
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x, apart = map->apart_x;
    tile_at at = tile_first(map, first);
    for (int n = 0; n < tiles; n++, v += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, data, block, at, size_x);
        prefetch_below(map, p, size_y);
        const float *rows[SIDE_MAX]; // of the tile, beginning at column p.begin
        for (int i = 0; i < size_y; i++) {
            const int y = p.top + i * map->apart_y;
            rows[i] = y < 0 || y >= map->h ? zeros : p.plane + (y * map->w + p.left + p.begin * apart) * B;
        }
        transform_2d(side_y, side_x, taps_y, taps_x, rows, (size_t)(apart * B), p.begin, p.end, v, pos_stride);
    }
    for (int n = tiles; n < padded_tiles; n++, v += B)
        for (int i = 0; i < side_y * side_x; i++) store(v + (size_t)i * pos_stride, (vf){ 0 });
}

INLINE void write_tiles(int side_y, int side_x, int outs_y, int outs_x, const ls_winograd_map *map, float *data,
    int block, int first, int tiles, const float *m, size_t pos_stride, const float *bias) {
    const vf add = bias ? load(bias) : (vf){ 0 };
    float rows_done[POSITIONS_MAX * B] __attribute__((aligned(64)));
    float outside[REACH_MAX * B] __attribute__((aligned(64))); // for rows below the map
    tile_at at = tile_first(map, first);
    for (int n = 0; n < tiles; n++, m += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, data, block, at, outs_x);
        float *rows[SIDE_MAX];
        for (int i = 0; i < outs_y; i++) {
            const int y = p.top + i * map->apart_y;
            rows[i] = y >= map->h ? outside : data + (p.plane - data) + (y * map->w + p.left) * B;
        }
#pragma GCC unroll 2
        for (int i = 0; side_x > 1 && i < side_y; i++)
            write_line(outs_x,
                outs_1d(side_x, outs_x, read_line(side_x, m + (size_t)(i * side_x) * pos_stride, pos_stride)),
                rows_done + i * outs_x * B, B);
        const float *t = side_x > 1 ? rows_done : m;
        const size_t t_stride = side_x > 1 ? (size_t)(outs_x * B) : pos_stride;
#pragma GCC unroll 2
        for (int j = 0; j < p.end; j++)
            write_column(outs_y, map->stream, outs_1d(side_y, outs_y, read_line(side_y, t + j * B, t_stride)), add,
                rows, (size_t)(j * map->apart_x * B));
    }
    if (map->stream) store_fence();
}

// --- F(1,1): a tile is a pixel, and pixels are copied row by row, not tile by tile ---------------

// The pixels that a tap meets, row by row; outside of the map they are zero.
static void taps_in(
    const ls_winograd_map *map, const float *data, int block, int first, int tiles, int padded_tiles, float *v) {
    const int step = map->step_x;
    const float *const end = v + (size_t)padded_tiles * B;
    tile_at at = tile_first(map, first);
    for (int n = 0, count; n < tiles; n += count) {
        count = at_most(map->tiles_x - at.x, tiles - n);
        const int y = at.y * map->step_y - map->pad_y, left = at.x * step - map->pad_x;
        const int begin = at_most(at_least((step - 1 - left) / step, 0), count); // [begin,inside): inside of the map
        const int inside = at_least(at_most((map->w - left + step - 1) / step, count), begin);
        const int in_row = y >= 0 && y < map->h;
        const float *from =
            in_row
                ? data + (((size_t)at.image * (size_t)map->image_blocks + (size_t)block) * (size_t)(map->h * map->w) +
                             (size_t)(y * map->w + left + begin * step)) *
                             B
                : NULL;
        for (int i = 0; i < count; i++, v += B) {
            const int is_inside = in_row && i >= begin && i < inside;
            store(v, is_inside ? load(from) : (vf){ 0 });
            if (is_inside) from += step * B;
        }
        at.x += count - 1;
        tile_next(map, &at);
    }
    for (; v < end; v += B) store(v, (vf){ 0 });
}

// Pixels of one channel block from number `first` of the batch on: how many of `most` lie side by side.
static int pixels_at(const ls_winograd_map *map, int block, int first, int most, size_t *at) {
    const int pixels = map->h * map->w, image = first / pixels, pixel = first % pixels;
    *at = (((size_t)image * (size_t)map->image_blocks + (size_t)block) * (size_t)pixels + (size_t)pixel) * B;
    return at_most(most, pixels - pixel);
}

static void pixels_in(
    const ls_winograd_map *map, const float *data, int block, int first, int tiles, int padded_tiles, float *z) {
    size_t at;
    for (int n = 0, count; n < tiles; n += count, z += (size_t)count * B) {
        count = pixels_at(map, block, first + n, tiles - n, &at);
        memcpy(z, data + at, (size_t)count * B * sizeof *z);
    }
    memset(z, 0, (size_t)(padded_tiles - tiles) * B * sizeof *z);
}

static void pixels_out(
    const ls_winograd_map *map, float *data, int block, int first, int tiles, const float *m, const float *bias) {
    const vf add = bias ? load(bias) : (vf){ 0 };
    size_t at;
    for (int n = 0, count; n < tiles; n += count) {
        count = pixels_at(map, block, first + n, tiles - n, &at);
        for (int i = 0; i < count; i++, m += B, at += B) write_pixel(map->stream, data + at, load(m) + add);
    }
    if (map->stream) store_fence();
}

// --- by variant ----------------------------------------------------------------------------------

static void tiles_in(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
    int padded_tiles, float *v, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F11) return taps_in(map, data, block, first, tiles, padded_tiles, v);
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        read_tiles(my + ry - 1, mx + rx - 1, 0, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

static void gradients_in(int variant, const ls_winograd_map *map, const float *data, int block, int first, int tiles,
    int padded_tiles, float *z, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F11) return pixels_in(map, data, block, first, tiles, padded_tiles, z);
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        read_tiles(my + ry - 1, mx + rx - 1, my, mx, map, data, block, first, tiles, padded_tiles, z, pos_stride); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

static void tiles_out(int variant, const ls_winograd_map *map, float *data, int block, int first, int tiles,
    const float *m, size_t pos_stride, const float *bias) {
    if (variant == LS_WINOGRAD_F11) return pixels_out(map, data, block, first, tiles, m, bias);
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        write_tiles(my + ry - 1, mx + rx - 1, my, mx, map, data, block, first, tiles, m, pos_stride, bias); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

// --- filters -------------------------------------------------------------------------------------

// B x B floats: from[i][o] -> to[o][i]
INLINE void transpose(const float *from, float *to, size_t to_row) {
    for (int i = 0; i < B; i++)
        for (int o = 0; o < B; o++) to[(size_t)o * to_row + (size_t)i] = from[i * B + o];
}

// One filter of vectors, its taps `column` floats apart, its rows `row` -> positions. Of the taps those of rows x columns are there.
INLINE void filter_2d(int side_y, int side_x, int taps_y, int taps_x, int rows, int columns, const float *filter,
    size_t row, size_t column, float *u, size_t pos_stride) {
    static const float zeros[SIDE_MAX * LS_WINOGRAD_STRIDE_MAX * B * B] __attribute__((aligned(64)));
    const float *at_row[SIDE_MAX];
    for (int i = 0; i < taps_y; i++) at_row[i] = i < rows ? filter + (size_t)i * row : zeros;
    transform_2d(side_y, side_x, taps_y, taps_x, at_row, column, 0, columns, u, pos_stride);
}

// In one direction the taps of a piece that are there, those that lead among them.
INLINE int taps_there(int all, int first, int step, int lead, int most) {
    return at_most(lead + at_least(pixels_over(all - first, step), 0), most);
}

// The piece of a block's filters, each rotated and with inputs and outputs exchanged: taps taps_x in a row.
INLINE void turn_filters(int taps_x, ls_winograd_taps of, int rows, int columns, const float *block, float *turned) {
    for (int i = of.lead_y; i < rows; i++)
        for (int j = of.lead_x; j < columns; j++) {
            const int y = of.y + (i - of.lead_y) * of.step_y, x = of.x + (j - of.lead_x) * of.step_x;
            transpose(block + ((of.h - 1 - y) * of.w + of.w - 1 - x) * B * B, turned + (i * taps_x + j) * B * B, B);
        }
}

// Forward: weight[o block][i block][r][s][i][o] is a filter of vectors over o for each i.
// Backward: the block transposed and the taps in reverse order, so that again the vector runs over the outputs
// of the product (i) for each of its inputs (o).
INLINE void read_filters(int side_y, int side_x, int taps_y, int taps_x, int backward, ls_winograd_taps of,
    const float *weight, int in_blocks, int out_blocks, int half, int panel, float *u, size_t pos_stride) {
    enum { TAPS_MAX = 25 };
    const int reduced_blocks = backward ? out_blocks : in_blocks, panel_blocks = backward ? in_blocks : out_blocks;
    const int first = panel * LS_WINOGRAD_PANEL, width = at_most(panel_blocks - first, LS_WINOGRAD_PANEL);
    const int rows = taps_there(of.h, of.y, of.step_y, of.lead_y, taps_y);
    const int columns = taps_there(of.w, of.x, of.step_x, of.lead_x, taps_x);
    const int row = backward ? taps_x : of.w * of.step_y,
              column = backward ? 1 : of.step_x; // of the taps that are read
    float turned[TAPS_MAX * B * B] __attribute__((aligned(64)));
    if (of.lead_y + of.lead_x > 0) memset(turned, 0, (size_t)(taps_y * taps_x * B * B) * sizeof *turned);
    for (int k = 0; k < reduced_blocks; k++) {
        const int channels = half && k + 1 == reduced_blocks ? B / 2 : B;
        for (int j = 0; j < width; j++) {
            const int o = backward ? k : first + j, i = backward ? first + j : k;
            const float *block = weight + ((size_t)o * (size_t)in_blocks + (size_t)i) * (size_t)(of.h * of.w * B * B);
            const float *piece = backward ? turned : block + (of.y * of.w + of.x) * B * B;
            if (backward) turn_filters(taps_x, of, rows, columns, block, turned);
            for (int c = 0; c < channels; c++)
                filter_2d(side_y, side_x, taps_y, taps_x, rows, columns, piece + c * B, (size_t)(row * B * B),
                    (size_t)(column * B * B), u + (size_t)((k * B + c) * width + j) * B, pos_stride);
        }
    }
}

static void filters_in(int variant, int backward, ls_winograd_taps taps, const float *weight, int in_blocks,
    int out_blocks, int half, int panel, float *u, size_t pos_stride) {
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        read_filters(my + ry - 1, mx + rx - 1, ry, rx, backward, taps, weight, in_blocks, out_blocks, half, panel, u, \
            pos_stride); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

// to[j * stride] += member j of the line, of the first `count`; `most` is a constant.
INLINE void add_line(int most, int count, line l, float *to, size_t stride) {
#define MEMBER(j) \
    if (j < most && j < count) store(to + j * stride, load(to + j * stride) + l.x##j);
    EACH_OUT(MEMBER)
#undef MEMBER
}

INLINE void write_filters(int side_y, int side_x, int outs_y, int outs_x, ls_winograd_taps of, const float *sums,
    size_t pos_stride, int parts, size_t part_stride, int in_blocks, int out_blocks, int half, int block,
    float *grad_weight) {
    const int panel = block / LS_WINOGRAD_SUM_PANEL, first = panel * LS_WINOGRAD_SUM_PANEL;
    const int width = at_most(out_blocks - first, LS_WINOGRAD_SUM_PANEL);
    const int rows = taps_there(of.h, of.y, of.step_y, 0, outs_y),
              columns = taps_there(of.w, of.x, of.step_x, 0, outs_x);
    for (int i = 0; i < in_blocks; i++) {
        float *to = grad_weight + ((size_t)block * (size_t)in_blocks + (size_t)i) * (size_t)(of.h * of.w * B * B) +
                    (of.y * of.w + of.x) * B * B;
        const int channels = half && i + 1 == in_blocks ? B / 2 : B;
        for (int c = 0; c < channels; c++) {
            float total[POSITIONS_MAX * B] __attribute__((aligned(64)));
            float t[POSITIONS_MAX * B] __attribute__((aligned(64)));
            const float *from = sums + (size_t)((i * B + c) * width + block - first) * B;
            for (int p = 0; p < side_y * side_x; p++) {
                vf sum = load(from + (size_t)p * pos_stride);
                for (int part = 1; part < parts; part++)
                    sum += load(from + (size_t)p * pos_stride + (size_t)part * part_stride);
                store(total + p * B, sum);
            }
            for (int r = 0; r < side_y; r++)
                write_line(outs_x, outs_1d(side_x, outs_x, read_line(side_x, total + r * side_x * B, B)),
                    t + r * outs_x * B, B);
            for (int j = 0; j < columns; j++)
                add_line(outs_y, rows, outs_1d(side_y, outs_y, read_line(side_y, t + j * B, (size_t)(outs_x * B))),
                    to + (j * of.step_x * B + c) * B, (size_t)(of.w * of.step_y * B * B));
        }
    }
}

static void filters_out(int variant, ls_winograd_taps taps, const float *sums, size_t pos_stride, int parts,
    size_t part_stride, int in_blocks, int out_blocks, int half, int block, float *grad_weight) {
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        write_filters(my + ry - 1, mx + rx - 1, ry, rx, taps, sums, pos_stride, parts, part_stride, in_blocks, \
            out_blocks, half, block, grad_weight); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
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
