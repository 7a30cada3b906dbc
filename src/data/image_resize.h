// image_resize.h - interleaved uint8 RGB pictures to another size, as Pillow's BILINEAR does: triangle filter, widened
// by the scale when shrinking (so every source pixel counts), first along rows, then along columns.
//
// Own code and not stb_image_resize: its two generations differ in interface and result, and a data set's pixels must
// not depend on the version of a library. Weights are double arithmetic without calls, rounded to 22-bit integers:
// the same on every machine. Source: Pillow's src/libImaging/Resample.c (weights, order of passes, rounding).
#ifndef LS_DATA_IMAGE_RESIZE_H
#define LS_DATA_IMAGE_RESIZE_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

// src (src_h, src_w, 3) interleaved to dst (3, size.h, size.w) planar. LS_DEVICE when there is no memory.
LS_CHECKED ls_status ls_image_resize(const uint8_t *src, int src_h, int src_w, ls_chw size, uint8_t *dst);

#endif
