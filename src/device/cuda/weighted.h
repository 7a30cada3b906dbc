// weighted.h - what convolutions and linear layers share on this device: a library's plan, or own kernels (implicit_gemm.h,
// depthwise.h, direct.h), and what no library's plan has: biases.
#ifndef LS_DEVICE_CUDA_WEIGHTED_H
#define LS_DEVICE_CUDA_WEIGHTED_H

#include "device/cuda/cuda.h"
#include "device/cuda/kernels/depthwise.h"
#include "device/cuda/kernels/implicit_gemm.h"
#include "device/cuda/vendor.h"

typedef struct {
    ls_cuda_plan head;
    ls_cuda_conv_algorithm *algorithm; // of a convolution, or NULL
    ls_cuda_gemm *gemm;                // of a linear layer, or NULL
    ls_cuda_implicit_gemm *implicit;   // of a convolution by these kernels, or NULL
    int depthwise;                     // by these kernels; none of the four: direct kernels
    ls_cuda_conv_geometry geometry;
    int has_bias, bias_only;
    int relu;           // forward
    ls_dtype bias_type; // forward
    int64_t rows;       // of dst: n * p * q
    ls_slab *done;      // the bias gradient's counters; NULL: there is none
} ls_cuda_weighted_plan;

// `parts`, where all but the head is set, becomes a plan of `desc`; the plan owns its algorithm and its products, which
// are freed where this fails.
LS_CHECKED ls_status ls_cuda_weighted_plan_make(ls_cuda_device *device, const ls_op_desc *desc, const char *name,
    const ls_cuda_weighted_plan *parts, ls_plan **out);

#endif
