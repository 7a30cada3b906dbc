// op_group_norm.h - group normalisation: each sample is normalised alone, over groups of neighbouring channels. It is
// the same in training and inference. With one group it is a layer norm over (C,H,W) with one weight for each channel;
// with one channel in each group it is an instance norm. Over pixels it is ConvNeXt's layer norm. Over nothing it is
// ConvNeXt's layer scale, which only multiplies.
//   forward   m, v = mean and biased variance of src[n] over the channels of a group, h and w;  r = 1/sqrt(v + eps)
//             over pixels: over all channels of each n,h,w.  over nothing: m = 0, r = 1, and nothing is saved
//             dst = (src - m) * r * gamma[c] + beta[c]
//             saved[0][n*groups + group] = m, saved[1][...] = r
//   backward  grad_beta[c] += sum over n,h,w of grad_dst
//             grad_gamma[c] += sum over n,h,w of grad_dst * xhat, xhat = (src - m) * r
//             d = grad_dst * gamma[c];  grad_src = r * (d - mean of d - xhat * mean of d * xhat)
//             These means are over the elements that m and v are over. Over nothing, grad_src = d.
// Shapes  src, dst and their gradients: (N,C,H,W), storage. gamma, beta and their gradients: fp32 (C). Without affine
//         all four are absent, gamma is 1 and beta is 0. GRAD_GAMMA or GRAD_BETA may be absent if it is not wanted.
//         saved: float[2][N*groups], over pixels float[2][N*H*W], without a device layout. Over nothing, SAVED and BETA
//         are absent.
// Types   arithmetic on elements fp32 (ref: double). saved is rounded to fp32; so are the values that are added to
//         grad_gamma and grad_beta (ref: only the results of these additions)
// Rules   groups divides the channels, and is 1 unless the norm is over groups; m is over at least two elements
//         (ls_op_check asserts these)
// Source  torch.nn.GroupNorm; Wu and He 2018, arXiv 1803.08494. Over pixels and nothing: torchvision's LayerNorm2d and
//         CNBlock; Liu et al. 2022, arXiv 2201.03545
#ifndef LS_DEVICE_OP_GROUP_NORM_H
#define LS_DEVICE_OP_GROUP_NORM_H

#include "base/shape.h"

typedef enum { LS_NORM_OVER_GROUPS, LS_NORM_OVER_PIXELS, LS_NORM_OVER_NOTHING } ls_norm_over;

typedef struct {
    ls_nchw shape;
    int groups;
    float eps;
    int affine;
    ls_dtype storage;
    ls_norm_over over;
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

// Number of elements that a mean is over.
static inline double ls_group_norm_count(const ls_group_norm_attr *attr) {
    const double channels = attr->shape.c / attr->groups;
    return attr->over == LS_NORM_OVER_GROUPS ? channels * attr->shape.h * attr->shape.w : channels;
}

// Number of means; there are as many deviations.
static inline int64_t ls_group_norm_means(const ls_group_norm_attr *attr) {
    if (attr->over == LS_NORM_OVER_NOTHING) return 0;
    if (attr->over == LS_NORM_OVER_GROUPS) return (int64_t)attr->shape.n * attr->groups;
    return (int64_t)attr->shape.n * attr->shape.h * attr->shape.w;
}

#endif
