// augment.h - changes uint8 planes (trivial_augment.cu), and converts them to normalised NHWC (augment.cu).
#ifndef LS_DEVICE_CUDA_KERNELS_AUGMENT_H
#define LS_DEVICE_CUDA_KERNELS_AUGMENT_H

#include <cuda_runtime_api.h>
#include "device/op_augment.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ls_augment_attr attr;
    int channels; // channels of dst, including padding
    const uint8_t *pixels;
    const ls_augment_sample *samples;
    const int32_t *index; // NULL unless indexed
    const float *table;
    void *dst;
} ls_cuda_augment_args;

typedef struct {
    ls_nchw shape;
    const uint8_t *pixels;
    const ls_augment_sample *samples;
    const int32_t *index; // NULL unless indexed
    uint8_t *dst;
} ls_cuda_trivial_augment_args;

void ls_cuda_trivial_augment(const ls_cuda_trivial_augment_args *args, cudaStream_t stream);
void ls_cuda_augment(const ls_cuda_augment_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
