// png.h - writes pictures as PNG files.
//
// pixels: planar (C,H,W), as in data sets, with 1 channel (gray) or 3 (red, green, blue).
#ifndef LS_DATA_PNG_H
#define LS_DATA_PNG_H

#include "base/shape.h"
#include "base/status.h"

// Writes a PNG file, as a whole or not at all. LS_STORAGE: it cannot be written.
LS_CHECKED ls_status ls_png_write(const char *path, ls_chw shape, const uint8_t *pixels);
// Encodes the picture as a PNG file in memory, *png of *bytes bytes; the caller frees *png. what: names the picture in
// messages. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_png_encode(const char *what, ls_chw shape, const uint8_t *pixels, uint8_t **png, size_t *bytes);

#endif
