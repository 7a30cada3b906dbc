// op_linear.h - fully connected layer (torch.nn.Linear) and its gradients. It reads a feature map as one vector.
//   forward          dst[n,o] = bias[o] + sum_{c,h,w} src[n,c,h,w] * weight[o,c,h,w]; with `relu`, negative results
//                    become 0 (devices with LS_FUSES_BIAS)
//   backward data    grad_src = gradient with respect to src (overwrites)
//   backward weight  grad_weight += ..., grad_bias += ..., fp32
// Shapes  src (N,C,H,W); weight (O,C,H,W), which is PyTorch's (O, C*H*W); bias (O); dst (N,O,1,1)
// Types   src, dst, their gradients, weight and bias: storage; grad_weight, grad_bias: fp32
#ifndef LS_DEVICE_OP_LINEAR_H
#define LS_DEVICE_OP_LINEAR_H

#include "device/op_conv.h"
#include "device/op_loss.h"

typedef struct {
    ls_nchw src;
    int out_features;
    int has_bias;
    int bias_only; // backward weight: GRAD_WEIGHT is absent
    ls_dtype storage;
    int relu; // forward: negative results become 0
} ls_linear_attr;

// Whether the layer is small enough for a head (op_loss.h). A GPU then computes its weight and bias gradients in one
// launch.
static inline int ls_linear_is_small(const ls_linear_attr *a) {
    return a->src.h * a->src.w == 1 && !a->bias_only && ls_head_fits(a->src, a->out_features);
}

// The arguments are those of a convolution, so the same code can lower or run both.
enum {
    LS_LINEAR_FORWARD_SRC = LS_CONV_FORWARD_SRC,
    LS_LINEAR_FORWARD_WEIGHT = LS_CONV_FORWARD_WEIGHT,
    LS_LINEAR_FORWARD_BIAS = LS_CONV_FORWARD_BIAS,
    LS_LINEAR_FORWARD_DST = LS_CONV_FORWARD_DST,
    LS_LINEAR_FORWARD_ARGS = LS_CONV_FORWARD_ARGS
};
enum {
    LS_LINEAR_BACKWARD_DATA_GRAD_DST = LS_CONV_BACKWARD_DATA_GRAD_DST,
    LS_LINEAR_BACKWARD_DATA_WEIGHT = LS_CONV_BACKWARD_DATA_WEIGHT,
    LS_LINEAR_BACKWARD_DATA_GRAD_SRC = LS_CONV_BACKWARD_DATA_GRAD_SRC,
    LS_LINEAR_BACKWARD_DATA_ARGS = LS_CONV_BACKWARD_DATA_ARGS
};
enum {
    LS_LINEAR_BACKWARD_WEIGHT_SRC = LS_CONV_BACKWARD_WEIGHT_SRC,
    LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST = LS_CONV_BACKWARD_WEIGHT_GRAD_DST,
    LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT = LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT,
    LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS = LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS,
    LS_LINEAR_BACKWARD_WEIGHT_ARGS = LS_CONV_BACKWARD_WEIGHT_ARGS
};

#endif
