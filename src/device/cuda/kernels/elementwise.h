// elementwise.h - element-wise kernels. Each thread handles 16 bytes of each tensor (dropout: up to 64). packs: number
// of 16-byte packs in the whole tensor. The output may be one of the inputs.
#ifndef LS_DEVICE_CUDA_KERNELS_ELEMENTWISE_H
#define LS_DEVICE_CUDA_KERNELS_ELEMENTWISE_H

#include <cuda_runtime_api.h>
#include "device/op_loss.h"
#include "device/op_elementwise.h"

#ifdef __cplusplus
extern "C" {
#endif

// Computes dst from a and b, the inputs in the order of the operator's arguments. b is NULL for an operator with one
// input.
typedef void ls_cuda_elementwise_launch(
    const ls_elementwise_attr *attr, const void *a, const void *b, void *dst, int64_t packs, cudaStream_t stream);
#define ELEMENTWISE(NAME, name, text, output, flops) ls_cuda_elementwise_launch ls_cuda_elementwise_##name;
#include "device/ops.def"
// Dropout. attr: its shape, storage, p, unit, layer and seed are read. channels: including padding
void ls_cuda_elementwise_dropout(const ls_elementwise_attr *attr, int channels, const void *src,
    const ls_micro_input *micro, void *dst, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
