// op_conv.c - convolutions: the depthwise kernels where these compute them, else cuDNN's plan where there is one, else
// the direct kernels.
//
// cuDNN adds a weight gradient to what is there in fp32, and stores it in 16 bits: then only where it is given room for that.
#include "device/cuda/weighted.h"

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
    parts.depthwise = ls_cuda_depthwise_can(&parts.geometry);
    const int room = desc->op != LS_OP_CONV_BACKWARD_WEIGHT || a->storage == LS_F32 || a->rounds;
    if (device->libraries && !a->bias_only && !parts.depthwise && room)
        LS_TRY(ls_cuda_conv_algorithm_new(device->libraries, desc->op, a, desc->layer, &parts.algorithm));
    const char *name = parts.algorithm ? ls_cuda_conv_name(parts.algorithm) : parts.depthwise ? "depthwise" : "direct";
    LS_TRY(ls_cuda_weighted_plan_make(device, desc, name, &parts, out));
    if (parts.algorithm) (*out)->chosen = ls_cuda_conv_chosen(parts.algorithm);
    return LS_SUCCESS;
}
