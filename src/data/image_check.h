// image_check.h - what must hold of a JPEG or PNG file before stb_image may decode it, and what it says beside pixels.
//
// stb_image checks no checksums and no ends, and trusts numbers that it should not; and a file of some hundred kilobytes
// may promise pictures or scans that take minutes.
#ifndef LS_DATA_IMAGE_CHECK_H
#define LS_DATA_IMAGE_CHECK_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct {
    uint64_t pixels_max; // that so many bytes can hold
    int orientation;     // exif.h
} ls_image_notes;

// LS_DATA: path and what is wrong.
LS_CHECKED ls_status ls_image_check(const char *path, const uint8_t *bytes, size_t count, ls_image_notes *notes);

#endif
