// op_linear.c - the fully connected layer on CUDA: a matrix product over [H][W][C padded] inputs.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/direct.h"

typedef struct {
    ls_cuda_plan plan;
    ls_cuda_conv_geometry geometry;
} linear_plan;

static void run_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const linear_plan *own = (const linear_plan *)plan;
    const float *bias = plan->desc.attr.linear.has_bias ? ls_cuda_at(args[LS_LINEAR_FORWARD_BIAS]) : NULL;
    ls_cuda_direct_forward(&own->geometry, ls_cuda_at(args[LS_LINEAR_FORWARD_SRC]),
        ls_cuda_at(args[LS_LINEAR_FORWARD_WEIGHT]), bias, ls_cuda_at(args[LS_LINEAR_FORWARD_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward_data(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const linear_plan *own = (const linear_plan *)plan;
    ls_cuda_direct_backward_data(&own->geometry, ls_cuda_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_DST]),
        ls_cuda_at(args[LS_LINEAR_BACKWARD_DATA_WEIGHT]), ls_cuda_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_SRC]),
        queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward_weight(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const linear_plan *own = (const linear_plan *)plan;
    const ls_linear_attr *a = &plan->desc.attr.linear;
    const void *grad_dst = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST]);
    ls_cuda_direct_backward_weight(&own->geometry, ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_SRC]), grad_dst,
        ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT]), ls_cuda_at(workspace), queue->stream);
    if (a->has_bias) {
        ls_cuda_bias_gradient(a->src.n, own->geometry.padded_k, a->storage, grad_dst,
            ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS]), ls_cuda_at(workspace), queue->stream);
    }
    ls_cuda_enqueued(plan, queue);
}

// One after the other, the weight's and the bias's gradient use the same workspace.
static size_t workspace_bytes(const linear_plan *own, const ls_linear_attr *a) {
    size_t weight = ls_cuda_direct_workspace(&own->geometry), bias = 0;
    if (a->has_bias) bias = ls_cuda_bias_gradient_workspace(a->src.n, own->geometry.padded_k, a->storage);
    return weight > bias ? weight : bias;
}

ls_status ls_cuda_linear_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_linear_attr *a = &desc->attr.linear;
    ls_cuda_run *run = desc->op == LS_OP_LINEAR_FORWARD         ? run_forward
                       : desc->op == LS_OP_LINEAR_BACKWARD_DATA ? run_backward_data
                                                                : run_backward_weight;
    int inputs = (int)(ls_cuda_elements(a->src) / a->src.n);
    linear_plan *own;
    LS_TRY(ls_cuda_plan_make(device, desc, sizeof *own, run, "direct", &own));
    own->geometry =
        ls_cuda_linear_geometry(a->src.n, inputs, a->out_features, ls_cuda_channels(a->out_features), a->storage);
    if (desc->op == LS_OP_LINEAR_BACKWARD_WEIGHT) own->plan.base.workspace_bytes = workspace_bytes(own, a);
    *out = &own->plan.base;
    return LS_SUCCESS;
}
