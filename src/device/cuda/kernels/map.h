// map.h - element-wise kernels: 16 bytes of each tensor to a thread. packs: 16-byte packs
// of the whole tensor. The output may be an input.
#ifndef LS_DEVICE_CUDA_KERNELS_MAP_H
#define LS_DEVICE_CUDA_KERNELS_MAP_H

#include <cuda_runtime_api.h>
#include "device/op_loss.h"
#include "device/op_map.h"

#ifdef __cplusplus
extern "C" {
#endif

void ls_cuda_map_relu(ls_dtype storage, const void *src, void *dst, int64_t packs, cudaStream_t stream);
void ls_cuda_map_relu_backward(
    ls_dtype storage, const void *dst, const void *grad_dst, void *grad_src, int64_t packs, cudaStream_t stream);
void ls_cuda_map_gelu(ls_dtype storage, const void *src, void *dst, int64_t packs, cudaStream_t stream);
void ls_cuda_map_gelu_backward(
    ls_dtype storage, const void *src, const void *grad_dst, void *grad_src, int64_t packs, cudaStream_t stream);
void ls_cuda_map_add(ls_dtype storage, const void *a, const void *b, void *dst, int64_t packs, cudaStream_t stream);
void ls_cuda_map_scale(ls_dtype storage, const void *src, float factor, void *dst, int64_t packs, cudaStream_t stream);
// attr: shape, storage, p, layer, seed. channels: as laid out
void ls_cuda_map_dropout(const ls_map_attr *attr, int channels, const void *src, const ls_micro_input *micro, void *dst,
    cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
