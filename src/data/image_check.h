// image_check.h - the kinds of picture file, and the checks of a file before stb_image or libjpeg-turbo decodes it.
//
// stb_image checks neither checksums nor whether a file ends too early, and trusts numbers that it should not. A file
// of some hundred kilobytes may also promise pictures or scans that take minutes to decode.
#ifndef LS_DATA_IMAGE_CHECK_H
#define LS_DATA_IMAGE_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define LS_IMAGE_ENDINGS ".jpg, .jpeg, .jpe, .jfif, .png, .bmp, .gif, .pnm, .pgm, .ppm or .tga"

typedef struct {
    int left, top, w, h;    // position and size of the first picture within the GIF
    size_t transparency_at; // offset of the byte whose lowest bit makes one colour transparent; 0: no such byte
    uint8_t around[3];      // colour around the first picture: the transparent colour, or the palette's first
} ls_gif_notes;

typedef struct {
    uint64_t pixels_max;  // most pixels that a file of this length can hold; UINT64_MAX: the check has compared them
    int orientation;      // 1 to 8 (exif.h)
    int is_jpeg, is_gif;  // is_gif: `gif` is filled
    int is_cmyk, is_ycck; // is_cmyk: a JPEG of four colours; is_ycck: they are YCbCr and black, not CMYK
    size_t scan_at;       // JPEG: offset of the marker of the first scan
    ls_gif_notes gif;
} ls_image_notes;

// Checks a picture file. Its first bytes tell its kind, whatever its name ends with; only TGA, which has no mark, is
// known by its name. LS_DATA: the file is broken, would take minutes, or is of a kind that cannot be read (WebP, HEIC,
// packed BMP...). The message names the path, the fault or the kind, and a remedy.
LS_CHECKED ls_status ls_image_check(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
// Returns 1 if the name has the ending of a picture, in small or capital letters: one of LS_IMAGE_ENDINGS, or of a kind
// that cannot be read. Such a file counts as a picture, so that an error names it and it is not left out silently.
int ls_image_is_named(const char *name);

// Check a BMP, GIF, PNM or TGA file for ls_image_check. Each of these kinds has a source file of its own.
ls_status ls_image_check_bmp(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
ls_status ls_image_check_gif(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
ls_status ls_image_check_pnm(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
ls_status ls_image_check_tga(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
// Returns "PATH: broken WHAT: the file is cut off at byte COUNT, its WIDTH x HEIGHT pixels need NEEDED bytes; ...".
ls_status ls_image_cut_off(
    const char *path, const char *what, size_t count, uint64_t width, uint64_t height, uint64_t needed);

#endif
