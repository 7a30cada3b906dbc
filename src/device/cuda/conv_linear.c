#include "device/cuda/conv_linear.h"

// Arguments have the names of a convolution's arguments; a linear layer's are the same (device/op_linear.h).

static void run_forward(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_cuda_conv_linear_plan *plan = (const ls_cuda_conv_linear_plan *)base;
    const ls_cuda_conv_geometry *g = &plan->geometry;
    void *src = ls_cuda_at(args[LS_CONV_FORWARD_SRC]), *weight = ls_cuda_at(args[LS_CONV_FORWARD_WEIGHT]);
    void *bias = plan->has_bias ? ls_cuda_at(args[LS_CONV_FORWARD_BIAS]) : NULL;
    void *dst = ls_cuda_at(args[LS_CONV_FORWARD_DST]);
    if (plan->algorithm)
        ls_cuda_conv_execute(plan->algorithm, src, weight, dst, ls_cuda_at(workspace), queue);
    else if (plan->gemm)
        ls_cuda_gemm_execute(plan->gemm, src, weight, dst, bias, dst, ls_cuda_at(workspace), queue);
    else if (plan->implicit)
        ls_cuda_implicit_gemm_forward(plan->implicit, src, weight, bias, dst, queue->stream);
    else if (plan->depthwise)
        ls_cuda_depthwise_forward(g, src, weight, bias, dst, queue->stream);
    else
        ls_cuda_direct_forward(g, src, weight, bias, plan->bias_type, dst, queue->stream);
    const float *left = plan->algorithm ? bias : NULL; // the other kernels have added the bias already
    if (left || (plan->relu && !plan->gemm))
        ls_cuda_bias_add(plan->rows, g->padded_k, g->storage, left, plan->relu, dst, queue->stream);
    ls_cuda_enqueued(base, queue);
}

static void run_backward_data(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_cuda_conv_linear_plan *plan = (const ls_cuda_conv_linear_plan *)base;
    void *grad_dst = ls_cuda_at(args[LS_CONV_BACKWARD_DATA_GRAD_DST]);
    void *weight = ls_cuda_at(args[LS_CONV_BACKWARD_DATA_WEIGHT]);
    void *grad_src = ls_cuda_at(args[LS_CONV_BACKWARD_DATA_GRAD_SRC]);
    if (plan->algorithm)
        ls_cuda_conv_execute(plan->algorithm, grad_src, weight, grad_dst, ls_cuda_at(workspace), queue);
    else if (plan->gemm)
        ls_cuda_gemm_execute(plan->gemm, grad_dst, weight, grad_src, NULL, grad_src, ls_cuda_at(workspace), queue);
    else if (plan->implicit)
        ls_cuda_implicit_gemm_backward_data(plan->implicit, grad_dst, weight, grad_src, queue->stream);
    else if (plan->depthwise)
        ls_cuda_depthwise_backward_data(&plan->geometry, grad_dst, weight, grad_src, queue->stream);
    else
        ls_cuda_direct_backward_data(&plan->geometry, grad_dst, weight, grad_src, queue->stream);
    ls_cuda_enqueued(base, queue);
}

static void run_backward_weight(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_cuda_conv_linear_plan *plan = (const ls_cuda_conv_linear_plan *)base;
    const ls_cuda_conv_geometry *g = &plan->geometry;
    void *src = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_SRC]), *room = ls_cuda_at(workspace);
    void *grad_dst = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST]);
    void *grad_weight = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT]);
    if (plan->bias_only) {
        (void)src, (void)grad_weight;
    } else if (plan->algorithm) {
        void *rounded = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_ROUNDED]);
        ls_cuda_conv_execute(plan->algorithm, src, g->storage == LS_F32 ? grad_weight : rounded, grad_dst, room, queue);
    } else if (plan->gemm) {
        ls_cuda_gemm_execute(plan->gemm, grad_dst, src, grad_weight, NULL, grad_weight, room, queue);
    } else if (plan->implicit) {
        ls_cuda_implicit_gemm_backward_weight(plan->implicit, src, grad_dst, grad_weight, room, queue->stream);
    } else if (plan->depthwise) {
        ls_cuda_depthwise_backward_weight(g, src, grad_dst, grad_weight, room, queue->stream);
    } else {
        ls_cuda_direct_backward_weight(g, src, grad_dst, grad_weight, room, queue->stream);
    }
    if (plan->has_bias) {
        void *grad_bias = ls_cuda_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS]);
        ls_cuda_bias_gradient(plan->rows, g->padded_k, g->storage, grad_dst, grad_bias, room,
            (unsigned *)(void *)plan->done->address, queue->stream);
    }
    ls_cuda_enqueued(base, queue);
}

static ls_cuda_run *const runs[] = {
    [LS_OP_CONV_FORWARD] = run_forward,
    [LS_OP_CONV_BACKWARD_DATA] = run_backward_data,
    [LS_OP_CONV_BACKWARD_WEIGHT] = run_backward_weight,
    [LS_OP_LINEAR_FORWARD] = run_forward,
    [LS_OP_LINEAR_BACKWARD_DATA] = run_backward_data,
    [LS_OP_LINEAR_BACKWARD_WEIGHT] = run_backward_weight,
};

static void free_products(const ls_cuda_conv_linear_plan *parts) {
    ls_cuda_conv_algorithm_free(parts->algorithm);
    ls_cuda_gemm_free(parts->gemm);
    ls_cuda_implicit_gemm_free(parts->implicit);
}

static void free_parts(ls_plan *plan) {
    free_products((ls_cuda_conv_linear_plan *)plan);
    ls_cuda_slab_free(((ls_cuda_conv_linear_plan *)plan)->done);
}

static size_t workspace_of(const ls_cuda_conv_linear_plan *plan) {
    const ls_cuda_conv_geometry *g = &plan->geometry;
    const size_t library = plan->algorithm ? ls_cuda_conv_workspace(plan->algorithm)
                           : plan->gemm    ? ls_cuda_gemm_workspace(plan->gemm)
                                           : 0;
    if (plan->head.base.run != run_backward_weight) return library;
    const size_t own = plan->algorithm || plan->gemm ? library
                       : plan->implicit              ? ls_cuda_implicit_gemm_workspace(plan->implicit)
                       : plan->depthwise             ? ls_cuda_depthwise_workspace(g)
                                                     : ls_cuda_direct_workspace(g);
    const size_t bytes = plan->bias_only ? 0 : own;
    const size_t bias = plan->has_bias ? ls_cuda_bias_gradient_workspace(plan->rows, g->padded_k, g->storage) : 0;
    return bytes > bias ? bytes : bias; // the two parts run one after the other and share the workspace
}

ls_status ls_cuda_conv_linear_plan_make(ls_cuda_device *device, const ls_op_desc *desc, const char *name,
    const ls_cuda_conv_linear_plan *parts, ls_plan **out) {
    ls_cuda_conv_linear_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, runs[desc->op], name);
    ls_status status = LS_SUCCESS;
    const ls_cuda_plan head = plan->head;
    *plan = *parts;
    plan->head = head;
    plan->head.free_parts = free_parts;
    plan->head.base.workspace_bytes = workspace_of(plan);
    if (plan->has_bias && plan->head.base.run == run_backward_weight) {
        const ls_cuda_conv_geometry *g = &plan->geometry;
        const size_t counters = ls_cuda_bias_gradient_counters(plan->rows, g->padded_k, g->storage);
        status = ls_cuda_slab_new(
            &device->base, LS_MEMORY_DEVICE, counters * sizeof(unsigned), "a bias gradient's counters", &plan->done);
    }
    return LS_GIVE_OR_FREE(status, &plan->head.base, out, ls_cuda_plan_free);
}
