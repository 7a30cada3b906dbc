// op_group_norm.h - group normalisation: each sample by itself, over groups of neighbouring channels; alike in training and
// inference. One group is a layer norm over (C,H,W) with a weight a channel, a group a channel instance norm.
//   forward   m, v = mean and biased variance of src[n] over the channels of a group, h and w;  r = 1/sqrt(v + eps)
//             dst = (src - m) * r * gamma[c] + beta[c]
//             saved[0][n*groups + group] = m, saved[1][...] = r
//   backward  grad_beta[c] += sum over n,h,w of grad_dst;  grad_gamma[c] += sum of grad_dst * xhat, xhat = (src - m) * r
//             d = grad_dst * gamma[c];  grad_src = r * (d - mean of d - xhat * mean of d * xhat), means as above
// Shapes  src, dst and their gradients (N,C,H,W), storage; gamma, beta and their gradients fp32 (C), absent unless affine,
//         when gamma is 1 and beta 0, and GRAD_GAMMA or GRAD_BETA where it is not wanted; saved float[2][N*groups], without
//         a layout
// Types   arithmetic fp32 (ref: double); saved, and grad_gamma and grad_beta before adding, are rounded to fp32
// Errors  LS_USAGE groups do not divide the channels, or have one element (describe)
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

// Elements of a group, in one sample.
static inline double ls_group_norm_count(const ls_group_norm_attr *attr) {
    return (double)(attr->shape.c / attr->groups) * attr->shape.h * attr->shape.w;
}

#endif
