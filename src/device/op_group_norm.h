// op_group_norm.h - group normalisation: each sample is normalised alone, over groups of neighbouring channels. It is
// the same in training and inference. With one group it is a layer norm over (C,H,W) with one weight for each channel;
// with one channel in each group it is an instance norm.
//   forward   m, v = mean and biased variance of src[n] over the channels of a group, h and w;  r = 1/sqrt(v + eps)
//             dst = (src - m) * r * gamma[c] + beta[c]
//             saved[0][n*groups + group] = m, saved[1][...] = r
//   backward  grad_beta[c] += sum over n,h,w of grad_dst
//             grad_gamma[c] += sum over n,h,w of grad_dst * xhat, xhat = (src - m) * r
//             d = grad_dst * gamma[c];  grad_src = r * (d - mean of d - xhat * mean of d * xhat)
//             These means are over the channels of the group, h and w.
// Shapes  src, dst and their gradients: (N,C,H,W), storage. gamma, beta and their gradients: fp32 (C). Without affine
//         all four are absent, gamma is 1 and beta is 0. GRAD_GAMMA or GRAD_BETA may be absent if it is not wanted.
//         saved: float[2][N*groups], without a device layout.
// Types   arithmetic fp32 (ref: double); saved, and grad_gamma and grad_beta before the addition, are rounded to fp32
// Rules   groups divides the channels; a group has at least two elements (ls_op_check asserts both)
// Source  torch.nn.GroupNorm; Wu and He 2018, arXiv 1803.08494
#ifndef LS_DEVICE_OP_GROUP_NORM_H
#define LS_DEVICE_OP_GROUP_NORM_H

#include "base/shape.h"

typedef struct {
    ls_nchw shape;
    int groups;
    float eps;
    int affine;
    ls_dtype storage;
} ls_group_norm_attr;

enum {
    LS_GROUP_NORM_FORWARD_SRC,
    LS_GROUP_NORM_FORWARD_GAMMA,
    LS_GROUP_NORM_FORWARD_BETA,
    LS_GROUP_NORM_FORWARD_SAVED,
    LS_GROUP_NORM_FORWARD_DST,
    LS_GROUP_NORM_FORWARD_ARGS
};
enum {
    LS_GROUP_NORM_BACKWARD_SRC,
    LS_GROUP_NORM_BACKWARD_GRAD_DST,
    LS_GROUP_NORM_BACKWARD_GAMMA,
    LS_GROUP_NORM_BACKWARD_SAVED,
    LS_GROUP_NORM_BACKWARD_GRAD_SRC,
    LS_GROUP_NORM_BACKWARD_GRAD_GAMMA,
    LS_GROUP_NORM_BACKWARD_GRAD_BETA,
    LS_GROUP_NORM_BACKWARD_ARGS
};

// Number of elements of a group in one sample.
static inline double ls_group_norm_count(const ls_group_norm_attr *attr) {
    return (double)(attr->shape.c / attr->groups) * attr->shape.h * attr->shape.w;
}

#endif
