// group_norm.h - group norm (op_group_norm.h). Forward: the first launch computes the statistics of each group of each
// sample, the second applies them. Backward: the first launch sums each channel of each sample. The next launches
// compute the sums of groups and of parameters from these sums. The last launch applies them. Over pixels, one launch
// computes the whole forward pass, and one computes grad_src; the gradients of the parameters take two more.
#ifndef LS_DEVICE_CUDA_KERNELS_GROUP_NORM_H
#define LS_DEVICE_CUDA_KERNELS_GROUP_NORM_H

#include <cuda_runtime_api.h>
#include "device/op_group_norm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ls_group_norm_attr attr;
    int channels;               // including padding
    const void *src, *grad_dst; // activations read
    void *out;                  // dst or grad_src
    const float *gamma, *beta;  // NULL unless affine
    float *saved;               // NULL: over nothing
    float *grad_gamma, *grad_beta;
    float *sums;   // workspace of backward: [n][2][channels]
    float *shares; // workspace after sums: [n][groups][2], the means of d and of d * xhat
} ls_cuda_group_norm_args;

void ls_cuda_group_norm_forward(const ls_cuda_group_norm_args *args, cudaStream_t stream);
void ls_cuda_group_norm_backward(const ls_cuda_group_norm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
