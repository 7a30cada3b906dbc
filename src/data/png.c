#include "data/png.h"

#include <stb/stb_image_write.h>
#include "base/atomic_file.h"
#include "base/memory.h"

typedef struct {
    uint8_t *bytes;
    size_t count;
} encoded;

// stb_image_write brings the whole file in one call.
static void keep(void *context, void *bytes, int count) {
    encoded *png = context;
    png->bytes = malloc((size_t)count);
    png->count = (size_t)count;
    if (png->bytes) memcpy(png->bytes, bytes, (size_t)count);
}

// From planar to the channels of a pixel side by side.
static void interleave(ls_chw s, const uint8_t *pixels, uint8_t *out) {
    const size_t plane = (size_t)s.h * (size_t)s.w, channels = (size_t)s.c;
    for (size_t i = 0; i < plane * channels; i++) out[i % plane * channels + i / plane] = pixels[i];
}

ls_status ls_png_encode(const char *what, ls_chw s, const uint8_t *pixels, uint8_t **png, size_t *bytes) {
    uint8_t *lines;
    encoded file = { 0 };
    LS_TRY(LS_NEW(lines, ls_chw_count(s), "%s", what));
    interleave(s, pixels, lines);
    stbi_write_png_to_func(keep, &file, s.w, s.h, s.c, lines, s.w * s.c);
    free(lines);
    if (!file.bytes) return ls_no_memory((size_t)ls_chw_count(s), "%s", what);
    *png = file.bytes;
    *bytes = file.count;
    return LS_SUCCESS;
}

ls_status ls_png_write(const char *path, ls_chw s, const uint8_t *pixels) {
    uint8_t *png;
    size_t bytes;
    LS_TRY(ls_png_encode(path, s, pixels, &png, &bytes));
    ls_status status = ls_write_file(path, png, bytes);
    free(png);
    return status;
}
