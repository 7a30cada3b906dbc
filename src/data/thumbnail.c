#include "data/thumbnail.h"

#include "base/memory.h"
#include "data/image_resize.h"
#include "data/png.h"

static int shrink(int side, int longest, int most) {
    const int64_t rounded = ((int64_t)side * most + longest / 2) / longest;
    return longest <= most ? side : rounded > 0 ? (int)rounded : 1;
}

// Resizes planar (C,H,W), with 1 or 3 channels, to planar (3,to.h,to.w). The channels of a gray picture are then equal.
static ls_status resize(ls_chw from, const uint8_t *pixels, ls_chw to, uint8_t *dst) {
    const size_t plane = (size_t)from.h * (size_t)from.w;
    uint8_t *rgb;
    LS_TRY(ls_try_new(&rgb, 3 * plane, sizeof *rgb, "picture of %d x %d pixels", from.w, from.h));
    for (size_t i = 0; i < 3 * plane; i++) rgb[i] = pixels[i / 3 + (from.c == 3 ? i % 3 * plane : 0)];
    const ls_picture upright = ls_picture_turned(rgb, from.h, from.w, 1, 1);
    ls_status status = ls_image_resize(&upright, LS_RESIZE_STRETCH, to, dst);
    free(rgb);
    return status;
}

static ls_status encode(ls_chw s, const uint8_t *pixels, int side, uint8_t **png, size_t *bytes) {
    const int longest = s.h > s.w ? s.h : s.w;
    const ls_chw small = { 3, shrink(s.h, longest, side), shrink(s.w, longest, side) };
    if (longest <= side) return ls_png_encode("thumbnail", s, pixels, png, bytes);
    uint8_t *resized;
    LS_TRY(ls_try_new(&resized, ls_chw_count(small), sizeof *resized, "thumbnail"));
    ls_status status = resize(s, pixels, small, resized);
    LS_THEN(status, ls_png_encode("thumbnail", (ls_chw){ s.c, small.h, small.w }, resized, png, bytes));
    free(resized);
    return status;
}

ls_status ls_thumbnail(const ls_dataset *dataset, int64_t index, int side, uint8_t **png, size_t *bytes) {
    const ls_chw shape = ls_dataset_get_info(dataset)->shape;
    uint8_t *pixels;
    int32_t label;
    *png = NULL;
    if (shape.c != 1 && shape.c != 3) return LS_SUCCESS;
    LS_TRY(ls_try_new(&pixels, ls_chw_count(shape), sizeof *pixels, "thumbnail"));
    ls_status status = ls_dataset_read_whole(dataset, index, pixels, &label);
    LS_THEN(status, encode(shape, pixels, side, png, bytes));
    free(pixels);
    return status.code == LS_DATA ? LS_SUCCESS : status;
}
