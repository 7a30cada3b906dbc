// op_linear.c - fully connected layers as row-major matrix products C[m][n] = op(A) op(B), k long, by cuBLASLt;
// the direct kernels where it is not there.
//                    m         n         k         A                      B
//   forward          batch     outputs   inputs    src                    weight, transposed
//   backward data    batch     inputs    outputs   grad_dst               weight
//   backward weight  outputs   inputs    batch     grad_dst, transposed   src               added to fp32
// inputs = height * width * padded channels, outputs padded: what is padding is zero in A or B.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/direct.h"
#include "device/cuda/vendor.h"

typedef struct {
    ls_cuda_plan head;
    ls_cuda_gemm *gemm; // NULL: direct kernels
    ls_cuda_conv_geometry geometry;
} linear_plan;

static void run_forward(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const linear_plan *plan = (const linear_plan *)base;
    const ls_cuda_conv_geometry *g = &plan->geometry;
    void *src = ls_cuda_at(args[LS_LINEAR_FORWARD_SRC]), *weight = ls_cuda_at(args[LS_LINEAR_FORWARD_WEIGHT]);
    void *bias = base->desc.attr.linear.has_bias ? ls_cuda_at(args[LS_LINEAR_FORWARD_BIAS]) : NULL;
    void *dst = ls_cuda_at(args[LS_LINEAR_FORWARD_DST]);
    if (!plan->gemm) {
        ls_cuda_direct_forward(g, src, weight, bias, dst, queue->stream);
    } else {
        ls_cuda_gemm_execute(plan->gemm, src, weight, dst, ls_cuda_at(workspace), queue);
        if (bias) ls_cuda_bias_add(g->n, g->padded_k, g->storage, bias, dst, queue->stream);
    }
    ls_cuda_enqueued(base, queue);
}

static void run_backward_data(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const linear_plan *plan = (const linear_plan *)base;
    void *grad_dst = ls_cuda_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_DST]);
    void *weight = ls_cuda_at(args[LS_LINEAR_BACKWARD_DATA_WEIGHT]);
    void *grad_src = ls_cuda_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_SRC]);
    if (!plan->gemm) {
        ls_cuda_direct_backward_data(&plan->geometry, grad_dst, weight, grad_src, queue->stream);
    } else {
        ls_cuda_gemm_execute(plan->gemm, grad_dst, weight, grad_src, ls_cuda_at(workspace), queue);
    }
    ls_cuda_enqueued(base, queue);
}

static void run_backward_weight(const ls_plan *base, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const linear_plan *plan = (const linear_plan *)base;
    const ls_cuda_conv_geometry *g = &plan->geometry;
    void *src = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_SRC]), *room = ls_cuda_at(workspace);
    void *grad_dst = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST]);
    void *grad_weight = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT]);
    if (!plan->gemm) {
        ls_cuda_direct_backward_weight(g, src, grad_dst, grad_weight, room, queue->stream);
    } else {
        ls_cuda_gemm_execute(plan->gemm, grad_dst, src, grad_weight, room, queue);
    }
    if (base->desc.attr.linear.has_bias) {
        void *grad_bias = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS]);
        ls_cuda_bias_gradient(g->n, g->padded_k, g->storage, grad_dst, grad_bias, room, queue->stream);
    }
    ls_cuda_enqueued(base, queue);
}

static ls_cuda_run *const runs[] = {
    [LS_OP_LINEAR_FORWARD] = run_forward,
    [LS_OP_LINEAR_BACKWARD_DATA] = run_backward_data,
    [LS_OP_LINEAR_BACKWARD_WEIGHT] = run_backward_weight,
};

static void free_parts(ls_plan *plan) {
    ls_cuda_gemm_free(((linear_plan *)plan)->gemm);
}

static ls_cuda_gemm_attr product_of(ls_op op, const ls_cuda_conv_geometry *g) {
    int batch = g->n, inputs = g->padded_c, outputs = g->padded_k;
    ls_cuda_gemm_attr forward = {
        .m = batch, .n = outputs, .k = inputs, .transpose_b = 1, .storage = g->storage, .result = g->storage
    };
    ls_cuda_gemm_attr backward_data = {
        .m = batch, .n = inputs, .k = outputs, .storage = g->storage, .result = g->storage
    };
    ls_cuda_gemm_attr backward_weight = {
        .m = outputs, .n = inputs, .k = batch, .transpose_a = 1, .storage = g->storage, .result = LS_F32, .beta = 1
    };
    if (op == LS_OP_LINEAR_FORWARD) return forward;
    return op == LS_OP_LINEAR_BACKWARD_DATA ? backward_data : backward_weight;
}

static size_t workspace_of(const linear_plan *plan) {
    const ls_cuda_conv_geometry *g = &plan->geometry;
    const ls_op_desc *desc = &plan->head.base.desc;
    size_t bytes = plan->gemm ? ls_cuda_gemm_workspace(plan->gemm) : 0;
    if (desc->op != LS_OP_LINEAR_BACKWARD_WEIGHT) return bytes;
    if (!plan->gemm) bytes = ls_cuda_direct_workspace(g);
    size_t bias = desc->attr.linear.has_bias ? ls_cuda_bias_gradient_workspace(g->n, g->padded_k, g->storage) : 0;
    return bytes > bias ? bytes : bias; // one after the other
}

ls_status ls_cuda_linear_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_linear_attr *a = &desc->attr.linear;
    int inputs = a->src.h * a->src.w * ls_cuda_channels(a->src.c);
    ls_cuda_conv_geometry geometry =
        ls_cuda_linear_geometry(a->src.n, inputs, a->out_features, ls_cuda_channels(a->out_features), a->storage);
    ls_cuda_gemm *gemm = NULL;
    linear_plan *plan = NULL;
    if (device->libraries) {
        ls_cuda_gemm_attr product = product_of(desc->op, &geometry);
        LS_TRY(ls_cuda_gemm_new(device->libraries, &product, desc->layer, &gemm));
    }
    ls_status status =
        ls_cuda_plan_make(device, desc, sizeof *plan, runs[desc->op], gemm ? "cublaslt" : "direct", &plan);
    if (ls_failed(status)) {
        ls_cuda_gemm_free(gemm);
        return status;
    }
    plan->head.free_parts = free_parts;
    plan->gemm = gemm;
    plan->geometry = geometry;
    plan->head.base.workspace_bytes = workspace_of(plan);
    *out = &plan->head.base;
    return LS_SUCCESS;
}
