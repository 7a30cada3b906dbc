// image_check.h - the kinds of picture file, and what must hold of one before stb_image or libjpeg-turbo may decode it.
//
// stb_image checks no checksums and no ends, and trusts numbers that it should not; and a file of some hundred kilobytes
// may promise pictures or scans that take minutes.
#ifndef LS_DATA_IMAGE_CHECK_H
#define LS_DATA_IMAGE_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

#define LS_IMAGE_ENDINGS ".jpg, .jpeg, .jpe, .jfif, .png, .bmp, .gif, .pnm, .pgm, .ppm or .tga"

typedef struct {
    int left, top, w, h;    // of the first picture, within the GIF
    size_t transparency_at; // byte of the file whose lowest bit says that one colour is transparent; 0: there is none
    uint8_t around[3];      // colour of what the first picture leaves: the transparent one, or the palette's first
} ls_gif_notes;

typedef struct {
    uint64_t pixels_max;  // that so many bytes can hold
    int orientation;      // exif.h
    int is_jpeg, is_gif;  // is_gif: gif is filled
    int is_cmyk, is_ycck; // JPEG: has four colours; YCbCr and black are meant instead of CMYK
    size_t scan_at;       // JPEG: where the marker of the first scan begins
    ls_gif_notes gif;
} ls_image_notes;

// A file is of the kind that its first bytes say, whatever its name ends with; but TGA has no mark and goes by its name.
// LS_DATA: path and what is wrong. A picture of a known kind that is not read (WebP, HEIC, TIFF...): what it is and
// what to do.
LS_CHECKED ls_status ls_image_check(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
// The end of its name, in any case, is that of a picture: one of LS_IMAGE_ENDINGS, or of a kind that is not read. Such
// a file counts as a picture, so that it is named where it cannot be decoded, and not left out.
int ls_image_is_named(const char *name);

// The checks of the kinds that have files of their own.
ls_status ls_image_check_bmp(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
ls_status ls_image_check_gif(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
ls_status ls_image_check_pnm(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
ls_status ls_image_check_tga(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);
// "PATH: broken WHAT: the file is cut off at byte COUNT, and its WIDTH x HEIGHT pixels need NEEDED bytes; replace it..."
ls_status ls_image_cut_off(
    const char *path, const char *what, size_t count, uint64_t width, uint64_t height, uint64_t needed);

#endif
