// image_resize.h - interleaved uint8 RGB pictures to another size, as BILINEAR of Pillow 13 does: triangle filter,
// widened by the scale when shrinking (so every source pixel counts), first along rows, then along columns; columns first
// where the height shrinks by more than twice as many pixels as the width. Pillow before 13 always took rows first: such
// pictures differ by 1 in about a fifth of their pixels, all others are the same.
//
// Own code and not stb_image_resize: its two generations differ in interface and result, and a data set's pixels must
// not depend on the version of a library. Weights are double arithmetic without calls, rounded to 22-bit integers:
// the same on every machine. Source: Pillow's src/libImaging/Resample.c (weights, order of passes, rounding).
#ifndef LS_DATA_IMAGE_RESIZE_H
#define LS_DATA_IMAGE_RESIZE_H

#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

// Interleaved pixels of 3 bytes each, as they are to be seen: pixel (y, x) is at first + y * down + x * across.
typedef struct {
    const uint8_t *first;
    int h, w;
    ptrdiff_t down, across; // bytes
    // The picture has full_h x full_w pixels and was decoded at 1/scale of that. Its sides h and w are rounded up, so
    // they show a little more than the picture; resizing takes the picture alone (Pillow's draft and resize(box=)).
    int full_h, full_w, scale;
} ls_picture;

// The whole picture becomes (h, w), of which the wanted size is seen, from (top, left) on. `how` is what data.resize has:
// LS_RESIZE_STRETCH gives it the wanted sides; with LS_RESIZE_CROP it keeps its shape, covers the wanted size, and what
// is too much goes from both ends, as by torchvision's Resize and CenterCrop.
typedef struct {
    int64_t h, w, top, left;
} ls_resized;
ls_resized ls_image_resized(int how, int h, int w, ls_chw size);

// A picture of full_h x full_w pixels, decoded at 1/scale (1: not scaled), seen as Exif's orientation (1 to 8) says;
// from 5 on, its sides are exchanged. pixels is (full_h / scale, full_w / scale, 3), both sides rounded up, and
// borrowed.
ls_picture ls_picture_turned(const uint8_t *pixels, int full_h, int full_w, int scale, int orientation);
// src to dst (3, size.h, size.w) planar. LS_DEVICE when there is no memory.
LS_CHECKED ls_status ls_image_resize(const ls_picture *src, int how, ls_chw size, uint8_t *dst);

#endif
