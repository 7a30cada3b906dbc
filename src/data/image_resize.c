#include "data/image_resize.h"

#include "base/memory.h"
#include "config/config.h"

enum { WEIGHT_BITS = 22 }; // with 8 bits of pixel and a sign it fits in 32 bits

// A filter along one axis: for each destination pixel, the source pixels that make it, and their weights.
typedef struct {
    int taps;           // most weights that a destination pixel has
    int *first, *count; // source pixels of each destination pixel
    int32_t *weights;   // `taps` places for each destination pixel
} filter;

static void free_filter(filter *f) {
    free(f->first);
    free(f->count);
    free(f->weights);
}

static double triangle(double x) {
    if (x < 0) x = -x;
    return x < 1 ? 1 - x : 0;
}

// One axis of a decoded picture: it has `pixels` pixels, and the picture covers `length` of them, from `begin` on.
typedef struct {
    int pixels;
    double begin, length;
} source_axis;

// Returns one axis of a decoded picture. If the decoder has scaled the picture down, the picture ends inside its last
// pixel, or, if it is mirrored, begins inside its first pixel.
static source_axis axis_of(int pixels, int full, int scale, ptrdiff_t step) {
    const double length = (double)full / scale;
    return (source_axis){ pixels, step < 0 ? pixels - length : 0, length };
}

// Makes the filter that resizes an axis of `source` to `dst` pixels; weights only for the `seen` pixels from `begin`
// on.
static ls_status make_filter(source_axis source, int64_t dst, int64_t begin, int seen, filter *f) {
    const int src = source.pixels;
    double scale = source.length / (double)dst, widened = scale < 1 ? 1 : scale; // when enlarging: plain interpolation
    int reach = (int)widened + 1;
    f->taps = 2 * reach + 1;
    size_t cells = (size_t)seen * (size_t)f->taps;
    double *exact;
    LS_TRY(ls_try_new(&f->first, seen, sizeof *f->first, "resizing of a picture"));
    LS_TRY(ls_try_new(&f->count, seen, sizeof *f->count, "resizing of a picture"));
    LS_TRY(ls_try_new(&f->weights, cells, sizeof *f->weights, "resizing of a picture"));
    LS_TRY(ls_try_new(&exact, f->taps, sizeof *exact, "resizing of a picture"));
    for (int i = 0; i < seen; i++) {
        double centre = source.begin + ((double)(begin + i) + 0.5) * scale, sum = 0;
        int first = (int)(centre - widened + 0.5), end = (int)(centre + widened + 0.5);
        if (centre - widened + 0.5 < 0) first = 0;
        if (end > src) end = src;
        for (int k = first; k < end; k++) sum += exact[k - first] = triangle((k - centre + 0.5) / widened);
        for (int k = first; k < end; k++) {
            double weight = exact[k - first] / sum * (1 << WEIGHT_BITS);
            f->weights[(size_t)i * (size_t)f->taps + (size_t)(k - first)] = (int32_t)(weight + 0.5);
        }
        f->first[i] = first;
        f->count[i] = end - first;
    }
    free(exact);
    return LS_SUCCESS;
}

static uint8_t round_and_clip(int64_t sum) {
    int64_t value = (sum + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
    return (uint8_t)(value > 255 ? 255 : value); // weights are not negative, so no sum is
}

ls_picture ls_picture_turned(const uint8_t *pixels, int full_h, int full_w, int scale, int orientation) {
    const int h = (full_h + scale - 1) / scale, w = (full_w + scale - 1) / scale;
    const int exchanged = orientation >= 5;
    const int from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const int from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    ptrdiff_t down = 3 * (ptrdiff_t)w, across = 3;
    if (from_right) pixels += (w - 1) * across, across = -across;
    if (from_below) pixels += (h - 1) * down, down = -down;
    if (exchanged) return (ls_picture){ pixels, w, h, across, down, full_w, full_h, scale };
    return (ls_picture){ pixels, h, w, down, across, full_h, full_w, scale };
}

// Resizes the rows of src to width w, into dst (src->h, 3, w). It also separates the channels.
static void resize_rows(const ls_picture *src, const filter *f, int w, uint8_t *dst) {
    for (int y = 0; y < src->h; y++) {
        const uint8_t *row = src->first + y * src->down;
        for (int x = 0; x < w; x++) {
            const int32_t *weight = f->weights + (size_t)x * (size_t)f->taps;
            const uint8_t *from = row + f->first[x] * src->across;
            int64_t sum[3] = { 0 };
            for (int k = 0; k < f->count[x]; k++, from += src->across) {
                for (int c = 0; c < 3; c++) sum[c] += (int64_t)weight[k] * from[c];
            }
            for (int c = 0; c < 3; c++)
                dst[((size_t)y * 3 + (size_t)c) * (size_t)w + (size_t)x] = round_and_clip(sum[c]);
        }
    }
}

// Resizes columns: src (source's height, 3, w) to (3, h, w). Writes pixel (y, x) of a plane at y * down + x * across.
static void resize_columns(const uint8_t *src, const filter *f, ls_chw size, size_t down, size_t across, uint8_t *dst) {
    size_t w = (size_t)size.w, step = 3 * w, plane = (size_t)size.h * w;
    for (int c = 0; c < 3; c++) {
        for (int y = 0; y < size.h; y++) {
            const int32_t *weight = f->weights + (size_t)y * (size_t)f->taps;
            const uint8_t *column = src + (size_t)f->first[y] * step + (size_t)c * w;
            uint8_t *to = dst + (size_t)c * plane + (size_t)y * down;
            for (size_t x = 0; x < w; x++) {
                int64_t sum = 0;
                for (int k = 0; k < f->count[y]; k++) sum += (int64_t)weight[k] * column[(size_t)k * step + x];
                to[x * across] = round_and_clip(sum);
            }
        }
    }
}

// Returns half of `too_much`, the pixels to cut off. A half is rounded to the even number, as Python's round does.
static int64_t half_of(int64_t too_much) {
    const int64_t half = too_much / 2;
    return half + (too_much & 1 & half);
}

ls_resized ls_image_resized(int how, int h, int w, ls_chw size) {
    ls_resized to = { .h = size.h, .w = size.w };
    if (how == LS_RESIZE_STRETCH) return to;
    if ((int64_t)w * size.h >= (int64_t)h * size.w)
        to.w = (int64_t)w * size.h / h;
    else
        to.h = (int64_t)h * size.w / w;
    to.top = half_of(to.h - size.h);
    to.left = half_of(to.w - size.w);
    return to;
}

// Resizes a picture. To resize columns first, it exchanges the sides of the picture and resizes rows first.
ls_status ls_image_resize(const ls_picture *src, int how, ls_chw size, uint8_t *dst) {
    const ls_resized whole = ls_image_resized(how, src->full_h, src->full_w, size);
    const int columns_first = src->h > whole.h && src->h - whole.h > 2 * (src->w - whole.w);
    const ls_picture exchanged = { src->first, src->w, src->h, src->across, src->down, src->full_w, src->full_h,
        src->scale };
    const ls_resized turned = { whole.w, whole.h, whole.left, whole.top };
    const ls_picture *from = columns_first ? &exchanged : src;
    const ls_resized *to = columns_first ? &turned : &whole;
    const ls_chw seen = columns_first ? (ls_chw){ size.c, size.w, size.h } : size;
    const size_t row = (size_t)size.w;
    filter across = { 0 }, down = { 0 };
    uint8_t *narrow;
    ls_status status;
    LS_TRY_GOTO(ls_try_new(&narrow, (size_t)from->h * 3 * (size_t)seen.w, sizeof *narrow, "resizing of a picture"));
    const source_axis columns = axis_of(from->w, from->full_w, from->scale, from->across);
    const source_axis rows = axis_of(from->h, from->full_h, from->scale, from->down);
    LS_TRY_GOTO(make_filter(columns, to->w, to->left, seen.w, &across));
    LS_TRY_GOTO(make_filter(rows, to->h, to->top, seen.h, &down));
    resize_rows(from, &across, seen.w, narrow);
    resize_columns(narrow, &down, seen, columns_first ? 1 : row, columns_first ? row : 1, dst);
done:
    free_filter(&across);
    free_filter(&down);
    free(narrow);
    return status;
}
