// op_linear.c - fully connected layers as row-major matrix products C[m][n] = op(A) op(B), k long, by cuBLASLt;
// the direct kernels where it is not there.
//                    m         n         k         A                      B
//   forward          batch     outputs   inputs    src                    weight, transposed
//   backward data    batch     inputs    outputs   grad_dst               weight
//   backward weight  outputs   inputs    batch     grad_dst, transposed   src               added to fp32
// inputs = height * width * padded channels, outputs padded: what is padding is zero in A or B.
#include "device/cuda/weighted.h"

static ls_cuda_gemm_attr product_of(ls_op op, const ls_cuda_weighted_plan *own) {
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
        .bias = own->bias_in_gemm,
        .relu = own->bias_in_gemm && own->relu };
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

ls_status ls_cuda_linear_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_linear_attr *a = &desc->attr.linear;
    int inputs = a->src.h * a->src.w * ls_cuda_channels(a->src.c);
    ls_cuda_weighted_plan parts = {
        .geometry =
            ls_cuda_linear_geometry(a->src.n, inputs, a->out_features, ls_cuda_channels(a->out_features), a->storage),
        .has_bias = a->has_bias,
        .bias_only = a->bias_only,
        .relu = a->relu,
        .bias_in_gemm = a->has_bias && a->storage == LS_F32,
        .rows = a->src.n,
    };
    if (device->libraries && !a->bias_only) {
        ls_cuda_gemm_attr product = product_of(desc->op, &parts);
        LS_TRY(ls_cuda_gemm_new(device->libraries, &product, desc->layer, &parts.gemm));
    }
    return ls_cuda_weighted_plan_make(device, desc, parts.gemm ? "cublaslt" : "direct", &parts, out);
}
