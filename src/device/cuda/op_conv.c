// op_conv.c - convolution and its gradients on CUDA.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/direct.h"

typedef struct {
    ls_cuda_plan plan;
    ls_cuda_conv_geometry geometry;
    int64_t rows; // pixels of dst
} conv_plan;

static ls_cuda_conv_geometry geometry_of(const ls_conv_attr *a) {
    return (ls_cuda_conv_geometry){ .n = a->src.n,
        .h = a->src.h,
        .w = a->src.w,
        .c = a->src.c,
        .p = a->dst.h,
        .q = a->dst.w,
        .k = a->dst.c,
        .padded_c = ls_cuda_channels(a->src.c),
        .padded_k = ls_cuda_channels(a->dst.c),
        .kernel = a->kernel,
        .stride = a->stride,
        .pad = a->pad,
        .dilation = a->dilation,
        .groups = a->groups,
        .storage = a->storage };
}

static void run_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const conv_plan *own = (const conv_plan *)plan;
    const float *bias = plan->desc.attr.conv.has_bias ? ls_cuda_at(args[LS_CONV_FORWARD_BIAS]) : NULL;
    ls_cuda_direct_forward(&own->geometry, ls_cuda_at(args[LS_CONV_FORWARD_SRC]),
        ls_cuda_at(args[LS_CONV_FORWARD_WEIGHT]), bias, ls_cuda_at(args[LS_CONV_FORWARD_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward_data(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const conv_plan *own = (const conv_plan *)plan;
    ls_cuda_direct_backward_data(&own->geometry, ls_cuda_at(args[LS_CONV_BACKWARD_DATA_GRAD_DST]),
        ls_cuda_at(args[LS_CONV_BACKWARD_DATA_WEIGHT]), ls_cuda_at(args[LS_CONV_BACKWARD_DATA_GRAD_SRC]),
        queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward_weight(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const conv_plan *own = (const conv_plan *)plan;
    const ls_conv_attr *a = &plan->desc.attr.conv;
    const void *grad_dst = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST]);
    ls_cuda_direct_backward_weight(&own->geometry, ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_SRC]), grad_dst,
        ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT]), ls_cuda_at(workspace), queue->stream);
    if (a->has_bias) {
        ls_cuda_bias_gradient(own->rows, own->geometry.padded_k, a->storage, grad_dst,
            ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS]), ls_cuda_at(workspace), queue->stream);
    }
    ls_cuda_enqueued(plan, queue);
}

// One after the other, the weight's and the bias's gradient use the same workspace.
static size_t workspace_bytes(const conv_plan *own, const ls_conv_attr *a) {
    size_t weight = ls_cuda_direct_workspace(&own->geometry), bias = 0;
    if (a->has_bias) bias = ls_cuda_bias_gradient_workspace(own->rows, own->geometry.padded_k, a->storage);
    return weight > bias ? weight : bias;
}

ls_status ls_cuda_conv_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_conv_attr *a = &desc->attr.conv;
    ls_cuda_run *run = desc->op == LS_OP_CONV_FORWARD         ? run_forward
                       : desc->op == LS_OP_CONV_BACKWARD_DATA ? run_backward_data
                                                              : run_backward_weight;
    conv_plan *own;
    LS_TRY(ls_cuda_plan_make(device, desc, sizeof *own, run, "direct", &own));
    own->geometry = geometry_of(a);
    own->rows = (int64_t)a->dst.n * a->dst.h * a->dst.w;
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT) own->plan.base.workspace_bytes = workspace_bytes(own, a);
    *out = &own->plan.base;
    return LS_SUCCESS;
}
