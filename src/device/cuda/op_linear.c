// op_linear.c - fully connected layers as row-major matrix products C[m][n] = op(A) op(B), summed over k, by cuBLASLt;
// by the direct kernels if cuBLASLt is absent or has no algorithm.
//                    m         n         k         A                      B
//   forward          batch     outputs   inputs    src                    weight, transposed
//   backward data    batch     inputs    outputs   grad_dst               weight
//   backward weight  outputs   inputs    batch     grad_dst, transposed   src               added to fp32
// inputs = height * width * padded channels; outputs are padded too. Padding is zero in A or B. The weight and bias
// gradients of a layer that is small enough for a head (ls_linear_is_small) are one launch of an own kernel.
#include "device/cuda/kernels/head.h"
#include "device/cuda/conv_linear.h"

static ls_cuda_gemm_attr product_of(ls_op op, const ls_cuda_conv_linear_plan *own) {
    const ls_cuda_conv_geometry *g = &own->geometry;
    int batch = g->n, inputs = g->padded_c, outputs = g->padded_k;
    ls_cuda_gemm_attr forward = { .m = batch,
        .n = outputs,
        .k = inputs,
        .batch = 1,
        .transpose_b = 1,
        .alpha = 1,
        .storage = g->storage,
        .result = g->storage,
        .bias = own->has_bias,
        .relu = own->relu };
    ls_cuda_gemm_attr backward_data = {
        .m = batch, .n = inputs, .k = outputs, .batch = 1, .alpha = 1, .storage = g->storage, .result = g->storage
    };
    ls_cuda_gemm_attr backward_weight = { .m = outputs,
        .n = inputs,
        .k = batch,
        .batch = 1,
        .transpose_a = 1,
        .alpha = 1,
        .storage = g->storage,
        .result = LS_F32,
        .beta = 1 };
    if (op == LS_OP_LINEAR_FORWARD) return forward;
    return op == LS_OP_LINEAR_BACKWARD_DATA ? backward_data : backward_weight;
}

static void run_head_gradient(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_linear_attr *a = &plan->desc.attr.linear;
    const ls_cuda_head_gradient_args k = { .samples = a->src.n,
        .inputs = a->src.c,
        .outputs = a->out_features,
        .padded_inputs = ls_cuda_channels(a->src.c),
        .padded_outputs = ls_cuda_channels(a->out_features),
        .storage = a->storage,
        .src = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_SRC]),
        .grad_dst = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST]),
        .grad_weight = ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT]),
        .grad_bias = a->has_bias ? ls_cuda_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS]) : NULL };
    ls_cuda_head_gradient(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_linear_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_linear_attr *a = &desc->attr.linear;
    int inputs = a->src.h * a->src.w * ls_cuda_channels(a->src.c);
    if (desc->op == LS_OP_LINEAR_BACKWARD_WEIGHT && ls_linear_is_small(a)) {
        ls_cuda_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, run_head_gradient, "own");
        *out = &plan->base;
        return LS_SUCCESS;
    }
    ls_cuda_conv_linear_plan parts = {
        .geometry =
            ls_cuda_linear_geometry(a->src.n, inputs, a->out_features, ls_cuda_channels(a->out_features), a->storage),
        .has_bias = a->has_bias,
        .bias_only = a->bias_only,
        .relu = a->relu,
        .bias_type = a->storage,
        .rows = a->src.n,
    };
    if (device->libraries && !a->bias_only) {
        ls_cuda_gemm_attr product = product_of(desc->op, &parts);
        LS_TRY(ls_cuda_gemm_new(device->libraries, &product, desc->layer, &parts.gemm));
    }
    return ls_cuda_conv_linear_plan_make(device, desc, parts.gemm ? "cublaslt" : "direct", &parts, out);
}
