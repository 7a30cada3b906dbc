// image_decode.h - a JPEG or PNG file as planar uint8 pixels of a wanted size.
#ifndef LS_DATA_IMAGE_DECODE_H
#define LS_DATA_IMAGE_DECODE_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

// Reads, checks, decodes (stb_image) and resizes path into dst (3, size.h, size.w).
// Gray becomes three equal channels, alpha is dropped, 16-bit samples keep their high byte, CMYK is converted
// as stb does, a turn in EXIF is not followed; the sides are stretched to the wanted size. Deterministic;
// safe from several threads. LS_DATA: path and what is wrong.
LS_CHECKED ls_status ls_image_decode(const char *path, ls_chw size, uint8_t *dst);

#endif
