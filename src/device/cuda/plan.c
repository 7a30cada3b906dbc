// plan.c - making and freeing plans.
#include <stdlib.h>

#include "device/cuda/cuda.h"

ls_status ls_cuda_plan_make(
    ls_cuda_device *device, const ls_op_desc *desc, size_t bytes, ls_cuda_run *run, const char *algorithm, void *out) {
    ls_cuda_plan *plan = calloc(1, bytes);
    if (!plan) return ls_fail(LS_DEVICE, "layer %s: no memory for a plan of %zu bytes", desc->layer, bytes);
    plan->base.run = run;
    plan->base.desc = *desc;
    plan->base.algorithm = algorithm;
    plan->device = device;
    *(ls_cuda_plan **)out = plan;
    return LS_SUCCESS;
}

ls_status ls_cuda_check_packs(const ls_op_desc *desc, ls_nchw shape, ls_dtype storage) {
    if (ls_cuda_packs(shape, storage) <= INT32_MAX) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "layer %s: %s: an activation of %dx%dx%dx%d is more than 32 GiB, the most that one operator of the cuda device "
        "works on; use a smaller micro-batch",
        desc->layer, ls_op_name(desc->op), shape.n, shape.c, shape.h, shape.w);
}

typedef ls_status maker(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out);

static maker *const makers[LS_OP_COUNT] = {
    [LS_OP_AUGMENT] = ls_cuda_augment_plan,
    [LS_OP_CONV_FORWARD] = ls_cuda_conv_plan,
    [LS_OP_CONV_BACKWARD_DATA] = ls_cuda_conv_plan,
    [LS_OP_CONV_BACKWARD_WEIGHT] = ls_cuda_conv_plan,
    [LS_OP_LINEAR_FORWARD] = ls_cuda_linear_plan,
    [LS_OP_LINEAR_BACKWARD_DATA] = ls_cuda_linear_plan,
    [LS_OP_LINEAR_BACKWARD_WEIGHT] = ls_cuda_linear_plan,
    [LS_OP_NORM_FORWARD] = ls_cuda_norm_plan,
    [LS_OP_NORM_INFERENCE] = ls_cuda_norm_plan,
    [LS_OP_NORM_BACKWARD] = ls_cuda_norm_plan,
    [LS_OP_NORM_SUMS] = ls_cuda_norm_plan,
    [LS_OP_NORM_APPLY] = ls_cuda_norm_plan,
    [LS_OP_NORM_BACKWARD_SUMS] = ls_cuda_norm_plan,
    [LS_OP_NORM_BACKWARD_APPLY] = ls_cuda_norm_plan,
    [LS_OP_POOL_FORWARD] = ls_cuda_pool_plan,
    [LS_OP_POOL_BACKWARD] = ls_cuda_pool_plan,
    [LS_OP_RELU_FORWARD] = ls_cuda_map_plan,
    [LS_OP_RELU_BACKWARD] = ls_cuda_map_plan,
    [LS_OP_GELU_FORWARD] = ls_cuda_map_plan,
    [LS_OP_GELU_BACKWARD] = ls_cuda_map_plan,
    [LS_OP_ADD] = ls_cuda_map_plan,
    [LS_OP_SCALE] = ls_cuda_map_plan,
    [LS_OP_DROPOUT] = ls_cuda_map_plan,
    [LS_OP_LOSS] = ls_cuda_loss_plan,
    [LS_OP_GRAD_FIX] = ls_cuda_flat_plan,
    [LS_OP_GRAD_UNFIX] = ls_cuda_flat_plan,
    [LS_OP_GRAD_STATS] = ls_cuda_flat_plan,
    [LS_OP_CONTROL] = ls_cuda_control_plan,
    [LS_OP_SGD] = ls_cuda_optimizer_plan,
    [LS_OP_ADAMW] = ls_cuda_optimizer_plan,
    [LS_OP_RUNNING_STATS] = ls_cuda_flat_plan,
    [LS_OP_CAST] = ls_cuda_flat_plan,
    [LS_OP_WIDEN] = ls_cuda_flat_plan,
};

ls_status ls_cuda_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(ls_op_check(desc));
    return makers[desc->op]((ls_cuda_device *)device, desc, out);
}

void ls_cuda_plan_free(ls_plan *plan) {
    ls_cuda_plan *own = (ls_cuda_plan *)plan;
    if (!own) return;
    pthread_mutex_lock(&own->device->lock);
    if (own->device->last == &plan->desc) own->device->last = NULL;
    pthread_mutex_unlock(&own->device->lock);
    if (own->free_parts) own->free_parts(plan);
    free(own);
}
