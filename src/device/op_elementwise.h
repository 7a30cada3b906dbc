// op_elementwise.h - element-wise operators on activations of one shape.
//   relu forward   dst = max(src, 0); NaN stays NaN on ref (other devices need not keep it)
//   relu backward  grad_src = dst > 0 ? grad_dst : 0
//   activation forward   dst = f(src), f = ls_activation_value (config/activation.h, activations.def)
//                        NaN stays NaN. x times something (gelu, gelu_tanh, silu, hardswish, mish) is NaN at -inf,
//                        as in PyTorch (-inf * 0).
//   activation backward  grad_src = grad_dst * f'(src), f' = ls_activation_slope
//                        Gelu, silu and mish give NaN for both infinities. For NaN, relu6 and elu take the slope 1,
//                        leaky_relu its slope, hardsigmoid 0, as in PyTorch; the others give NaN. At a kink the slope
//                        is that of the flat side, and in leaky_relu and elu that of the side below.
//   add            dst = a + b
//   multiply       dst = a * b                                (its own backward: the gradient times the other input)
//   scale          dst = src * factor                         (its own backward)
//   dropout        dst = keep ? src / (1 - p) : 0             (its own backward: same mask)
//                  keep when ls_unit_float(word) >= p,
//                  word = ls_random_word(seed, LS_PURPOSE_DROPOUT, layer, update, (position * C*H*W + i) / unit). i is
//                  the element's canonical (c,h,w) index in its sample. position is the sample's place in the window.
//                  unit: elements that share a number: 1, H*W (a channel) or C*H*W (a sample)
//                  The micro-batch record (ls_micro_input in op_loss.h) gives the update and the position of sample 0.
// In place is allowed: the output may be the same buffer as an input of the same type and shape (dst = src, or = a or
// b; backward of an activation: grad_src = grad_dst).
// Source  torch.nn.functional; Hendrycks and Gimpel 2016 (gelu); Howard et al. 2019 (hardswish); Misra 2019 (mish)
#ifndef LS_DEVICE_OP_ELEMENTWISE_H
#define LS_DEVICE_OP_ELEMENTWISE_H

#include "base/shape.h"
#include "config/activation.h"
#include "config/purpose.h"

typedef struct {
    ls_nchw shape;
    ls_dtype storage;
    ls_activation activation; // activation forward, backward: the kind
    float parameter;          // activation forward, backward: the parameter
    float factor;             // scale: the factor
    float p;                  // dropout: probability of zero, 0 <= p < 1
    int unit;                 // dropout: 1, H*W or C*H*W
    int layer;                // dropout: the layer's index in its network
    uint64_t seed;            // dropout
} ls_elementwise_attr;

enum { LS_RELU_FORWARD_SRC, LS_RELU_FORWARD_DST, LS_RELU_FORWARD_ARGS };
enum { LS_RELU_BACKWARD_DST, LS_RELU_BACKWARD_GRAD_DST, LS_RELU_BACKWARD_GRAD_SRC, LS_RELU_BACKWARD_ARGS };
enum { LS_ACTIVATION_FORWARD_SRC, LS_ACTIVATION_FORWARD_DST, LS_ACTIVATION_FORWARD_ARGS };
enum {
    LS_ACTIVATION_BACKWARD_SRC,
    LS_ACTIVATION_BACKWARD_GRAD_DST,
    LS_ACTIVATION_BACKWARD_GRAD_SRC,
    LS_ACTIVATION_BACKWARD_ARGS
};
enum { LS_ADD_A, LS_ADD_B, LS_ADD_DST, LS_ADD_ARGS };
enum { LS_MULTIPLY_A, LS_MULTIPLY_B, LS_MULTIPLY_DST, LS_MULTIPLY_ARGS };
enum { LS_SCALE_SRC, LS_SCALE_DST, LS_SCALE_ARGS };
enum { LS_DROPOUT_SRC, LS_DROPOUT_MICRO, LS_DROPOUT_DST, LS_DROPOUT_ARGS };

#endif
