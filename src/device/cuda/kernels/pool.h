// pool.h - max and average pooling.
#ifndef LS_DEVICE_CUDA_KERNELS_POOL_H
#define LS_DEVICE_CUDA_KERNELS_POOL_H

#include <cuda_runtime_api.h>
#include "device/op_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LS_CUDA_POOL_WINDOW, // one thread for each pack of a window
    LS_CUDA_POOL_SHARED  // one block for up to 32 packs of a window; for few large windows
} ls_cuda_pool_kernel;

// Pools src into dst. channels: including padding. index: NULL if not needed, and for average. bias: NULL or
// [channels].
void ls_cuda_pool_forward(const ls_pool_attr *attr, int channels, ls_cuda_pool_kernel kernel, const void *src,
    const float *bias, void *dst, void *index, cudaStream_t stream);
void ls_cuda_pool_backward(const ls_pool_attr *attr, int channels, const void *grad_dst, const void *index,
    void *grad_src, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
