// winograd_transforms.h - the transforms of Winograd convolution, B channels at a time, without shuffles.
//
// Transforms with an even number of positions use the points 0, infinity and the pairs +-p in the table below. 7
// positions use 0, +-1, +-7/4, 3/8, infinity. 5 positions use 0, +-3/2, 1/2, infinity. With one position, the transform
// is the value itself. For a pair +-p the even and odd powers are summed separately, so that a pair costs little more
// than a single point. Each 2-D transform is one pass over columns and one over rows.
#ifndef LS_DEVICE_CPU_KERNELS_WINOGRAD_TRANSFORMS_H
#define LS_DEVICE_CPU_KERNELS_WINOGRAD_TRANSFORMS_H

#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/winograd.h"
#include "device/cpu/kernels/winograd_gemm.h"

INLINE int at_least(int value, int bound) {
    return value > bound ? value : bound;
}

INLINE int at_most(int value, int bound) {
    return value < bound ? value : bound;
}

// Number of pixels, `apart` from each other, that cover a distance.
INLINE int pixels_over(int distance, int apart) {
    return apart == 1 ? distance : (distance + apart - 1) / apart;
}

enum {
    SIDE_MAX = 10,
    POSITIONS_MAX = 49, // of a tile, both directions together
};

// The pairs for even numbers of positions, from index 1 on. They have the smallest errors of all combinations of 10
// values. (Errors in one direction: 4 outputs by 3 taps 3.5e-7, 4 by 5 7e-7, 4 by 7 1.8e-6.)
static const float points[SIDE_MAX + 1][SIDE_MAX / 2] = {
    [4] = { 0, 1 },
    [6] = { 0, 0.625f, 1.5f },
    [8] = { 0, 0.5f, 1, 2 },
    [10] = { 0, 0.375f, 0.75f, 1.25f, 2 },
};
// Points of transforms with 5 positions, besides 0 and infinity: the pair +-PB and the single point PC.
#define PB 1.5f
#define BB (PB * PB)
#define PC 0.5f
#define CC (PC * PC)
// Points of transforms with 7 positions, besides 0 and infinity: the pairs +-1 and +-PE and the single point PF.
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
// Members instead of an array, so that they stay in registers. `count` and `i` are always constants.

typedef struct {
    vf x0, x1, x2, x3, x4, x5, x6, x7, x8, x9;
} line;
#define EACH_MEMBER(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define EACH_OUT(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) // no direction has more outputs

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

// Reads a value of a map (in its storage type) or of a filter. `of_map` is a constant.
INLINE vf value_at(int of_map, const void *row, size_t place) {
    if (of_map) return load((const stored *)row + place);
    return load((const float *)row + place);
}

INLINE line read_column(int of_map, int count, const void *const *rows, size_t at_column) {
    line l = { .x0 = { 0 } };
#define MEMBER(j) \
    if (j < count) l.x##j = value_at(of_map, rows[j], at_column);
    EACH_MEMBER(MEMBER)
#undef MEMBER
    return l;
}

// Columns [begin,end) of a row; the other columns read as zero.
INLINE line read_row(int of_map, int count, const void *row, size_t column, int begin, int end) {
    line l = { .x0 = { 0 } };
#define MEMBER(j) \
    if (j < count && j >= begin && j < end) l.x##j = value_at(of_map, row, (size_t)(j - begin) * column);
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

// --- one-dimensional transforms; `side`, `taps`, `outs` and `pair` are constants -----------------

// Two positions of a line: those of a pair of points +-p, or for pair 0 those of the points 0 and infinity. With an odd
// number of positions the last pair has only one point, `plus`.
typedef struct {
    vf plus, minus;
} two;

INLINE two even_odd(vf even, vf odd) {
    return (two){ even + odd, even - odd };
}

INLINE float square(int side, int pair) {
    return points[side][pair] * points[side][pair];
}

// The square of pair q, or 0 if the pair does not exist or is left out.
INLINE float other_square(int side, int without, int q) {
    return q == without || q >= side / 2 ? 0 : square(side, q);
}

// The polynomial whose zeros are all pairs except `without` (0: all pairs). Its coefficients are multiplied by every
// other value of the line, starting with `first`.
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

// 7 positions: s is the line times x - PF. Pair 1 is computed from s times x*x - EE, pair 2 from s times x*x - 1.
INLINE two data_pair_7(int pair, line l) {
    if (pair == 3) return (two){ l.x5 - (1 + EE) * l.x3 + EE * l.x1, l.x5 };
    const vf s1 = l.x2 - PF * l.x1, s2 = l.x3 - PF * l.x2, s3 = l.x4 - PF * l.x3, s4 = l.x5 - PF * l.x4;
    if (pair == 1) return even_odd(s4 - EE * s2, s3 - EE * s1);
    if (pair == 2) return even_odd(s4 - s2, PE * (s3 - s1));
    const vf s0 = l.x1 - PF * l.x0, s5 = l.x6 - PF * l.x5;
    return (two){ s4 - (1 + EE) * s2 + EE * s0, s5 - (1 + EE) * s3 + EE * s1 };
}

// B^T: transforms `side` values to `side` positions.
INLINE two data_pair(int side, int pair, line l) {
    if (side == 1) return (two){ l.x0, l.x0 };
    if (side == 5) {
        const vf a = l.x2 - PC * l.x1, b = l.x3 - PC * l.x2; // a, b: the line times x - PC
        if (pair == 0) return (two){ b - BB * (l.x1 - PC * l.x0), l.x4 - PC * l.x3 - BB * a };
        return pair == 1 ? even_odd(b, PB * a) : (two){ l.x3 - BB * l.x1, l.x3 };
    }
    if (side == 7) return data_pair_7(pair, l);
    if (pair == 0) return (two){ with_zeros(side, 0, 0, l), with_zeros(side, 0, 1, l) };
    return even_odd(with_zeros(side, pair, 2, l), points[side][pair] * with_zeros(side, pair, 1, l));
}

// The even and odd parts of G's rows for a pair of points +-p, scaled by n.
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

// A filter at the points +-p, each divided by the product of its differences to the other points. n: the factor common
// to both points; p - f and p + f are the remaining differences.
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

// The product of a pair's differences to all other points except infinity: the differences of its square s to the other
// squares, times 2 s. Pair 0 is the point 0, with s = 0.
INLINE float difference(float s, int side, int pair, int q) {
    return q == pair || q >= side / 2 ? 1 : s - square(side, q);
}

INLINE float differences(int side, int pair) {
    const float s = square(side, pair);
    return (pair == 0 ? 1 : 2 * s) * difference(s, side, pair, 1) * difference(s, side, pair, 2) *
           difference(s, side, pair, 3) * difference(s, side, pair, 4);
}

// G: transforms `taps` values to `side` positions.
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

INLINE two transform_pair(int side, int taps, int pair, line l) { // taps > 0: a filter; else data
    return taps > 0 ? taps_pair(side, taps, pair, l) : data_pair(side, pair, l);
}

// Index of a pair's positions in a line.
INLINE int plus_at(int pair) {
    return pair == 0 ? 0 : 2 * pair - 1;
}

INLINE int minus_at(int side, int pair) {
    return pair == 0 ? side - 1 : 2 * pair;
}

INLINE int is_single(int side, int pair) {
    return side % 2 && pair == side / 2;
}

// Writes the positions of a line, `stride` floats apart.
INLINE void transform_line(int side, int taps, line l, float *y, size_t stride) {
#pragma GCC unroll 5
    for (int pair = 0; pair < (side + 1) / 2; pair++) {
        const two to = transform_pair(side, taps, pair, l);
        store(y + (size_t)plus_at(pair) * stride, to.plus);
        if (!is_single(side, pair)) store(y + (size_t)minus_at(side, pair) * stride, to.minus);
    }
}

// One row of A^T: sums of the even or odd parts of pairs, weighted by powers of the points. The point 0 adds to the
// first row, infinity to the last.
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

// A^T: transforms `side` positions to `outs` values.
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

// Transforms a tile, or a filter (taps_y, taps_x > 0), to its positions, pos_stride apart. rows[i] is row i from column
// `begin` on. Columns are `column` elements apart; columns outside [begin,end) are zero.
#if LS_VL == 16
// The two rows that a pair makes from the columns stay in registers, and the columns are read again for each pair. AVX2
// has half as many registers; there this method takes up to a quarter longer.
INLINE void transform_rows_and_columns(int of_map, int side_y, int side_x, int taps_y, int taps_x,
    const void *const *rows, size_t column, int begin, int end, float *v, size_t pos_stride) {
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x;
#pragma GCC unroll 5
    for (int pair = 0; pair < (side_y + 1) / 2; pair++) {
        line plus = { .x0 = { 0 } }, minus = { .x0 = { 0 } };
#define COLUMN(j) \
    if (j < size_x && j >= begin && j < end) { \
        const two to = \
            transform_pair(side_y, taps_y, pair, read_column(of_map, size_y, rows, (size_t)(j - begin) * column)); \
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
INLINE void transform_rows_and_columns(int of_map, int side_y, int side_x, int taps_y, int taps_x,
    const void *const *rows, size_t column, int begin, int end, float *v, size_t pos_stride) {
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x;
    float t[POSITIONS_MAX * B] __attribute__((aligned(64)));
    if (end - begin < size_x) memset(t, 0, (size_t)(side_y * size_x * B) * sizeof *t);
#pragma GCC unroll 2
    for (int j = begin; j < end; j++)
        transform_line(side_y, taps_y, read_column(of_map, size_y, rows, (size_t)(j - begin) * column), t + j * B,
            (size_t)(size_x * B));
#pragma GCC unroll 2
    for (int i = 0; i < side_y; i++)
        transform_line(side_x, taps_x, read_line(size_x, t + i * size_x * B, B), v + (size_t)(i * side_x) * pos_stride,
            pos_stride);
}
#endif

INLINE void transform_2d(int of_map, int side_y, int side_x, int taps_y, int taps_x, const void *const *rows,
    size_t column, int begin, int end, float *v, size_t pos_stride) {
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x;
    if (side_x == 1)
        transform_line(side_y, taps_y, read_column(of_map, size_y, rows, 0), v, pos_stride);
    else if (side_y == 1)
        transform_line(side_x, taps_x, read_row(of_map, size_x, rows[0], column, begin, end), v, pos_stride);
    else
        transform_rows_and_columns(of_map, side_y, side_x, taps_y, taps_x, rows, column, begin, end, v, pos_stride);
}

#endif
