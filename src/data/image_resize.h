// image_resize.h - resizes interleaved uint8 RGB pictures as BILINEAR of Pillow 13 does. The filter is a triangle,
// which is widened by the scale when shrinking, so that every source pixel counts. Rows are resized before columns; but
// if the height shrinks by more than twice as many pixels as the width, columns before rows. Pillow before 13 always
// began with rows: pictures that begin with columns differ from it by 1 in about a fifth of their pixels.
//
// Own code replaces stb_image_resize, whose two generations differ: a data set's pixels must not depend on the version
// of a library. Weights are computed in double without library calls and rounded to 22-bit integers, so they are the
// same on every machine. Source: Pillow's src/libImaging/Resample.c (weights, order of passes, rounding).
#ifndef LS_DATA_IMAGE_RESIZE_H
#define LS_DATA_IMAGE_RESIZE_H

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

// An upright picture of interleaved 3-byte pixels: pixel (y, x) is at first + y * down + x * across.
typedef struct {
    const uint8_t *first;
    int h, w;
    ptrdiff_t down, across; // steps in bytes
    // The original has full_h x full_w pixels and was decoded at 1/scale of that. h and w are rounded up, so they show
    // a little more than the picture; resizing uses the picture alone (as Pillow's draft and resize(box=)).
    int full_h, full_w, scale;
} ls_picture;

// The size (h, w) of the whole resized picture, and the corner (top, left) from which the wanted size is cut out.
// `how`: data.resize. LS_RESIZE_STRETCH gives the picture the wanted sides. With LS_RESIZE_CROP it keeps its shape and
// covers the wanted size, and the excess is cut off equally at both ends, as by torchvision's Resize and CenterCrop.
typedef struct {
    int64_t h, w, top, left;
} ls_resized;
ls_resized ls_image_resized(int how, int h, int w, ls_chw size);

// Returns a view of a decoded picture, turned upright by its Exif orientation (1 to 8; from 5 on, the sides are
// exchanged). The file's picture has full_h x full_w pixels and was decoded at 1/scale (1: not scaled). pixels is
// (full_h / scale, full_w / scale, 3), both sides rounded up; it is borrowed.
ls_picture ls_picture_turned(const uint8_t *pixels, int full_h, int full_w, int scale, int orientation);
// Resizes src into dst (3, size.h, size.w), planar, by the rule `how` (a value of data.resize). LS_DEVICE: no memory.
LS_CHECKED ls_status ls_image_resize(const ls_picture *src, int how, ls_chw size, uint8_t *dst);

#endif
