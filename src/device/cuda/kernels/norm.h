// norm.h - batch norm with the operators fused to it (op_norm.h). If shared memory can hold the input, one launch
// (norm_kept.cu). Otherwise (norm.cu) one launch computes statistics or sums over all pixels, and a second applies
// them. Over several ranks, the caller adds the sums of the ranks between these two (args.whole); a small additional
// launch then prepares the input of the second.
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
    // activations; NULL if the attributes do not need them
    const void *src, *residual, *dst, *grad_dst, *grad_dst2;
    void *out, *grad_residual; // written; out: dst or grad_src
    uint8_t *index;            // forward writes, backward reads
    // one element for each channel
    const float *gamma, *beta, *mean, *var; // mean, var: inference and its backward pass; else NULL
    float *saved, *sum_mean, *sum_var, *grad_gamma, *grad_beta;
    float *sums;    // workspace: [channels][2][places]
    float *factors; // workspace, backward in two launches: [3][channels]
    double *whole;  // over several ranks: [2][channels] and the count, as SUMS in op_norm.h; else NULL
    unsigned *done; // [columns]: count the blocks that have finished; must be 0 and are 0 again afterwards
} ls_cuda_norm_args;

// The comment at each function lists its outputs. If `whole` is NULL, statistics and backward_sums also do the work of
// the finish function after them.
void ls_cuda_norm_statistics(const ls_cuda_norm_args *args, cudaStream_t stream);      // whole
void ls_cuda_norm_finish(const ls_cuda_norm_args *args, cudaStream_t stream);          // saved, sum_mean, sum_var
void ls_cuda_norm_apply(const ls_cuda_norm_args *args, cudaStream_t stream);           // out, index
void ls_cuda_norm_backward_sums(const ls_cuda_norm_args *args, cudaStream_t stream);   // grad_gamma, grad_beta, whole
void ls_cuda_norm_backward_finish(const ls_cuda_norm_args *args, cudaStream_t stream); // factors
void ls_cuda_norm_backward_apply(const ls_cuda_norm_args *args, cudaStream_t stream);  // out, grad_residual

// One launch each. Forward writes saved, sum_mean, sum_var, out. Backward writes grad_gamma, grad_beta, out,
// grad_residual. Without pooling.
void ls_cuda_norm_forward_kept(const ls_cuda_norm_args *args, cudaStream_t stream);
void ls_cuda_norm_backward_kept(const ls_cuda_norm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
