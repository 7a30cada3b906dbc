// png.h - writes pictures as PNG files.
//
// pixels: planar (C,H,W), as data sets have them, C 1 (gray) or 3 (red, green, blue).
#ifndef LS_DATA_PNG_H
#define LS_DATA_PNG_H

#include "base/shape.h"
#include "base/status.h"

// The file is there whole or not at all. LS_STORAGE: it cannot be written.
LS_CHECKED ls_status ls_png_write(const char *path, ls_chw shape, const uint8_t *pixels);
// The file's bytes; free() them. what: for messages.
LS_CHECKED ls_status ls_png_encode(const char *what, ls_chw shape, const uint8_t *pixels, uint8_t **png, size_t *bytes);

#endif
