// head.h - the head of a network in one launch; the gradients of a linear layer with few outputs in another
// (device/op_loss.h, ls_head_fits).
#ifndef LS_DEVICE_CUDA_KERNELS_HEAD_H
#define LS_DEVICE_CUDA_KERNELS_HEAD_H

#include "device/cuda/kernels/loss.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ls_cuda_loss_args loss;           // arguments of the loss
    int channels;                     // channels of src, including padding
    const void *src, *weight, *bias;  // bias: NULL: no bias
    void *logits, *pooled, *grad_src; // pooled: NULL if the map is one pixel
} ls_cuda_head_args;

void ls_cuda_head(const ls_cuda_head_args *args, cudaStream_t stream);

typedef struct {
    int samples, inputs, outputs;      // without padding
    int padded_inputs, padded_outputs; // with padding
    ls_dtype storage;                  // type of src and grad_dst
    const void *src, *grad_dst;        // [samples][padded]
    float *grad_weight, *grad_bias;    // += the gradients; grad_bias: NULL: no bias
} ls_cuda_head_gradient_args;

void ls_cuda_head_gradient(const ls_cuda_head_gradient_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
