// weighted.h - what convolutions and linear layers share on this device: a library's plan where there is one, else own
// kernels, depthwise or direct, and what no library's plan has: biases, and fp32 sums of 16-bit weight gradients.
#ifndef LS_DEVICE_CUDA_WEIGHTED_H
#define LS_DEVICE_CUDA_WEIGHTED_H

#include "device/cuda/cuda.h"
#include "device/cuda/kernels/depthwise.h"
#include "device/cuda/vendor.h"

typedef struct {
    ls_cuda_plan head;
    ls_cuda_conv_algorithm *algorithm; // of a convolution, or NULL
    ls_cuda_gemm *gemm;                // of a linear layer, or NULL
    int depthwise;                     // by these kernels; none of the three: direct kernels
    ls_cuda_conv_geometry geometry;
    int has_bias, bias_only;
    int64_t rows, weights; // of dst: n * p * q; elements of the weight as laid out
    size_t grad_bytes;     // backward weight: the algorithm's 16-bit gradient, in front in the workspace
} ls_cuda_weighted_plan;

// `parts`, where all but the head is set, becomes a plan of `desc`; the plan owns its algorithm and its product, which
// are freed where this fails.
LS_CHECKED ls_status ls_cuda_weighted_plan_make(ls_cuda_device *device, const ls_op_desc *desc, const char *name,
    const ls_cuda_weighted_plan *parts, ls_plan **out);

#endif
