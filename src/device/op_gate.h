// op_gate.h - multiplies each channel of each sample by one number, as in squeeze-and-excitation.
//   gate           dst[n,c,y,x] = src[n,c,y,x] * gate[n,c]             (its own backward with respect to src)
//   gate backward  grad_gate[n,c] = sum_{y,x} src[n,c,y,x] * grad_dst[n,c,y,x]
// Shapes  src, dst, grad_dst (N,C,H,W); gate, grad_gate (N,C,1,1)
// Types   all in storage; sums fp32 (ref: double). In place is allowed: dst may be src.
// Source  Hu et al. 2017, arXiv 1709.01507
#ifndef LS_DEVICE_OP_GATE_H
#define LS_DEVICE_OP_GATE_H

#include "base/shape.h"

typedef struct {
    ls_nchw shape; // of src
    ls_dtype storage;
} ls_gate_attr;

enum { LS_GATE_SRC, LS_GATE_GATE, LS_GATE_DST, LS_GATE_ARGS };
enum { LS_GATE_BACKWARD_SRC, LS_GATE_BACKWARD_GRAD_DST, LS_GATE_BACKWARD_GRAD_GATE, LS_GATE_BACKWARD_ARGS };

#endif
