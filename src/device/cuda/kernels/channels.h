// channels.h - copies of channels between activations (op_channels.h), and gates (op_gate.h).
#ifndef LS_DEVICE_CUDA_KERNELS_CHANNELS_H
#define LS_DEVICE_CUDA_KERNELS_CHANNELS_H

#include <cuda_runtime_api.h>
#include "device/op_channels.h"
#include "device/op_gate.h"

#ifdef __cplusplus
extern "C" {
#endif

// All numbers of channels include padding. src2: for interleave only.
void ls_cuda_copy_channels(const ls_channels_attr *attr, int src_channels, int dst_channels, const void *src,
    const void *src2, void *dst, cudaStream_t stream);
void ls_cuda_gate(
    const ls_gate_attr *attr, int channels, const void *src, const void *gate, void *dst, cudaStream_t stream);
void ls_cuda_gate_backward(const ls_gate_attr *attr, int channels, const void *src, const void *grad_dst,
    void *grad_gate, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
