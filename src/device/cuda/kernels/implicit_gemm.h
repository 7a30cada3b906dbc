// implicit_gemm.h - convolutions with few channels on tensor cores. Memory bandwidth limits these three passes. The
// libraries' kernels, whose tiles are made for many channels, take several times as long if there are very few.
//
// Products are bf16, fp16, or fp32 rounded to TF32. They are summed in fp32, in an order that depends on the geometry
// only. Layouts are those of cuda.h. Padding channels of results are written as zero, whatever the inputs hold. Padding
// rows and columns of weight gradients are not changed. All arrays are 16-byte aligned.
#ifndef LS_DEVICE_CUDA_KERNELS_IMPLICIT_GEMM_H
#define LS_DEVICE_CUDA_KERNELS_IMPLICIT_GEMM_H

#include "device/cuda/kernels/direct.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LS_CUDA_IMPLICIT_FORWARD,
    LS_CUDA_IMPLICIT_BACKWARD_DATA,
    LS_CUDA_IMPLICIT_BACKWARD_WEIGHT
} ls_cuda_implicit_pass;

// Whether these kernels can compute the pass with this much shared memory in a block: one group, kernels up to 7x7, a
// dilation up to 21, at most 128 channels, activations of under 2^31 elements, strides up to 2 for the data gradient.
int ls_cuda_implicit_gemm_can(const ls_cuda_conv_geometry *g, ls_cuda_implicit_pass pass, size_t shared_bytes);

// Makes the plan of one pass, for which ls_cuda_implicit_gemm_can must hold. NULL: no host memory. Free it afterwards;
// free accepts NULL.
typedef struct ls_cuda_implicit_gemm ls_cuda_implicit_gemm;
ls_cuda_implicit_gemm *ls_cuda_implicit_gemm_new(
    const ls_cuda_conv_geometry *g, ls_cuda_implicit_pass pass, size_t shared_bytes);
void ls_cuda_implicit_gemm_free(ls_cuda_implicit_gemm *gemm);
size_t ls_cuda_implicit_gemm_workspace(const ls_cuda_implicit_gemm *gemm); // for backward weight

// The forward pass: dst = src convolved with weight, + bias. bias: fp32 [padded_k] or NULL
void ls_cuda_implicit_gemm_forward(const ls_cuda_implicit_gemm *gemm, const void *src, const void *weight,
    const float *bias, void *dst, cudaStream_t stream);
void ls_cuda_implicit_gemm_backward_data(
    const ls_cuda_implicit_gemm *gemm, const void *grad_dst, const void *weight, void *grad_src, cudaStream_t stream);
// grad_weight += gradient
void ls_cuda_implicit_gemm_backward_weight(const ls_cuda_implicit_gemm *gemm, const void *src, const void *grad_dst,
    float *grad_weight, void *workspace, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
