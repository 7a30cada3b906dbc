// op_resize.h - resizes an activation to another height and width, bilinear between pixel centres.
//   dst[n,c,y,x] = (1-v) * ((1-u) * src[n,c,y0,x0] + u * src[n,c,y0,x1])
//                    + v * ((1-u) * src[n,c,y1,x0] + u * src[n,c,y1,x1])
//   rows: t = max(0, (2*y+1)*H - P); y0 = t / (2*P), rounded down; v = (t mod 2*P) / (2*P); y1 = min(y0 + 1, H - 1)
//   columns: x0, x1, u likewise, from W and Q
//   Numbers are fp32. Every difference, product, sum and quotient is rounded separately, in the order written (no fused
//   multiply-add), so all devices give the same bits.
// Shapes  src (N,C,H,W), dst (N,C,P,Q). Sides are at most LS_RESIZE_SIDE_MAX, so that t is exact in 32 bits and its
//         remainder is exact in fp32.
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
