// op_conv.c - convolutions. The depthwise kernels are used if they can compute the convolution. Otherwise the faster of
// the implicit GEMM kernels and cuDNN is used, decided by measurement or by a rule. If neither can compute it, the
// direct kernels do.
//
// cuDNN adds a weight gradient to an fp32 array, but overwrites a 16-bit array. So for 16-bit gradients it is used only
// if there is a separate array for them (attr.rounds).
#include "device/cuda/conv_linear.h"

#define IMPLICIT "implicit gemm"

static ls_cuda_implicit_pass pass_of(ls_op op) {
    return op == LS_OP_CONV_FORWARD         ? LS_CUDA_IMPLICIT_FORWARD
           : op == LS_OP_CONV_BACKWARD_DATA ? LS_CUDA_IMPLICIT_BACKWARD_DATA
                                            : LS_CUDA_IMPLICIT_BACKWARD_WEIGHT;
}

// Whether the implicit GEMM kernels are faster on an H100, by the number of weights (docs/cuda.md#implicit-gemm).
static int is_faster(const ls_cuda_conv_geometry *g, ls_op op) {
    const int taps = g->kernel_h * g->kernel_w, weights = taps * g->padded_c * g->padded_k;
    const int strides = g->stride_h * g->stride_w, narrow = g->storage != LS_F32;
    if (taps == 1 && strides == 1) return 0; // this is a plain matrix product
    if (op == LS_OP_CONV_FORWARD) return weights <= (narrow ? 14336 : 6400);
    // weights that meet one pixel of the source
    if (op == LS_OP_CONV_BACKWARD_DATA) return weights / strides <= (narrow ? 9216 : 6400);
    return weights <= (narrow ? 18432 : 9216);
}

// Runs the implicit GEMM of `context`, an ls_cuda_conv_linear_plan, once, to be timed.
static void run_implicit(void *context, void *image, void *weight, void *result, void *workspace, ls_queue *queue) {
    const ls_cuda_conv_linear_plan *parts = context;
    const ls_op op = parts->head.base.desc.op;
    if (op == LS_OP_CONV_FORWARD) {
        ls_cuda_implicit_gemm_forward(parts->implicit, image, weight, NULL, result, queue->stream);
    } else if (op == LS_OP_CONV_BACKWARD_DATA) {
        ls_cuda_implicit_gemm_backward_data(parts->implicit, result, weight, image, queue->stream);
    } else {
        float *gradient = (float *)workspace + ls_cuda_implicit_gemm_workspace(parts->implicit) / sizeof(float);
        ls_cuda_implicit_gemm_backward_weight(parts->implicit, image, result, gradient, workspace, queue->stream);
    }
}

// Chooses the faster of a library's plan and own kernels. *chosen: as ls_plan.chosen.
static ls_status choose_faster(
    ls_cuda_device *device, const ls_op_desc *desc, ls_cuda_conv_linear_plan *parts, const char **chosen) {
    const ls_cuda_conv_geometry *g = &parts->geometry;
    const size_t gradient = (size_t)g->padded_k * (size_t)g->kernel_h * (size_t)g->kernel_w * (size_t)g->padded_c;
    parts->head.base.desc = *desc;
    ls_cuda_own_conv own = { IMPLICIT, is_faster(g, desc->op), run_implicit, parts, 0 };
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT && parts->implicit)
        own.workspace = ls_cuda_implicit_gemm_workspace(parts->implicit) + gradient * sizeof(float);
    return ls_cuda_conv_algorithm_new(device->libraries, desc->op, &desc->attr.conv, desc->layer,
        parts->implicit ? &own : NULL, &parts->algorithm, chosen);
}

// Chooses the kernels and sets them in parts. If none is set, the direct kernels compute the convolution.
static ls_status choose(
    ls_cuda_device *device, const ls_op_desc *desc, ls_cuda_conv_linear_plan *parts, const char **chosen) {
    const ls_conv_attr *a = &desc->attr.conv;
    const size_t shared = device->shared_bytes;
    const int room = desc->op != LS_OP_CONV_BACKWARD_WEIGHT || a->storage == LS_F32 || a->rounds;
    // products: the kernels of tensor cores may be used
    const int products =
        (a->storage != LS_F32 || device->tf32) && !device->no_implicit_gemm && device->capability >= LS_CUDA_BF16;
    ls_status status = LS_SUCCESS;
    parts->depthwise = ls_cuda_depthwise_can(&parts->geometry);
    if (parts->depthwise || a->bias_only) return LS_SUCCESS;
    if (products && ls_cuda_implicit_gemm_can(&parts->geometry, pass_of(desc->op), shared)) {
        parts->implicit = ls_cuda_implicit_gemm_new(&parts->geometry, pass_of(desc->op), shared);
        if (!parts->implicit) return ls_fail(LS_DEVICE, "layer %s: no memory for its plan", desc->layer);
    }
    if (device->libraries && room && !(device->no_library && parts->implicit))
        status = choose_faster(device, desc, parts, chosen);
    if (ls_failed(status) || parts->algorithm) {
        ls_cuda_implicit_gemm_free(parts->implicit);
        parts->implicit = NULL;
    }
    return status;
}

ls_status ls_cuda_conv_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_conv_attr *a = &desc->attr.conv;
    int padded_c = ls_cuda_channels(a->src.c), padded_k = ls_cuda_channels(a->dst.c);
    ls_cuda_conv_linear_plan parts = { .geometry = { a->src.n, a->src.h, a->src.w, a->src.c, a->dst.h, a->dst.w,
                                           a->dst.c, padded_c, padded_k, a->kernel_h, a->kernel_w, a->stride_h,
                                           a->stride_w, a->pad_h, a->pad_w, a->dilation, a->groups, a->storage },
        .has_bias = a->has_bias,
        .bias_only = a->bias_only,
        .bias_type = LS_F32,
        .rows = (int64_t)a->dst.n * a->dst.h * a->dst.w };
    const char *chosen = NULL;
    LS_TRY(choose(device, desc, &parts, &chosen));
    const char *name = parts.algorithm   ? ls_cuda_conv_name(parts.algorithm)
                       : parts.implicit  ? IMPLICIT
                       : parts.depthwise ? "depthwise"
                                         : "direct";
    LS_TRY(ls_cuda_conv_linear_plan_make(device, desc, name, &parts, out));
    (*out)->chosen = chosen;
    return LS_SUCCESS;
}
