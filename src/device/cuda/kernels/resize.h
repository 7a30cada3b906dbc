// resize.h - bilinear resizing of NHWC.
#ifndef LS_DEVICE_CUDA_KERNELS_RESIZE_H
#define LS_DEVICE_CUDA_KERNELS_RESIZE_H

#include <cuda_runtime_api.h>
#include "device/op_resize.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ls_resize_attr attr;
    int channels; // including padding
    const void *src;
    void *dst;
} ls_cuda_resize_args;

void ls_cuda_resize(const ls_cuda_resize_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
