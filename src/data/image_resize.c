#include "data/image_resize.h"

#include <stdlib.h>

enum { WEIGHT_BITS = 22 }; // 8 bits of pixel and the sign fit beside it

// Which source pixels make a destination pixel, along one axis.
typedef struct {
    int taps; // of the longest row of weights
    int *first, *count;
    int32_t *weights; // taps per destination pixel
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

static ls_status make_filter(int src, int dst, filter *f) {
    double scale = (double)src / dst, widened = scale < 1 ? 1 : scale; // enlarging: plain interpolation
    int reach = (int)widened + 1;
    f->taps = 2 * reach + 1;
    size_t cells = (size_t)dst * (size_t)f->taps;
    f->first = malloc((size_t)dst * sizeof *f->first);
    f->count = malloc((size_t)dst * sizeof *f->count);
    f->weights = malloc(cells * sizeof *f->weights);
    double *exact = malloc((size_t)f->taps * sizeof *exact);
    if (!f->first || !f->count || !f->weights || !exact) {
        free(exact);
        return ls_fail(LS_DEVICE, "no memory to resize a picture from %d to %d pixels", src, dst);
    }
    for (int i = 0; i < dst; i++) {
        double centre = (i + 0.5) * scale, sum = 0;
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
    return (uint8_t)(value > 255 ? 255 : value); // weights are not negative
}

// (src_h, src_w, 3) interleaved to (src_h, 3, w): rows get their new width, channels come apart.
static void resize_rows(const uint8_t *src, int src_h, int src_w, const filter *f, int w, uint8_t *dst) {
    for (int y = 0; y < src_h; y++) {
        const uint8_t *row = src + (size_t)y * (size_t)src_w * 3;
        for (int x = 0; x < w; x++) {
            const int32_t *weight = f->weights + (size_t)x * (size_t)f->taps;
            const uint8_t *from = row + 3 * (size_t)f->first[x];
            int64_t sum[3] = { 0 };
            for (int k = 0; k < f->count[x]; k++, from += 3) {
                for (int c = 0; c < 3; c++) sum[c] += (int64_t)weight[k] * from[c];
            }
            for (int c = 0; c < 3; c++)
                dst[((size_t)y * 3 + (size_t)c) * (size_t)w + (size_t)x] = round_and_clip(sum[c]);
        }
    }
}

// (src_h, 3, w) to (3, h, w).
static void resize_columns(const uint8_t *src, const filter *f, ls_chw size, uint8_t *dst) {
    size_t w = (size_t)size.w, step = 3 * w;
    for (int c = 0; c < 3; c++) {
        for (int y = 0; y < size.h; y++) {
            const int32_t *weight = f->weights + (size_t)y * (size_t)f->taps;
            const uint8_t *column = src + (size_t)f->first[y] * step + (size_t)c * w;
            for (size_t x = 0; x < w; x++) {
                int64_t sum = 0;
                for (int k = 0; k < f->count[y]; k++) sum += (int64_t)weight[k] * column[(size_t)k * step + x];
                dst[((size_t)c * (size_t)size.h + (size_t)y) * w + x] = round_and_clip(sum);
            }
        }
    }
}

ls_status ls_image_resize(const uint8_t *src, int src_h, int src_w, ls_chw size, uint8_t *dst) {
    filter across = { 0 }, down = { 0 };
    uint8_t *narrow = malloc((size_t)src_h * 3 * (size_t)size.w);
    ls_status status = LS_SUCCESS;
    if (!narrow) {
        status = ls_fail(LS_DEVICE, "no memory to resize a picture of %d x %d pixels", src_h, src_w);
        goto done;
    }
    LS_TRY_GOTO(make_filter(src_w, size.w, &across));
    LS_TRY_GOTO(make_filter(src_h, size.h, &down));
    resize_rows(src, src_h, src_w, &across, size.w, narrow);
    resize_columns(narrow, &down, size, dst);
done:
    free_filter(&across);
    free_filter(&down);
    free(narrow);
    return status;
}
