// op_quantise.h - fake quantisation: rounds numbers to the grid of 8-bit integers on which they will be computed after
// training (deploy/kernels_int8.h), and leaves them floats.
//   fake quantise           dst = scale * q;  q = src / scale, at least -128 - zero, at most 127 - zero, rounded
//   fake quantise backward  grad_src = grad_dst where rounded src / scale lies in the range of q, else 0
//                           (the straight-through estimator: rounding has slope 1, clipping 0)
//   fake quantise weight    dst = s * (src / s, rounded);  s[o] = max |src[o]| / 127 for each output channel o; 0 if
//                           all are 0. Nothing is clipped, so the gradient of src is that of dst.
// Rounding is to the nearest, ties to even. All steps are single operations of fp32, also on ref: every device computes
// the same bits. NaN stays NaN; zeros have no sign.
// Shapes  src, dst and their gradients (N,C,H,W), or those of `param`; scale, zero: vectors of one element; zero is a
//         whole number from -128 to 127
// Types   fp32. In place is allowed: dst may be src, grad_src may be grad_dst.
// Source  Jacob et al. 2018, arXiv 1712.05877; Bengio et al. 2013, arXiv 1308.3432
#ifndef LS_DEVICE_OP_QUANTISE_H
#define LS_DEVICE_OP_QUANTISE_H

#include "base/shape.h"

enum { LS_QUANTISE_LEAST = -128, LS_QUANTISE_MOST = 127, LS_QUANTISE_WEIGHT_MOST = 127 };

typedef struct {
    ls_nchw shape;        // of src; fake quantise weight: unused
    ls_param_shape param; // fake quantise weight: of src
} ls_quantise_attr;

enum {
    LS_FAKE_QUANTISE_SRC,
    LS_FAKE_QUANTISE_SCALE,
    LS_FAKE_QUANTISE_ZERO,
    LS_FAKE_QUANTISE_DST,
    LS_FAKE_QUANTISE_ARGS
};
enum {
    LS_FAKE_QUANTISE_BACKWARD_SRC,
    LS_FAKE_QUANTISE_BACKWARD_SCALE,
    LS_FAKE_QUANTISE_BACKWARD_ZERO,
    LS_FAKE_QUANTISE_BACKWARD_GRAD_DST,
    LS_FAKE_QUANTISE_BACKWARD_GRAD_SRC,
    LS_FAKE_QUANTISE_BACKWARD_ARGS
};
enum { LS_FAKE_QUANTISE_WEIGHT_SRC, LS_FAKE_QUANTISE_WEIGHT_DST, LS_FAKE_QUANTISE_WEIGHT_ARGS };

#endif
