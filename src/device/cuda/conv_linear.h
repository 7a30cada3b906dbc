// conv_linear.h - the common part of convolutions and linear layers on this device. A library's plan or own kernels
// (implicit_gemm.h, depthwise.h, direct.h) compute the products. Added here: the bias after a convolution by cuDNN, a
// relu that the product does not include, and the gradient of the bias.
#ifndef LS_DEVICE_CUDA_CONV_LINEAR_H
#define LS_DEVICE_CUDA_CONV_LINEAR_H

#include "device/cuda/cuda.h"
#include "device/cuda/kernels/depthwise.h"
#include "device/cuda/kernels/implicit_gemm.h"
#include "device/cuda/libraries.h"

typedef struct {
    ls_cuda_plan head;
    ls_cuda_conv_algorithm *algorithm; // cuDNN's plan of a convolution, or NULL
    ls_cuda_gemm *gemm;                // cuBLASLt's plan of a linear layer, or NULL
    ls_cuda_implicit_gemm *implicit;   // plan of the implicit GEMM kernels, or NULL
    int depthwise;                     // 1: the depthwise kernels; 0, and no plan above: the direct kernels
    ls_cuda_conv_geometry geometry;
    int has_bias, bias_only;
    int relu;           // forward: negative results become 0
    ls_dtype bias_type; // forward: type of the bias
    int64_t rows;       // rows of dst: n * p * q
    ls_slab *done;      // counters of the bias gradient; NULL: there is none
} ls_cuda_conv_linear_plan;

// Makes a plan of `desc` from `parts`, in which everything except head and `done` is set. The plan then owns
// algorithm, gemm and implicit; they are freed if this fails.
LS_CHECKED ls_status ls_cuda_conv_linear_plan_make(ls_cuda_device *device, const ls_op_desc *desc, const char *name,
    const ls_cuda_conv_linear_plan *parts, ls_plan **out);

#endif
