// jpeg_turbo.h - decodes JPEG by libjpeg-turbo, if the program was built with it (cmake/jpeg.cmake).
#ifndef LS_DATA_JPEG_TURBO_H
#define LS_DATA_JPEG_TURBO_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

// Returns the version of libjpeg-turbo, such as "2.1.5"; NULL if the program was built without it.
const char *ls_jpeg_turbo_version(void);
// Decodes a JPEG that ls_image_check accepts, gray or of three colours, at 1/scale (1, 2, 4 or 8) of its size *h x *w.
// *pixels: (*h / scale, *w / scale, 3), sides rounded up; the caller frees it. LS_DATA: path and libjpeg's reason.
LS_CHECKED ls_status ls_jpeg_turbo_decode(
    const char *path, const uint8_t *bytes, size_t count, int scale, uint8_t **pixels, int *h, int *w);

#endif
