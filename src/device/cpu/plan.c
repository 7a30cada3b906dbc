// plan.c - making and freeing plans.
#include <stdlib.h>
#include "device/cpu/cpu.h"

ls_status ls_cpu_plan_make(
    ls_cpu *cpu, const ls_op_desc *desc, size_t bytes, ls_cpu_run *run, const char *algorithm, void *out) {
    ls_cpu_plan *plan = calloc(1, bytes);
    if (!plan) return ls_fail(LS_DEVICE, "%s: no memory for a plan of %zu bytes", desc->layer, bytes);
    plan->base.run = run;
    plan->base.desc = *desc;
    plan->base.algorithm = algorithm;
    plan->cpu = cpu;
    *(ls_cpu_plan **)out = plan;
    return LS_SUCCESS;
}

static ls_cpu_maker *const makers[LS_OP_COUNT] = {
    [LS_OP_AUGMENT] = ls_cpu_augment_plan,
    [LS_OP_CONV_FORWARD] = ls_cpu_conv_plan,
    [LS_OP_CONV_BACKWARD_DATA] = ls_cpu_conv_plan,
    [LS_OP_CONV_BACKWARD_WEIGHT] = ls_cpu_conv_plan,
    [LS_OP_LINEAR_FORWARD] = ls_cpu_linear_plan,
    [LS_OP_LINEAR_BACKWARD_DATA] = ls_cpu_linear_plan,
    [LS_OP_LINEAR_BACKWARD_WEIGHT] = ls_cpu_linear_plan,
    [LS_OP_NORM_FORWARD] = ls_cpu_norm_plan,
    [LS_OP_NORM_INFERENCE] = ls_cpu_norm_plan,
    [LS_OP_NORM_BACKWARD] = ls_cpu_norm_plan,
    [LS_OP_NORM_SUMS] = ls_cpu_norm_plan,
    [LS_OP_NORM_APPLY] = ls_cpu_norm_plan,
    [LS_OP_NORM_BACKWARD_SUMS] = ls_cpu_norm_plan,
    [LS_OP_NORM_BACKWARD_APPLY] = ls_cpu_norm_plan,
    [LS_OP_POOL_FORWARD] = ls_cpu_pool_plan,
    [LS_OP_POOL_BACKWARD] = ls_cpu_pool_plan,
    [LS_OP_RELU_FORWARD] = ls_cpu_map_plan,
    [LS_OP_RELU_BACKWARD] = ls_cpu_map_plan,
    [LS_OP_GELU_FORWARD] = ls_cpu_map_plan,
    [LS_OP_GELU_BACKWARD] = ls_cpu_map_plan,
    [LS_OP_ADD] = ls_cpu_map_plan,
    [LS_OP_SCALE] = ls_cpu_map_plan,
    [LS_OP_DROPOUT] = ls_cpu_dropout_plan,
    [LS_OP_LOSS] = ls_cpu_loss_plan,
    [LS_OP_GRAD_FIX] = ls_cpu_flat_plan,
    [LS_OP_GRAD_UNFIX] = ls_cpu_flat_plan,
    [LS_OP_GRAD_STATS] = ls_cpu_flat_plan,
    [LS_OP_CONTROL] = ls_cpu_control_plan,
    [LS_OP_SGD] = ls_cpu_optimizer_plan,
    [LS_OP_ADAMW] = ls_cpu_optimizer_plan,
    [LS_OP_RUNNING_STATS] = ls_cpu_flat_plan,
    [LS_OP_CAST] = ls_cpu_flat_plan,
    [LS_OP_WIDEN] = ls_cpu_flat_plan,
};

static ls_dtype storage_of(const ls_op_desc *desc) {
    switch (desc->op) {
    case LS_OP_AUGMENT:
        return desc->attr.augment.storage;
    case LS_OP_CONV_FORWARD:
    case LS_OP_CONV_BACKWARD_DATA:
    case LS_OP_CONV_BACKWARD_WEIGHT:
        return desc->attr.conv.storage;
    case LS_OP_LINEAR_FORWARD:
    case LS_OP_LINEAR_BACKWARD_DATA:
    case LS_OP_LINEAR_BACKWARD_WEIGHT:
        return desc->attr.linear.storage;
    case LS_OP_NORM_FORWARD:
    case LS_OP_NORM_INFERENCE:
    case LS_OP_NORM_BACKWARD:
    case LS_OP_NORM_SUMS:
    case LS_OP_NORM_APPLY:
    case LS_OP_NORM_BACKWARD_SUMS:
    case LS_OP_NORM_BACKWARD_APPLY:
        return desc->attr.norm.storage;
    case LS_OP_POOL_FORWARD:
    case LS_OP_POOL_BACKWARD:
        return desc->attr.pool.storage;
    case LS_OP_RELU_FORWARD:
    case LS_OP_RELU_BACKWARD:
    case LS_OP_GELU_FORWARD:
    case LS_OP_GELU_BACKWARD:
    case LS_OP_ADD:
    case LS_OP_SCALE:
    case LS_OP_DROPOUT:
        return desc->attr.map.storage;
    case LS_OP_LOSS:
        return desc->attr.loss.storage;
    case LS_OP_SGD:
    case LS_OP_ADAMW:
        return desc->attr.optimizer.storage;
    default:
        return LS_F32; // flat operators on fp32
    }
}

ls_status ls_cpu_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(ls_op_check(desc));
    if (storage_of(desc) != LS_F32)
        return ls_fail(LS_USAGE, "layer %s: the cpu device computes in fp32, not %s; use train.precision = fp32",
            desc->layer, ls_dtype_name(storage_of(desc)));
    return makers[desc->op]((ls_cpu *)device, desc, out);
}

void ls_cpu_plan_free(ls_plan *plan) {
    ls_cpu_plan *own = (ls_cpu_plan *)plan;
    if (!own) return;
    if (own->release) own->release(own);
    free(own);
}
