// direct.h - convolution without a library: used where neither a library nor the other own kernels can compute it, and
// as the oracle for the libraries' plans. Three passes with any stride, padding, dilation, groups and number of
// channels. A linear layer is the 1x1 convolution of a 1x1 map and uses the same kernels. Also the parts that the
// libraries' convolutions lack: bias and its gradient.
//
// Layouts are those of cuda.h. Padding channels of results are written as zero, whatever the inputs hold (a library
// would write 0 * inf). Padding rows and columns of weight gradients are not changed. All arrays are 16-byte aligned.
// Accumulation is fp32, in an order that depends on the geometry only.
#ifndef LS_DEVICE_CUDA_KERNELS_DIRECT_H
#define LS_DEVICE_CUDA_KERNELS_DIRECT_H

#include <cuda_runtime_api.h>
#include "base/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int n, h, w, c, p, q, k; // src (n,h,w,c), dst (n,p,q,k), without padding
    int padded_c, padded_k;  // with padding: ls_cuda_channels(c), ls_cuda_channels(k)
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation, groups;
    ls_dtype storage; // type of src, weight, dst
} ls_cuda_conv_geometry;

// Geometry of a linear layer. inputs: elements of a sample including padding (h * w * padded channels; padding meets
// zero weights).
static inline ls_cuda_conv_geometry ls_cuda_linear_geometry(
    int n, int inputs, int outputs, int padded_outputs, ls_dtype storage) {
    ls_cuda_conv_geometry g = { n, 1, 1, inputs, 1, 1, outputs, inputs, padded_outputs, 1, 1, 1, 1, 0, 0, 1, 1,
        storage };
    return g;
}

// The forward pass: dst = src convolved with weight, + bias. bias: [padded_k], in fp32 or in the storage type, or NULL
void ls_cuda_direct_forward(const ls_cuda_conv_geometry *g, const void *src, const void *weight, const void *bias,
    ls_dtype bias_type, void *dst, cudaStream_t stream);
void ls_cuda_direct_backward_data(
    const ls_cuda_conv_geometry *g, const void *grad_dst, const void *weight, void *grad_src, cudaStream_t stream);
// grad_weight += gradient. workspace: ls_cuda_direct_workspace bytes (0: may be NULL)
void ls_cuda_direct_backward_weight(const ls_cuda_conv_geometry *g, const void *src, const void *grad_dst,
    float *grad_weight, void *workspace, cudaStream_t stream);
size_t ls_cuda_direct_workspace(const ls_cuda_conv_geometry *g);

// In place: dst[row][k] += bias[k] (bias NULL: += 0); then with relu, negative results become 0; rounded once. rows:
// n*p*q. channels: padded, a multiple of 8, at most 2^20.
void ls_cuda_bias_add(
    int64_t rows, int channels, ls_dtype storage, const float *bias, int relu, void *dst, cudaStream_t stream);
// grad_bias[k] += sum of grad_dst[row][k] over the rows. done: ls_cuda_bias_gradient_counters counters, which must be 0
// and are 0 again afterwards.
void ls_cuda_bias_gradient(int64_t rows, int channels, ls_dtype storage, const void *grad_dst, float *grad_bias,
    void *workspace, unsigned *done, cudaStream_t stream);
size_t ls_cuda_bias_gradient_workspace(int64_t rows, int channels, ls_dtype storage);
size_t ls_cuda_bias_gradient_counters(int64_t rows, int channels, ls_dtype storage);

#ifdef __cplusplus
}
#endif
#endif
