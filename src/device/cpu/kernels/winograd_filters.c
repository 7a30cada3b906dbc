// winograd_filters.c - transforms of filters and of their gradients. Both are always floats, whatever type activations
// have.
#include <string.h>
#include "device/cpu/kernels/winograd_transforms.h"

// Transposes B x B floats: from[i][o] -> to[o][i].
INLINE void transpose(const float *from, float *to, size_t to_row) {
    for (int i = 0; i < B; i++)
        for (int o = 0; o < B; o++) to[(size_t)o * to_row + (size_t)i] = from[i * B + o];
}

// Transforms one filter of vectors to positions. Its taps are `column` floats apart and its rows `row` floats. Only
// taps inside rows x columns exist; the others are zero.
INLINE void filter_2d(int side_y, int side_x, int taps_y, int taps_x, int rows, int columns, const float *filter,
    size_t row, size_t column, float *u, size_t pos_stride) {
    static const float zeros[SIDE_MAX * LS_WINOGRAD_STRIDE_MAX * B * B] __attribute__((aligned(64)));
    const void *at_row[SIDE_MAX];
    for (int i = 0; i < taps_y; i++) at_row[i] = i < rows ? filter + (size_t)i * row : zeros;
    transform_2d(0, side_y, side_x, taps_y, taps_x, at_row, column, 0, columns, u, pos_stride);
}

// Number of taps of a piece that exist in one direction, including the leading zeros.
INLINE int taps_there(int all, int first, int step, int lead, int most) {
    return at_most(lead + at_least(pixels_over(all - first, step), 0), most);
}

// Rotates a piece of a block's filters and exchanges inputs and outputs. `turned` has taps_x taps in a row.
INLINE void turn_filters(int taps_x, ls_winograd_taps of, int rows, int columns, const float *block, float *turned) {
    for (int i = of.lead_y; i < rows; i++)
        for (int j = of.lead_x; j < columns; j++) {
            const int y = of.y + (i - of.lead_y) * of.step_y, x = of.x + (j - of.lead_x) * of.step_x;
            transpose(block + ((of.h - 1 - y) * of.w + of.w - 1 - x) * B * B, turned + (i * taps_x + j) * B * B, B);
        }
}

// Transforms a piece of the filters to one panel of U. Forward: weight[o block][i block][r][s][i][o] is a filter of
// vectors over o for each i. Backward: the block is transposed and its taps are reversed, so that the vector again runs
// over the outputs of the product (i) for each of its inputs (o).
INLINE void read_filters(int side_y, int side_x, int taps_y, int taps_x, int backward, ls_winograd_taps of,
    const float *weight, int in_blocks, int out_blocks, int half, int panel, float *u, size_t pos_stride) {
    enum { TAPS_MAX = 25 };
    const int reduced_blocks = backward ? out_blocks : in_blocks, panel_blocks = backward ? in_blocks : out_blocks;
    const int first = panel * LS_WINOGRAD_PANEL, width = at_most(panel_blocks - first, LS_WINOGRAD_PANEL);
    const int rows = taps_there(of.h, of.y, of.step_y, of.lead_y, taps_y);
    const int columns = taps_there(of.w, of.x, of.step_x, of.lead_x, taps_x);
    const int row = backward ? taps_x : of.w * of.step_y,
              column = backward ? 1 : of.step_x; // strides of the taps that are read
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

void LS_KERNEL(ls_winograd_filters_in)(int variant, int backward, ls_winograd_taps taps, const float *weight,
    int in_blocks, int out_blocks, int half, int panel, float *u, size_t pos_stride) {
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        read_filters(my + ry - 1, mx + rx - 1, ry, rx, backward, taps, weight, in_blocks, out_blocks, half, panel, u, \
            pos_stride); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

// to[j * stride] += member j of the line, for the first `count` members. `most` is a constant.
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

void LS_KERNEL(ls_winograd_filters_out)(int variant, ls_winograd_taps taps, const float *sums, size_t pos_stride,
    int parts, size_t part_stride, int in_blocks, int out_blocks, int half, int block, float *grad_weight) {
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        write_filters(my + ry - 1, mx + rx - 1, ry, rx, taps, sums, pos_stride, parts, part_stride, in_blocks, \
            out_blocks, half, block, grad_weight); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}
