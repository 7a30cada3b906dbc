#include "data/png.h"

#include <stb/stb_image_write.h>
#include "base/atomic_file.h"
#include "base/memory.h"

static void put(void *context, void *bytes, int count) {
    ls_atomic_file_write(context, bytes, (size_t)count);
}

// From planar to the channels of a pixel side by side.
static void interleave(ls_chw s, const uint8_t *pixels, uint8_t *out) {
    const size_t plane = (size_t)s.h * (size_t)s.w, channels = (size_t)s.c;
    for (size_t i = 0; i < plane * channels; i++) out[i % plane * channels + i / plane] = pixels[i];
}

ls_status ls_png_write(const char *path, ls_chw s, const uint8_t *pixels) {
    uint8_t *lines;
    ls_atomic_file *file;
    LS_TRY(LS_NEW(lines, ls_chw_count(s), "%s", path));
    interleave(s, pixels, lines);
    ls_status status = ls_atomic_file_open(path, &file);
    if (!ls_failed(status)) {
        if (stbi_write_png_to_func(put, file, s.w, s.h, s.c, lines, s.w * s.c)) {
            status = ls_atomic_file_commit(file);
        } else {
            ls_atomic_file_abandon(file);
            status = ls_no_memory((size_t)ls_chw_count(s), "%s", path);
        }
    }
    free(lines);
    return status;
}
