// op_conv.h - 2-D convolution (cross-correlation, as in torch.nn.Conv2d) and its gradients.
//   forward          dst[n,k,p,q] = bias[k] + sum_{c,r,s} src[n,c,y,x] * weight[k,c,r,s],
//                    y = p*stride_h - pad_h + r*dilation, x = q*stride_w - pad_w + s*dilation
//   backward data    grad_src = gradient with respect to src (overwrites)
//   backward weight  grad_weight += gradient with respect to weight, fp32
//                    grad_bias[k] += sum_{n,p,q} grad_dst[n,k,p,q]
//                    With `rounds`, a device may store part of the weight gradient in grad_rounded, rounded to storage,
//                    instead of adding it to grad_weight. grad_rounded is zero before the run. The gradient is the sum
//                    of both arrays (see WIDEN in op_update.h).
// Shapes  src (N,C,H,W), weight (K,C/groups,R,S), bias (K), dst (N,K,P,Q), R = kernel_h, S = kernel_w,
//         P = (H + 2*pad_h - dilation*(R-1) - 1)/stride_h + 1, Q = (W + 2*pad_w - dilation*(S-1) - 1)/stride_w + 1
// Types   src, dst, their gradients, weight and grad_rounded: storage; bias, grad_weight, grad_bias: fp32; accumulation
//         fp32 (ref: double)
// Errors  LS_DEVICE: the device has no algorithm (plan_new)
// Source  PyTorch Conv2d documentation; oneDNN convolution primitive; cuDNN 9 graph API
#ifndef LS_DEVICE_OP_CONV_H
#define LS_DEVICE_OP_CONV_H

#include "base/shape.h"

typedef struct {
    ls_nchw src, dst;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation, groups;
    int has_bias;
    int bias_only; // backward weight: GRAD_WEIGHT is absent
    int rounds;    // backward weight in 16-bit storage: GRAD_ROUNDED is present
    ls_dtype storage;
} ls_conv_attr;

static inline int ls_conv_taps(const ls_conv_attr *attr) {
    return attr->kernel_h * attr->kernel_w;
}

enum { LS_CONV_FORWARD_SRC, LS_CONV_FORWARD_WEIGHT, LS_CONV_FORWARD_BIAS, LS_CONV_FORWARD_DST, LS_CONV_FORWARD_ARGS };
enum {
    LS_CONV_BACKWARD_DATA_GRAD_DST,
    LS_CONV_BACKWARD_DATA_WEIGHT,
    LS_CONV_BACKWARD_DATA_GRAD_SRC,
    LS_CONV_BACKWARD_DATA_ARGS
};
enum {
    LS_CONV_BACKWARD_WEIGHT_SRC,
    LS_CONV_BACKWARD_WEIGHT_GRAD_DST,
    LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT,
    LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS,
    LS_CONV_BACKWARD_WEIGHT_GRAD_ROUNDED, // same layout as the weight
    LS_CONV_BACKWARD_WEIGHT_ARGS
};

#endif
