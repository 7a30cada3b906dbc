// winograd.c (kernels) - converts between feature maps and the transformed tiles of Winograd convolution.
#include <stdint.h>
#include <string.h>
#include "device/cpu/kernels/winograd_transforms.h"

enum { REACH_MAX = (SIDE_MAX - 1) * LS_WINOGRAD_DILATION_MAX + 1 }; // pixels that a tile spans

INLINE void write_pixel(int stream, stored *to, vf v) {
    if (stream)
        store_around(to, v);
    else
        store(to, v);
}

INLINE void write_column(int count, int stream, line l, vf add, stored *const *rows, size_t at_column) {
#define MEMBER(j) \
    if (j < count) write_pixel(stream, rows[j] + at_column, l.x##j + add);
    EACH_OUT(MEMBER)
#undef MEMBER
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

// First pixel of tile `tile` in one direction. The first tiles of all phases come first.
INLINE int origin(int tile, int step, int pad, int phases) {
    return (phases == 1 ? tile * step : tile / phases * (phases * step) + tile % phases) - pad;
}

// A tile and its part inside the map, columns [begin,end). The tile's first element is at row top, column left of the
// plane, even if that is outside.
typedef struct {
    const stored *plane;
    int top, left, begin, end;
} tile_part;

INLINE tile_part tile_inside(const ls_winograd_map *map, const stored *data, int block, tile_at at, int size_x) {
    tile_part p = { .top = origin(at.y, map->step_y, map->pad_y, map->phases),
        .left = origin(at.x, map->step_x, map->pad_x, map->phases) };
    p.begin = at_least(pixels_over(-p.left, map->apart_x), 0);
    p.end = at_most(pixels_over(map->w - p.left, map->apart_x), size_x);
    p.plane = data + ((size_t)at.image * (size_t)map->image_blocks + (size_t)block) * (size_t)(map->h * map->w * B);
    return p;
}

// Prefetches the pixels that the tile below needs in addition to this one. The hardware does not recognise a pattern in
// rows as short as a tile. The address may lie outside the map; a prefetch allows that.
INLINE void prefetch_below(const ls_winograd_map *map, tile_part p, int size_y) {
    const ptrdiff_t element = (ptrdiff_t)((p.top + size_y * map->apart_y) * map->w + p.left) * B;
    const size_t row_bytes = (size_t)(map->apart_y * map->w * B) * sizeof(stored);
    uintptr_t row = (uintptr_t)p.plane + (uintptr_t)(element * (ptrdiff_t)sizeof(stored));
    for (int y = 0; y < map->step_y * map->phases; y += map->apart_y, row += row_bytes)
        for (uintptr_t at = row; at < row + (size_t)(map->step_x * map->phases * B) * sizeof(stored); at += 64)
            __builtin_prefetch((const void *)at);
}

INLINE void read_tiles(int side_y, int side_x, int taps_y, int taps_x, const ls_winograd_map *map, const stored *data,
    int block, int first, int tiles, int padded_tiles, float *v, size_t pos_stride) {
    static const stored zeros[REACH_MAX * B] __attribute__((aligned(64)));
    const int size_y = taps_y > 0 ? taps_y : side_y, size_x = taps_x > 0 ? taps_x : side_x, apart = map->apart_x;
    tile_at at = tile_first(map, first);
    for (int n = 0; n < tiles; n++, v += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, data, block, at, size_x);
        prefetch_below(map, p, size_y);
        const void *rows[SIDE_MAX]; // rows of the tile, starting at column p.begin
        for (int i = 0; i < size_y; i++) {
            const int y = p.top + i * map->apart_y;
            rows[i] = y < 0 || y >= map->h ? zeros : p.plane + (y * map->w + p.left + p.begin * apart) * B;
        }
        transform_2d(1, side_y, side_x, taps_y, taps_x, rows, (size_t)(apart * B), p.begin, p.end, v, pos_stride);
    }
    for (int n = tiles; n < padded_tiles; n++, v += B)
        for (int i = 0; i < side_y * side_x; i++) store(v + (size_t)i * pos_stride, (vf){ 0 });
}

INLINE void write_tiles(int side_y, int side_x, int outs_y, int outs_x, const ls_winograd_map *map, stored *data,
    int block, int first, int tiles, const float *m, size_t pos_stride, const float *bias) {
    const vf add = bias ? load(bias) : (vf){ 0 };
    float rows_done[POSITIONS_MAX * B] __attribute__((aligned(64)));
    stored outside[REACH_MAX * B] __attribute__((aligned(64))); // receives rows below the map
    tile_at at = tile_first(map, first);
    for (int n = 0; n < tiles; n++, m += B, tile_next(map, &at)) {
        const tile_part p = tile_inside(map, data, block, at, outs_x);
        stored *rows[SIDE_MAX];
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

// Copies the pixels that a tap meets, row by row. Pixels outside the map are zero.
static void taps_in(
    const ls_winograd_map *map, const stored *data, int block, int first, int tiles, int padded_tiles, float *v) {
    const int step = map->step_x;
    const float *const end = v + (size_t)padded_tiles * B;
    tile_at at = tile_first(map, first);
    for (int n = 0, count; n < tiles; n += count) {
        count = at_most(map->tiles_x - at.x, tiles - n);
        const int y = at.y * map->step_y - map->pad_y, left = at.x * step - map->pad_x;
        // [begin,inside): the part inside the map
        const int begin = at_most(at_least((step - 1 - left) / step, 0), count);
        const int inside = at_least(at_most((map->w - left + step - 1) / step, count), begin);
        const int in_row = y >= 0 && y < map->h;
        const stored *from =
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

// Sets *at to the place of pixel `first` (counted over the batch) of one channel block, and returns how many pixels
// from there on, at most `most`, are adjacent in memory.
static int pixels_at(const ls_winograd_map *map, int block, int first, int most, size_t *at) {
    const int pixels = map->h * map->w, image = first / pixels, pixel = first % pixels;
    *at = (((size_t)image * (size_t)map->image_blocks + (size_t)block) * (size_t)pixels + (size_t)pixel) * B;
    return at_most(most, pixels - pixel);
}

static void pixels_in(
    const ls_winograd_map *map, const stored *data, int block, int first, int tiles, int padded_tiles, float *z) {
    size_t at;
    for (int n = 0, count; n < tiles; n += count, z += (size_t)count * B) {
        count = pixels_at(map, block, first + n, tiles - n, &at);
        LS_KERNEL(to_floats)(data + at, z, (size_t)count * B);
    }
    memset(z, 0, (size_t)(padded_tiles - tiles) * B * sizeof *z);
}

static void pixels_out(
    const ls_winograd_map *map, stored *data, int block, int first, int tiles, const float *m, const float *bias) {
    const vf add = bias ? load(bias) : (vf){ 0 };
    size_t at;
    for (int n = 0, count; n < tiles; n += count) {
        count = pixels_at(map, block, first + n, tiles - n, &at);
        for (int i = 0; i < count; i++, m += B, at += B) write_pixel(map->stream, data + at, load(m) + add);
    }
    if (map->stream) store_fence();
}

// --- by variant ----------------------------------------------------------------------------------

static void tiles_in(int variant, const ls_winograd_map *map, const void *data, int block, int first, int tiles,
    int padded_tiles, float *v, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F11) return taps_in(map, data, block, first, tiles, padded_tiles, v);
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        read_tiles(my + ry - 1, mx + rx - 1, 0, 0, map, data, block, first, tiles, padded_tiles, v, pos_stride); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

static void gradients_in(int variant, const ls_winograd_map *map, const void *data, int block, int first, int tiles,
    int padded_tiles, float *z, size_t pos_stride) {
    if (variant == LS_WINOGRAD_F11) return pixels_in(map, data, block, first, tiles, padded_tiles, z);
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        read_tiles(my + ry - 1, mx + rx - 1, my, mx, map, data, block, first, tiles, padded_tiles, z, pos_stride); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

static void tiles_out(int variant, const ls_winograd_map *map, void *data, int block, int first, int tiles,
    const float *m, size_t pos_stride, const float *bias) {
    if (variant == LS_WINOGRAD_F11) return pixels_out(map, data, block, first, tiles, m, bias);
#define CASE(name, text, my, ry, mx, rx) \
    case LS_WINOGRAD_##name: \
        write_tiles(my + ry - 1, mx + rx - 1, my, mx, map, data, block, first, tiles, m, pos_stride, bias); \
        break;
    switch (variant) { LS_WINOGRAD_EACH(CASE) }
#undef CASE
}

// grad_bias += the sums of one channel block. Each image is summed alone before it is added to the total: less rounding
// error than one running sum over the batch.
static void bias_out(const void *data, int n, int blocks, size_t pixels, int block, float *grad_bias) {
    vf total = load(grad_bias);
    for (int image = 0; image < n; image++) {
        const stored *plane = (const stored *)data + ((size_t)image * (size_t)blocks + (size_t)block) * pixels * B;
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

const ls_winograd_kernels LS_KERNEL(ls_winograd) = {
    .width = B,
    .product_tiles = LS_WINOGRAD_PRODUCT_TILES,
    .tiles_in = tiles_in,
    .gradients_in = gradients_in,
    .tiles_out = tiles_out,
    .filters_in = LS_FLOAT_KERNEL(ls_winograd_filters_in),
    .filters_out = LS_FLOAT_KERNEL(ls_winograd_filters_out),
    .product = LS_FLOAT_KERNEL(ls_winograd_product),
    .sum = LS_FLOAT_KERNEL(ls_winograd_sum),
    .bias_out = bias_out,
};
