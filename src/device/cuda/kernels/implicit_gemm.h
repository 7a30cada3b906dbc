// implicit_gemm.h - convolutions of few channels on tensor cores: three passes whose bound is memory, where libraries' kernels, whose
// tiles are made for many channels, take several times as long.
//
// Products of bf16, fp16, or of fp32 rounded to TF32, summed in fp32 in an order that depends on the geometry only. Layouts are those of
// cuda.h. Padding channels of results are written zero, whatever the inputs hold; padded rows and columns of weight gradients are
// left as they are. All arrays are 16-byte aligned.
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

// Whether these kernels compute it within so many bytes of shared memory a block: one group, kernels up to 7x7, at most 128 channels,
// activations of fewer than 2^31 elements; the data gradient of strides up to 2.
int ls_cuda_implicit_gemm_can(const ls_cuda_conv_geometry *g, ls_cuda_implicit_pass pass, size_t shared_bytes);

// One pass of what they compute. NULL: no host memory. To be freed; NULL is allowed there.
typedef struct ls_cuda_implicit_gemm ls_cuda_implicit_gemm;
ls_cuda_implicit_gemm *ls_cuda_implicit_gemm_new(
    const ls_cuda_conv_geometry *g, ls_cuda_implicit_pass pass, size_t shared_bytes);
void ls_cuda_implicit_gemm_free(ls_cuda_implicit_gemm *gemm);
size_t ls_cuda_implicit_gemm_workspace(const ls_cuda_implicit_gemm *gemm); // bytes

// bias: fp32 [padded_k] or NULL
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
