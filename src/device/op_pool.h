// op_pool.h - max and average pooling. Max pooling can include the ReLU before it.
//   max       dst = max of src over the window, + bias[c] with has_bias (devices with LS_FUSES_BIAS); relu: max with 0
//             index = number r*kernel_w + s of the winner in its window (the first of equal elements, as in PyTorch),
//             or LS_POOL_NONE_* where relu clipped the winner (winner + bias <= 0), so that no gradient passes
//   average   dst = sum over the window / (kernel_h*kernel_w): padding counts as zeros (PyTorch's count_include_pad =
//             True)
//   backward  grad_src (overwrites): max gives each gradient of dst to the winner; average spreads it evenly over the
//             window
//   adaptive  average with stride_h = stride_w = 0 (PyTorch's AdaptiveAvgPool2d): row i of dst is the mean of the rows
//             floor(i*H/P) to ceil((i+1)*H/P) - 1 of src, columns likewise; kernel_h = ceil(H/P), and no padding
// A global pool is a pool whose kernel is as large as the map. Elements outside the map never win. 2*pad_h <= kernel_h
// and 2*pad_w <= kernel_w, so every window has an element inside the map. On ref a NaN wins, as in PyTorch; other
// devices need not do that.
// Shapes  src (N,C,H,W), dst (N,C,P,Q), P = (H + 2*pad_h - kernel_h)/stride_h + 1 (rounded down), Q likewise; bias (C)
//         max: P and Q may be one more (PyTorch's ceil_mode), if that window has an element inside the map
//         index: one uint8 or uint16 for each element of dst, in the device's own layout (ls_pool_index_bytes). It is
//         absent for average and for inference (attribute training = 0). Backward takes the attributes of its forward
//         pass, relu included.
// Types   src, dst, gradients: storage; bias, sums fp32
#ifndef LS_DEVICE_OP_POOL_H
#define LS_DEVICE_OP_POOL_H

#include "base/shape.h"

typedef enum { LS_POOL_MAX, LS_POOL_AVERAGE } ls_pool_kind;

typedef struct {
    ls_pool_kind kind;
    ls_nchw src, dst;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int relu;     // max only: negative results become 0
    int has_bias; // max only: bias of the layer before; backward ignores it
    int training; // forward: write the index
    ls_dtype storage;
} ls_pool_attr;

// The index is uint8 for windows of up to 254 elements (255 = none), else uint16 (65535 = none).
enum { LS_POOL_NONE_U8 = 255, LS_POOL_NONE_U16 = 65535, LS_POOL_WINDOW_MAX = 65534 };

enum { LS_POOL_FORWARD_SRC, LS_POOL_FORWARD_DST, LS_POOL_FORWARD_INDEX, LS_POOL_FORWARD_BIAS, LS_POOL_FORWARD_ARGS };
enum { LS_POOL_BACKWARD_GRAD_DST, LS_POOL_BACKWARD_INDEX, LS_POOL_BACKWARD_GRAD_SRC, LS_POOL_BACKWARD_ARGS };

#endif
