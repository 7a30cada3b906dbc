// norm.h - batch norm with what follows it (op_norm.h). In one launch where shared memory holds what it reads (norm_kept.cu);
// else (norm.cu) statistics or sums over all pixels in one launch, then one launch that applies them. Over several ranks the
// sums leave the device's hands between the two (args.whole): then a small launch makes of them what the second one reads.
#ifndef LS_DEVICE_CUDA_KERNELS_NORM_H
#define LS_DEVICE_CUDA_KERNELS_NORM_H

#include <cuda_runtime_api.h>
#include "device/gpu/norm_grid.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ls_norm_attr attr;
    ls_cuda_norm_grid grid;
    // activations; NULL where the attributes have none
    const void *src, *residual, *dst, *grad_dst, *grad_dst2; // read; dst: backward, where y does not follow from src
    void *out, *grad_residual;                               // written: dst or grad_src
    uint8_t *index;                                          // forward writes, backward reads
    // per channel
    const float *gamma, *beta, *mean, *var; // mean, var: inference and its backward pass; else NULL
    float *saved, *sum_mean, *sum_var, *grad_gamma, *grad_beta;
    float *sums;    // workspace: [channels][2][places]
    float *factors; // workspace, backward in two launches: [3][channels]
    double *whole;  // over several ranks: [2][channels] and the count, as op_norm.h has SUMS; else NULL
    unsigned *done; // [columns]; 0, and 0 again afterwards: counts the blocks that have finished
} ls_cuda_norm_args;

// What each writes is beside it; statistics and backward sums do what the finish behind them does, where `whole` is NULL.
void ls_cuda_norm_statistics(const ls_cuda_norm_args *args, cudaStream_t stream);      // whole
void ls_cuda_norm_finish(const ls_cuda_norm_args *args, cudaStream_t stream);          // saved, sum_mean, sum_var
void ls_cuda_norm_apply(const ls_cuda_norm_args *args, cudaStream_t stream);           // out, index
void ls_cuda_norm_backward_sums(const ls_cuda_norm_args *args, cudaStream_t stream);   // grad_gamma, grad_beta, whole
void ls_cuda_norm_backward_finish(const ls_cuda_norm_args *args, cudaStream_t stream); // factors
void ls_cuda_norm_backward_apply(const ls_cuda_norm_args *args, cudaStream_t stream);  // out, grad_residual

// In one launch: saved, sum_mean, sum_var, out; grad_gamma, grad_beta, out, grad_residual. No pooling.
void ls_cuda_norm_forward_kept(const ls_cuda_norm_args *args, cudaStream_t stream);
void ls_cuda_norm_backward_kept(const ls_cuda_norm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
