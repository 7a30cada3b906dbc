#include "data/image_decode.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include "base/memory.h"
#include "data/data_file.h"
#include "data/image_check.h"
#include "data/image_resize.h"

enum { MAX_PIXELS = 1 << 28 };

static ls_status cannot_decode(const char *path) {
    const char *reason = stbi_failure_reason();
    if (strcmp(reason, "outofmem") == 0) return ls_no_memory(0, "%s", path);
    return ls_fail(LS_DATA, "%s: broken image: %s (stb_image); replace it or move it away", path, reason);
}

static ls_status decode_bytes(const char *path, const uint8_t *bytes, size_t count, ls_chw size, uint8_t *dst) {
    ls_image_notes notes;
    LS_TRY(ls_image_check(path, bytes, count, &notes));
    int width = 0, height = 0, channels = 0;
    if (!stbi_info_from_memory(bytes, (int)count, &width, &height, &channels)) {
        return cannot_decode(path);
    }
    if ((int64_t)width * height > MAX_PIXELS) {
        return ls_fail(LS_DATA, "%s: picture of %d x %d pixels, at most %d pixels in all; scale it down", path, width,
            height, MAX_PIXELS);
    }
    if ((uint64_t)width * (uint64_t)height > notes.pixels_max) {
        return ls_fail(LS_DATA,
            "%s: broken image: its header promises %d x %d pixels, more than %zu bytes can hold; replace it or "
            "move it away",
            path, width, height, count);
    }
    stbi_uc *picture = stbi_load_from_memory(bytes, (int)count, &width, &height, &channels, 3);
    if (!picture) {
        return cannot_decode(path);
    }
    const ls_picture upright = ls_picture_turned(picture, height, width, notes.orientation);
    ls_status status = ls_image_resize(&upright, size, dst);
    stbi_image_free(picture);
    return status;
}

int ls_image_is_named(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".png") == 0);
}

ls_status ls_image_decode(const char *path, ls_chw size, uint8_t *dst) {
    ls_input file;
    LS_TRY(ls_data_file_open(path, &file));
    if (file.bytes > INT_MAX) {
        size_t bytes = file.bytes;
        ls_input_close(&file);
        return ls_fail(LS_DATA, "%s: has %zu bytes, at most %d for an image", path, bytes, INT_MAX);
    }
    uint8_t *bytes;
    ls_status status = LS_NEW(bytes, file.bytes, "%s", path);
    LS_THEN(status, ls_data_file_read(&file, 0, bytes, file.bytes));
    ls_input_close(&file);
    LS_THEN(status, decode_bytes(path, bytes, file.bytes, size, dst));
    free(bytes);
    return status;
}
