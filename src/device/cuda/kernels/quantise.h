// quantise.h - fake quantisation (op_quantise.h).
#ifndef LS_DEVICE_CUDA_KERNELS_QUANTISE_H
#define LS_DEVICE_CUDA_KERNELS_QUANTISE_H

#include <cuda_runtime_api.h>
#include "device/op_quantise.h"

#ifdef __cplusplus
extern "C" {
#endif

// packs: 16-byte packs of the whole tensor. grad_dst: NULL: forward
void ls_cuda_fake_quantise(const float *src, const float *scale, const float *zero, const float *grad_dst, float *out,
    int64_t packs, cudaStream_t stream);
// rows: output channels, including padding. columns: elements of each
void ls_cuda_fake_quantise_weight(const float *src, float *dst, int rows, int columns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
