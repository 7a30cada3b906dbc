// jpeg_turbo.h - JPEG by libjpeg-turbo, where the program was built with it (cmake/jpeg.cmake).
#ifndef LS_DATA_JPEG_TURBO_H
#define LS_DATA_JPEG_TURBO_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

// Its version, as "2.1.5"; NULL: built without it.
const char *ls_jpeg_turbo_version(void);
// Decodes a file that image_check.h finds no fault with, of gray or three colours, at 1/scale (1, 2, 4 or 8) of its
// size *h x *w: *pixels (*h / scale, *w / scale, 3), both sides rounded up; free() them. LS_DATA: path and libjpeg's
// reason.
LS_CHECKED ls_status ls_jpeg_turbo_decode(
    const char *path, const uint8_t *bytes, size_t count, int scale, uint8_t **pixels, int *h, int *w);

#endif
