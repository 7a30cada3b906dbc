// depthwise.h - convolution of each channel alone (groups = c = k), 3x3, 5x5 and 7x7, without dilation. The three
// passes read and write each tensor in memory about once.
//
// Layouts are those of cuda.h. Padding channels of results are written as zero, whatever the inputs hold. Padding rows
// of weight gradients are not written. All arrays are 16-byte aligned. Accumulation is fp32, in an order that depends
// on the geometry only.
#ifndef LS_DEVICE_CUDA_KERNELS_DEPTHWISE_H
#define LS_DEVICE_CUDA_KERNELS_DEPTHWISE_H

#include "device/cuda/kernels/direct.h"

#ifdef __cplusplus
extern "C" {
#endif

// Whether these kernels can compute the convolution: stride 1 or 2, each map fewer than 2^30 pixels, and as above.
int ls_cuda_depthwise_can(const ls_cuda_conv_geometry *g);

// The forward pass: dst = src convolved with weight, + bias. bias: fp32 [padded_k] or NULL
void ls_cuda_depthwise_forward(const ls_cuda_conv_geometry *g, const void *src, const void *weight, const float *bias,
    void *dst, cudaStream_t stream);
void ls_cuda_depthwise_backward_data(
    const ls_cuda_conv_geometry *g, const void *grad_dst, const void *weight, void *grad_src, cudaStream_t stream);
// grad_weight += gradient. workspace: ls_cuda_depthwise_workspace bytes
void ls_cuda_depthwise_backward_weight(const ls_cuda_conv_geometry *g, const void *src, const void *grad_dst,
    float *grad_weight, void *workspace, cudaStream_t stream);
size_t ls_cuda_depthwise_workspace(const ls_cuda_conv_geometry *g);

#ifdef __cplusplus
}
#endif
#endif
