// op_conv.c - convolutions: the depthwise kernels where these compute them, implicit_gemm's where channels are few, else cuDNN's plan
// where there is one, else the direct kernels.
//
// cuDNN adds a weight gradient to what is there in fp32, and stores it in 16 bits: then only where it is given room for that.
#include "device/cuda/weighted.h"

enum { FEW_CHANNELS = 64 }; // of both maps

static ls_cuda_implicit_pass pass_of(ls_op op) {
    return op == LS_OP_CONV_FORWARD         ? LS_CUDA_IMPLICIT_FORWARD
           : op == LS_OP_CONV_BACKWARD_DATA ? LS_CUDA_IMPLICIT_BACKWARD_DATA
                                            : LS_CUDA_IMPLICIT_BACKWARD_WEIGHT;
}

// Tensor cores' products of fp32 are rounded to TF32.
static int takes_implicit(const ls_cuda_device *device, const ls_cuda_conv_geometry *g, ls_op op) {
    if (g->storage == LS_F32 && !device->tf32) return 0;
    if (g->padded_c > FEW_CHANNELS || g->padded_k > FEW_CHANNELS) return 0;
    return ls_cuda_implicit_gemm_can(g, pass_of(op), ls_cuda_shared_bytes(device->capability));
}

// The kernels that compute it; none of them: the direct ones.
static ls_status choose(ls_cuda_device *device, const ls_op_desc *desc, ls_cuda_weighted_plan *parts) {
    const ls_conv_attr *a = &desc->attr.conv;
    const int room = desc->op != LS_OP_CONV_BACKWARD_WEIGHT || a->storage == LS_F32 || a->rounds;
    parts->depthwise = ls_cuda_depthwise_can(&parts->geometry);
    if (parts->depthwise || a->bias_only) return LS_SUCCESS;
    if (takes_implicit(device, &parts->geometry, desc->op)) {
        parts->implicit =
            ls_cuda_implicit_gemm_new(&parts->geometry, pass_of(desc->op), ls_cuda_shared_bytes(device->capability));
        return parts->implicit ? LS_SUCCESS : ls_fail(LS_DEVICE, "layer %s: no memory for its plan", desc->layer);
    }
    return device->libraries && room
               ? ls_cuda_conv_algorithm_new(device->libraries, desc->op, a, desc->layer, &parts->algorithm)
               : LS_SUCCESS;
}

ls_status ls_cuda_conv_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_conv_attr *a = &desc->attr.conv;
    int padded_c = ls_cuda_channels(a->src.c), padded_k = ls_cuda_channels(a->dst.c);
    ls_cuda_weighted_plan parts = { .geometry = { a->src.n, a->src.h, a->src.w, a->src.c, a->dst.h, a->dst.w, a->dst.c,
                                        padded_c, padded_k, a->kernel_h, a->kernel_w, a->stride_h, a->stride_w,
                                        a->pad_h, a->pad_w, a->dilation, a->groups, a->storage },
        .has_bias = a->has_bias,
        .bias_only = a->bias_only,
        .bias_type = LS_F32,
        .rows = (int64_t)a->dst.n * a->dst.h * a->dst.w };
    LS_TRY(choose(device, desc, &parts));
    const char *name = parts.algorithm   ? ls_cuda_conv_name(parts.algorithm)
                       : parts.implicit  ? "implicit gemm"
                       : parts.depthwise ? "depthwise"
                                         : "direct";
    LS_TRY(ls_cuda_weighted_plan_make(device, desc, name, &parts, out));
    if (parts.algorithm) (*out)->chosen = ls_cuda_conv_chosen(parts.algorithm);
    return LS_SUCCESS;
}
