// fused_plans.h - can cuDNN plan a convolution together with the batch norm and the ReLU beside it, without a compiler at run
// time? Its precompiled engines for that take fp16 in NHWC (cuDNN's documentation, "Specialized Pre-Compiled Engines").
#ifndef TESTS_DEVICE_CUDA_FUSED_PLANS_H
#define TESTS_DEVICE_CUDA_FUSED_PLANS_H

#include "device/cuda/libraries_internal.h"

typedef enum {
    FUSED_STATISTICS, // y = conv(x, w), sums and sums of squares of y's channels
    FUSED_FORWARD,    // ConvBNfprop: the same of x := relu(x * scale + bias)
    FUSED_WEIGHT,     // ConvBNwgrad: dw of x := relu(x * scale + bias)
    FUSED_DATA,       // DgradDreluBNBwdWeight: dx of the convolution, through the ReLU, and the batch norm's sums
    FUSED_PATTERNS
} fused_pattern;

typedef struct {
    int plans, compiled; // is there a precompiled plan; engines before it that would need a compiler at run time
    int64_t engine;      // of the plan
    size_t workspace;    // its bytes
    unsigned notes;      // numerical, as ls_cudnn_plan.notes
    char why[1024];      // where there is none: each engine that was refused, status and message
} fused_outcome;

const char *fused_name(fused_pattern pattern);
// attr: in any storage type; the graph is of `type`.
void fused_plan(cudnnBackendDescriptor_t described, fused_pattern pattern, const ls_conv_attr *attr,
    cudnnDataType_t type, fused_outcome *out);

#endif
