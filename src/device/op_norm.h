// op_norm.h - batch normalisation fused with what follows it: an added residual, a ReLU, a max pooling.
//   forward    m[c] = mean, v[c] = biased variance of src over n,h,w (count = N*H*W);  r[c] = 1/sqrt(v + eps)
//              y = (src - m) * r * gamma + beta;  if residual: y += residual;  if relu: y = max(y, 0);  dst = y
//              saved[0][c] = m, saved[1][c] = r
//              sum_mean[c] += m;  sum_var[c] += v * count/(count-1)   (statistics of this micro-batch, for the running
//              estimate; both absent when the forward pass is computed a second time for the backward pass)
//   inference  the same with m = running_mean, v = running_var; nothing saved
//   backward   g = grad_dst (+ grad_dst2);  if relu: g = 0 where dst <= 0;  grad_residual = g
//              grad_beta += sum g;  grad_gamma += sum g * xhat, xhat = (src - m) * r
//              grad_src = gamma * r * (g - sum(g)/count - xhat * sum(g*xhat)/count)
//   With pool_kernel > 0 (where the device's table has LS_FUSES_NORM_POOL; relu is required) a max pooling follows:
//   dst, grad_dst and grad_dst2 have the pooled shape, the activation itself is never stored, and index says of each
//   window which element won, as op_pool.h does (LS_POOL_NONE_U8 where relu clipped the winner); windows compare
//   y before it is rounded to storage. The index is a uint8 for each element of dst in the device's own layout: forward
//   writes it, backward reads it instead of dst and gives each gradient to its winner. Inference has no index.
// Shapes  src, residual, dst and their gradients (N,C,H,W), storage; all per-channel arrays fp32 (C); saved float[2][C]
// in the
//         device's vector layout: two vectors of param_elements(vector C) each, the second right behind the first; its
//         padding is the device's own business backward: DST is read only with relu, GRAD_DST2 only with two_grads,
//         GRAD_RESIDUAL is written only with residual: absent otherwise. No argument overlaps another.
// Types   arithmetic fp32 (ref: double); saved, and sum_* and grad_* before adding, are rounded to fp32
// Errors  LS_USAGE count == 1 in training: the variance is undefined (describe)
// Source  torch.nn.BatchNorm2d; Ioffe and Szegedy 2015
#ifndef LS_DEVICE_OP_NORM_H
#define LS_DEVICE_OP_NORM_H

#include "base/shape.h"

typedef struct {
    ls_nchw shape;
    float eps;
    int relu;                               // a ReLU after the (optional) addition
    int residual;                           // forward, inference: RESIDUAL is read; backward: GRAD_RESIDUAL is written
    int two_grads;                          // backward: GRAD_DST2 is added to GRAD_DST
    int pool_kernel, pool_stride, pool_pad; // 0, 0, 0: no pooling; the window has at most 254 elements
    ls_nchw pooled;                         // shape of dst with pooling
    ls_dtype storage;
} ls_norm_attr;

enum {
    LS_NORM_FORWARD_SRC,
    LS_NORM_FORWARD_RESIDUAL,
    LS_NORM_FORWARD_GAMMA,
    LS_NORM_FORWARD_BETA,
    LS_NORM_FORWARD_SAVED,
    LS_NORM_FORWARD_SUM_MEAN,
    LS_NORM_FORWARD_SUM_VAR,
    LS_NORM_FORWARD_DST,
    LS_NORM_FORWARD_INDEX,
    LS_NORM_FORWARD_ARGS
};
enum {
    LS_NORM_INFERENCE_SRC,
    LS_NORM_INFERENCE_RESIDUAL,
    LS_NORM_INFERENCE_GAMMA,
    LS_NORM_INFERENCE_BETA,
    LS_NORM_INFERENCE_MEAN,
    LS_NORM_INFERENCE_VAR,
    LS_NORM_INFERENCE_DST,
    LS_NORM_INFERENCE_ARGS
};
enum {
    LS_NORM_BACKWARD_SRC,
    LS_NORM_BACKWARD_DST,
    LS_NORM_BACKWARD_GRAD_DST,
    LS_NORM_BACKWARD_GRAD_DST2,
    LS_NORM_BACKWARD_GAMMA,
    LS_NORM_BACKWARD_SAVED,
    LS_NORM_BACKWARD_GRAD_SRC,
    LS_NORM_BACKWARD_GRAD_RESIDUAL,
    LS_NORM_BACKWARD_GRAD_GAMMA,
    LS_NORM_BACKWARD_GRAD_BETA,
    LS_NORM_BACKWARD_INDEX,
    LS_NORM_BACKWARD_ARGS
};

#endif
