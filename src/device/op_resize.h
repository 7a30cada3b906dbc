// op_resize.h - an activation at another height and width, bilinear between the centres of pixels.
//   dst[n,c,y,x] = (1-v) * ((1-u) * src[n,c,y0,x0] + u * src[n,c,y0,x1]) + v * ((1-u) * src[n,c,y1,x0] + u * src[n,c,y1,x1])
//   rows: t = max(0, (2*y+1)*H - P); y0 = t / (2*P), rounded down; v = (t mod 2*P) / (2*P); y1 = min(y0 + 1, H - 1)
//   columns: x0, x1, u alike, of W and Q
//   Numbers are fp32, and every difference, product, sum and quotient is rounded by itself, in the order that is written
//   (no fused multiply-add): all devices give the same bits.
// Shapes  src (N,C,H,W), dst (N,C,P,Q); sides up to LS_RESIZE_SIDE_MAX, so that t is exact in 32 bits and its rest in fp32
// Types   src, dst: storage
// Source  torch.nn.functional.interpolate(mode="bilinear", align_corners=False, antialias=False)
#ifndef LS_DEVICE_OP_RESIZE_H
#define LS_DEVICE_OP_RESIZE_H

#include "base/shape.h"

enum { LS_RESIZE_SIDE_MAX = 32768 };

typedef struct {
    ls_nchw src, dst;
    ls_dtype storage;
} ls_resize_attr;

enum { LS_RESIZE_SRC, LS_RESIZE_DST, LS_RESIZE_ARGS };

#endif
