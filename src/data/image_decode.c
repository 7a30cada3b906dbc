#include "data/image_decode.h"

#include <stdio.h>
#include <string.h>

#define STBI_NO_STDIO
#include <stb/stb_image.h>

#include "base/memory.h"
#include "config/config.h"
#include "data/file_content.h"
#include "data/image_check.h"
#include "data/image_resize.h"
#include "data/jpeg_turbo.h"

enum { MAX_PIXELS = 1 << 28 };

// A decoded picture, before it is turned upright.
typedef struct {
    uint8_t *pixels; // (h / scale, w / scale, 3), sides rounded up; both libraries allocate them by malloc
    int h, w, scale; // h, w: size in the file
} decoded;

static ls_status cannot_decode(const char *path) {
    const char *reason = stbi_failure_reason();
    if (reason && strcmp(reason, "outofmem") == 0) return ls_no_memory(0, "%s", path);
    return ls_fail(LS_DATA, "%s: broken image: %s (stb_image); replace it or move it away", path,
        reason ? reason : "no reason given");
}

static ls_status check_size(
    const char *path, const uint8_t *bytes, size_t count, const ls_image_notes *notes, decoded *picture) {
    int channels = 0;
    if (!stbi_info_from_memory(bytes, (int)count, &picture->w, &picture->h, &channels)) return cannot_decode(path);
    if (picture->h < 0) picture->h = -picture->h; // negative in a BMP whose first row is at the top
    if ((int64_t)picture->w * picture->h > MAX_PIXELS) {
        return ls_fail(LS_DATA, "%s: picture of %d x %d pixels, at most %d pixels in all; scale it down", path,
            picture->w, picture->h, MAX_PIXELS);
    }
    if ((uint64_t)picture->w * (uint64_t)picture->h > notes->pixels_max) {
        return ls_fail(LS_DATA,
            "%s: broken image: its header promises %d x %d pixels, more than %zu bytes can hold; replace it or "
            "move it away",
            path, picture->w, picture->h, count);
    }
    return LS_SUCCESS;
}

// Returns the largest scale (2, 4 or 8) at which a JPEG, shrunk while decoding, is still at least twice the wanted
// size; 1 if there is no such scale.
static int choose_scale(const decoded *picture, int orientation, const ls_image_options *options) {
    const int exchanged = orientation >= 5;
    const int h = exchanged ? picture->w : picture->h, w = exchanged ? picture->h : picture->w;
    const ls_resized to = ls_image_resized(options->resize, h, w, options->size);
    int scale = 8;
    while (scale > 1 && (h / scale < 2 * to.h || w / scale < 2 * to.w)) scale /= 2;
    return scale;
}

static ls_status decode_by_stb(const char *path, const uint8_t *bytes, size_t count, decoded *picture) {
    int channels = 0;
    picture->scale = 1;
    picture->pixels = stbi_load_from_memory(bytes, (int)count, &picture->w, &picture->h, &channels, 3);
    return picture->pixels ? LS_SUCCESS : cannot_decode(path);
}

// Decodes a JPEG of four colours. Adobe's marker names its colour space; without the marker it is CMYK, but stb_image
// takes YCbCr. So stb_image gets a copy of the file with the marker. Source: libjpeg's default_decompress_parms.
static ls_status decode_cmyk(
    const char *path, const uint8_t *bytes, size_t count, const ls_image_notes *notes, decoded *picture) {
    uint8_t marker[] = { 0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, notes->is_ycck ? 2 : 0 };
    uint8_t *copy;
    LS_TRY(ls_try_new(&copy, count + sizeof marker, sizeof *copy, "%s", path));
    memcpy(copy, bytes, notes->scan_at);
    memcpy(copy + notes->scan_at, marker, sizeof marker);
    memcpy(copy + notes->scan_at + sizeof marker, bytes + notes->scan_at, count - notes->scan_at);
    ls_status status = decode_by_stb(path, copy, count + sizeof marker, picture);
    free(copy);
    return status;
}

// Decodes the first picture of a GIF. A transparent pixel gets the colour that the file gives it, as in all other kinds
// of file. stb_image does not draw such pixels, so it gets a copy in which no colour is transparent. It does not fill
// the area around a picture that is smaller than the GIF either, so this function fills it.
static ls_status decode_gif(
    const char *path, const uint8_t *bytes, size_t count, const ls_image_notes *notes, decoded *picture) {
    const ls_gif_notes *gif = &notes->gif;
    uint8_t *copy;
    LS_TRY(ls_try_new(&copy, count, sizeof *copy, "%s", path));
    memcpy(copy, bytes, count);
    if (gif->transparency_at > 0) copy[gif->transparency_at] &= 0xfe;
    ls_status status = decode_by_stb(path, copy, count, picture);
    free(copy);
    LS_TRY(status);
    uint8_t *pixel = picture->pixels;
    for (int y = 0; y < picture->h; y++)
        for (int x = 0; x < picture->w; x++, pixel += 3)
            if (y < gif->top || y >= gif->top + gif->h || x < gif->left || x >= gif->left + gif->w)
                memcpy(pixel, gif->around, 3);
    return LS_SUCCESS;
}

static ls_status decode(const char *path, const uint8_t *bytes, size_t count, const ls_image_notes *notes,
    const ls_image_options *options, decoded *picture) {
    if (notes->is_gif) return decode_gif(path, bytes, count, notes, picture);
    if (notes->is_cmyk) return decode_cmyk(path, bytes, count, notes, picture);
    if (!notes->is_jpeg || options->decoder == LS_DECODER_STB || !ls_jpeg_turbo_version())
        return decode_by_stb(path, bytes, count, picture);
    picture->scale = choose_scale(picture, notes->orientation, options);
    return ls_jpeg_turbo_decode(path, bytes, count, picture->scale, &picture->pixels, &picture->h, &picture->w);
}

// Converts RGB (3, h, w) to gray (h, w): ITU-R 601-2 luma in 16-bit fixed point. Source: Pillow's Convert.c, L24.
static void to_gray(const uint8_t *rgb, size_t pixels, uint8_t *gray) {
    for (size_t i = 0; i < pixels; i++)
        gray[i] = (uint8_t)((rgb[i] * 19595u + rgb[pixels + i] * 38470u + rgb[2 * pixels + i] * 7471u + 0x8000u) >> 16);
}

static ls_status resize_to_gray(
    const char *path, const ls_picture *upright, const ls_image_options *options, uint8_t *dst) {
    const size_t pixels = (size_t)options->size.h * (size_t)options->size.w;
    uint8_t *rgb;
    LS_TRY(ls_try_new(&rgb, 3 * pixels, sizeof *rgb, "%s", path));
    ls_status status = ls_image_resize(upright, options->resize, options->size, rgb);
    if (!ls_failed(status)) to_gray(rgb, pixels, dst);
    free(rgb);
    return status;
}

ls_status ls_image_decode_bytes(
    const char *path, const uint8_t *bytes, size_t count, const ls_image_options *options, uint8_t *dst) {
    ls_image_notes notes;
    decoded picture = { 0 };
    LS_TRY(ls_image_check(path, bytes, count, &notes));
    LS_TRY(check_size(path, bytes, count, &notes, &picture));
    LS_TRY(decode(path, bytes, count, &notes, options, &picture));
    const ls_picture upright =
        ls_picture_turned(picture.pixels, picture.h, picture.w, picture.scale, notes.orientation);
    ls_status status = options->size.c == 1 ? resize_to_gray(path, &upright, options, dst)
                                            : ls_image_resize(&upright, options->resize, options->size, dst);
    free(picture.pixels);
    return status;
}

ls_status ls_image_decode(const char *path, const ls_image_options *options, uint8_t *dst) {
    ls_file_content file;
    LS_TRY(ls_file_content_read(path, 0, &file));
    ls_status status = ls_image_decode_bytes(path, file.bytes, file.count, options, dst);
    ls_file_content_free(&file);
    return status;
}

const char *ls_image_decoder(int decoder) {
    static const char stb[] = "stb_image";
    static _Thread_local char turbo[64];
    if (decoder == LS_DECODER_STB) return stb;
    if (!ls_jpeg_turbo_version()) return decoder == LS_DECODER_AUTO ? stb : NULL;
    snprintf(turbo, sizeof turbo, "libjpeg-turbo %s, scaled to true sides", ls_jpeg_turbo_version());
    return turbo;
}

ls_status ls_image_check_decoder(int decoder) {
    if (ls_image_decoder(decoder)) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "data.decoder = libjpeg-turbo: this program was built without it; install its headers (Debian: "
        "libjpeg62-turbo-dev) and build anew, or set data.decoder = stb");
}
