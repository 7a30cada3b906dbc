// op_conv.c - convolutions: cuDNN's plan where there is one, else the direct kernels. The libraries' plans have neither
// biases nor fp32 sums of 16-bit weight gradients: own kernels add those.
//
// Weight gradients in 16 bits go to the front of the workspace and are then added
// to the arena; in fp32 cuDNN adds to it.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/direct.h"
#include "device/cuda/vendor.h"

typedef struct {
    ls_cuda_plan head;
    ls_cuda_conv_algorithm *algorithm; // NULL: direct kernels
    ls_cuda_conv_geometry geometry;
    int64_t rows, weights; // of dst: n * p * q; elements of the weight as laid out
    size_t grad_bytes;     // backward weight: the 16-bit gradient in the workspace
} conv_plan;

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void run_forward(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const conv_plan *plan = (const conv_plan *)base;
    const ls_cuda_conv_geometry *g = &plan->geometry;
    void *src = ls_cuda_at(args[LS_CONV_FORWARD_SRC]), *weight = ls_cuda_at(args[LS_CONV_FORWARD_WEIGHT]);
    void *bias = base->desc.attr.conv.has_bias ? ls_cuda_at(args[LS_CONV_FORWARD_BIAS]) : NULL;
    void *dst = ls_cuda_at(args[LS_CONV_FORWARD_DST]);
    if (!plan->algorithm) {
        ls_cuda_direct_forward(g, src, weight, bias, dst, queue->stream);
    } else {
        ls_cuda_conv_execute(plan->algorithm, src, weight, dst, ls_cuda_at(workspace), queue);
        if (bias) ls_cuda_bias_add(plan->rows, g->padded_k, g->storage, bias, dst, queue->stream);
    }
    ls_cuda_enqueued(base, queue);
}

static void run_backward_data(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const conv_plan *plan = (const conv_plan *)base;
    void *grad_dst = ls_cuda_at(args[LS_CONV_BACKWARD_DATA_GRAD_DST]);
    void *weight = ls_cuda_at(args[LS_CONV_BACKWARD_DATA_WEIGHT]);
    void *grad_src = ls_cuda_at(args[LS_CONV_BACKWARD_DATA_GRAD_SRC]);
    if (!plan->algorithm) {
        ls_cuda_direct_backward_data(&plan->geometry, grad_dst, weight, grad_src, queue->stream);
    } else {
        ls_cuda_conv_execute(plan->algorithm, grad_src, weight, grad_dst, ls_cuda_at(workspace), queue);
    }
    ls_cuda_enqueued(base, queue);
}

static void run_backward_weight(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const conv_plan *plan = (const conv_plan *)base;
    const ls_cuda_conv_geometry *g = &plan->geometry;
    void *src = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_SRC]), *room = ls_cuda_at(workspace);
    void *grad_dst = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST]);
    void *grad_weight = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT]);
    if (!plan->algorithm) {
        ls_cuda_direct_backward_weight(g, src, grad_dst, grad_weight, room, queue->stream);
    } else if (g->storage == LS_F32) {
        ls_cuda_conv_execute(plan->algorithm, src, grad_weight, grad_dst, room, queue);
    } else {
        void *rest = (char *)room + plan->grad_bytes;
        ls_cuda_conv_execute(plan->algorithm, src, room, grad_dst, rest, queue);
        ls_cuda_weight_accumulate(plan->weights, g->storage, room, grad_weight, queue->stream);
    }
    if (base->desc.attr.conv.has_bias) {
        void *grad_bias = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS]);
        ls_cuda_bias_gradient(plan->rows, g->padded_k, g->storage, grad_dst, grad_bias, room, queue->stream);
    }
    ls_cuda_enqueued(base, queue);
}

static ls_cuda_run *const runs[] = {
    [LS_OP_CONV_FORWARD] = run_forward,
    [LS_OP_CONV_BACKWARD_DATA] = run_backward_data,
    [LS_OP_CONV_BACKWARD_WEIGHT] = run_backward_weight,
};

static void free_parts(ls_plan *plan) {
    ls_cuda_conv_algorithm_free(((conv_plan *)plan)->algorithm);
}

static size_t workspace_of(const conv_plan *plan) {
    const ls_cuda_conv_geometry *g = &plan->geometry;
    size_t bytes = plan->algorithm ? ls_cuda_conv_workspace(plan->algorithm) : 0;
    if (plan->head.base.desc.op != LS_OP_CONV_BACKWARD_WEIGHT) return bytes;
    bytes = plan->algorithm ? plan->grad_bytes + bytes : ls_cuda_direct_workspace(g);
    if (!plan->head.base.desc.attr.conv.has_bias) return bytes;
    return larger(bytes, ls_cuda_bias_gradient_workspace(plan->rows, g->padded_k, g->storage)); // one after the other
}

ls_status ls_cuda_conv_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_conv_attr *a = &desc->attr.conv;
    int padded_c = ls_cuda_channels(a->src.c), padded_k = ls_cuda_channels(a->dst.c);
    int depth = a->groups > 1 ? a->src.c / a->groups : padded_c;
    conv_plan *plan = NULL;
    ls_cuda_conv_algorithm *algorithm = NULL;
    if (device->libraries) LS_TRY(ls_cuda_conv_algorithm_new(device->libraries, desc->op, a, desc->layer, &algorithm));
    ls_status status = ls_cuda_plan_make(
        device, desc, sizeof *plan, runs[desc->op], algorithm ? ls_cuda_conv_name(algorithm) : "direct", &plan);
    if (ls_failed(status)) {
        ls_cuda_conv_algorithm_free(algorithm);
        return status;
    }
    plan->head.free_parts = free_parts;
    plan->algorithm = algorithm;
    if (algorithm) plan->head.base.chosen = ls_cuda_conv_chosen(algorithm);
    plan->geometry = (ls_cuda_conv_geometry){ a->src.n, a->src.h, a->src.w, a->src.c, a->dst.h, a->dst.w, a->dst.c,
        padded_c, padded_k, a->kernel, a->stride, a->pad, a->dilation, a->groups, a->storage };
    plan->rows = (int64_t)a->dst.n * a->dst.h * a->dst.w;
    plan->weights = (int64_t)padded_k * a->kernel * a->kernel * depth;
    if (a->storage != LS_F32) plan->grad_bytes = (size_t)plan->weights * ls_dtype_bytes(a->storage);
    plan->head.base.workspace_bytes = workspace_of(plan);
    *out = &plan->head.base;
    return LS_SUCCESS;
}
