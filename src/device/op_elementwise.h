// op_elementwise.h - element-wise operators on activations of one shape.
//   relu forward   dst = max(src, 0); NaN stays NaN on ref (other devices need not keep it)
//   relu backward  grad_src = dst > 0 ? grad_dst : 0
//   gelu forward   dst = src * Phi(src), Phi(x) = erfc(-x/sqrt(2))/2 the normal distribution function
//   gelu backward  grad_src = grad_dst * (Phi(src) + src * phi(src)), phi(x) = exp(-x^2/2)/sqrt(2 pi) its density
//                  NaN stays NaN. Forward, -inf gives NaN, as in PyTorch (-inf * 0). Backward, both infinities give
//                  NaN.
//   silu forward   dst = src * s(src), s(x) = 1/(1 + exp(-x)) the sigmoid
//   silu backward  grad_src = grad_dst * s(src) * (1 + src * (1 - s(src)))
//                  NaN stays NaN. Forward, -inf gives NaN, as in PyTorch. Backward, both infinities give NaN.
//   sigmoid forward   dst = s(src)
//   sigmoid backward  grad_src = grad_dst * s(src) * (1 - s(src))
//                     NaN stays NaN. Forward, the infinities give 1 and 0. Backward, they give 0.
//   add            dst = a + b
//   multiply       dst = a * b                                (its own backward: the gradient times the other input)
//   scale          dst = src * factor                         (its own backward)
//   dropout        dst = keep ? src / (1 - p) : 0             (its own backward: same mask)
//                  keep when ls_unit_float(word) >= p,
//                  word = ls_random_word(seed, LS_PURPOSE_DROPOUT, layer, update, position * C*H*W + i). i is the
//                  element's canonical (c,h,w) index in its sample. position is the sample's position in the window.
//                  The micro-batch record (ls_micro_input in op_loss.h) gives the update and the position of sample 0.
// In place is allowed: the output may be the same buffer as an input of the same type and shape (dst = src, or = a or
// b; backward of an activation: grad_src = grad_dst).
// Source  torch.nn.GELU (approximate = none), torch.nn.SiLU; Hendrycks and Gimpel 2016
#ifndef LS_DEVICE_OP_ELEMENTWISE_H
#define LS_DEVICE_OP_ELEMENTWISE_H

#include "base/shape.h"
#include "config/purpose.h"

typedef struct {
    ls_nchw shape;
    ls_dtype storage;
    float factor;  // scale
    float p;       // dropout: probability of zero, 0 <= p < 1
    int layer;     // dropout: the layer's index in its network
    uint64_t seed; // dropout
} ls_elementwise_attr;

enum { LS_RELU_FORWARD_SRC, LS_RELU_FORWARD_DST, LS_RELU_FORWARD_ARGS };
enum { LS_RELU_BACKWARD_DST, LS_RELU_BACKWARD_GRAD_DST, LS_RELU_BACKWARD_GRAD_SRC, LS_RELU_BACKWARD_ARGS };
enum { LS_GELU_FORWARD_SRC, LS_GELU_FORWARD_DST, LS_GELU_FORWARD_ARGS };
enum { LS_GELU_BACKWARD_SRC, LS_GELU_BACKWARD_GRAD_DST, LS_GELU_BACKWARD_GRAD_SRC, LS_GELU_BACKWARD_ARGS };
enum { LS_SILU_FORWARD_SRC, LS_SILU_FORWARD_DST, LS_SILU_FORWARD_ARGS };
enum { LS_SILU_BACKWARD_SRC, LS_SILU_BACKWARD_GRAD_DST, LS_SILU_BACKWARD_GRAD_SRC, LS_SILU_BACKWARD_ARGS };
enum { LS_SIGMOID_FORWARD_SRC, LS_SIGMOID_FORWARD_DST, LS_SIGMOID_FORWARD_ARGS };
enum { LS_SIGMOID_BACKWARD_SRC, LS_SIGMOID_BACKWARD_GRAD_DST, LS_SIGMOID_BACKWARD_GRAD_SRC, LS_SIGMOID_BACKWARD_ARGS };
enum { LS_ADD_A, LS_ADD_B, LS_ADD_DST, LS_ADD_ARGS };
enum { LS_MULTIPLY_A, LS_MULTIPLY_B, LS_MULTIPLY_DST, LS_MULTIPLY_ARGS };
enum { LS_SCALE_SRC, LS_SCALE_DST, LS_SCALE_ARGS };
enum { LS_DROPOUT_SRC, LS_DROPOUT_MICRO, LS_DROPOUT_DST, LS_DROPOUT_ARGS };

#endif
