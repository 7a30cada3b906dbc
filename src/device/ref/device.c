#include "device/ref/ref.h"

#include <stdio.h>

#include "base/memory.h"

static ls_status ref_open(const ls_device_options *options, ls_device **out) {
    ls_ref_device *device = ls_new(1, sizeof *device, "reference device");
    ls_status status = ls_pool_new(options->threads < 1 ? 1 : options->threads, &device->pool);
    if (ls_failed(status)) {
        free(device);
        return status;
    }
    device->base.api = &ls_device_ref;
    *out = &device->base;
    return LS_SUCCESS;
}

static void ref_close(ls_device *device) {
    ls_ref_device *ref = (ls_ref_device *)device;
    ls_pool_free(ref->pool);
    free(ref);
}

static void ref_info(const ls_device *device, ls_device_info *info) {
    int threads = ls_pool_threads(((const ls_ref_device *)device)->pool);
    *info = (ls_device_info){ .libraries = "none" };
    snprintf(info->name, sizeof info->name, "reference loops in double, %d thread%s", threads, threads == 1 ? "" : "s");
}

static ls_status ref_check_precision(const ls_device *device, ls_dtype storage) {
    (void)device;
    if (storage == LS_F32 || storage == LS_BF16 || storage == LS_F16) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "device ref stores activations in fp32, bf16 or fp16, not in %s", ls_dtype_name(storage));
}

static void (*const runs[LS_OP_COUNT])(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) = {
#define X(NAME, name, text, family, flops) [LS_OP_##NAME] = ls_ref_##name,
#include "device/ops.def"
};

static size_t (*const workspaces[LS_FAMILY_COUNT])(const ls_op_desc *desc) = {
    [LS_FAMILY_conv] = ls_ref_conv_workspace,
    [LS_FAMILY_linear] = ls_ref_linear_workspace,
    [LS_FAMILY_norm] = ls_ref_norm_workspace,
    [LS_FAMILY_pool] = ls_ref_pool_workspace,
    [LS_FAMILY_loss] = ls_ref_loss_workspace,
    [LS_FAMILY_optimizer] = ls_ref_optimizer_workspace,
};

static ls_status ref_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    ls_op_check(desc);
    size_t (*workspace)(const ls_op_desc *desc) = workspaces[ls_op_family_of(desc->op)];
    ls_ref_plan *plan = ls_new(1, sizeof *plan, "plan of %s", ls_op_name(desc->op));
    *plan = (ls_ref_plan){
        .base = { .run = runs[desc->op],
            .desc = *desc,
            .workspace_bytes = workspace ? workspace(desc) : 0,
            .algorithm = "reference loops" },
        .pool = ((ls_ref_device *)device)->pool,
    };
    *out = &plan->base;
    return LS_SUCCESS;
}

static void ref_plan_free(ls_plan *plan) {
    free(plan);
}

void ls_ref_doubles(const void *array, ls_dtype storage, int64_t count, double *out) {
    if (storage == LS_F32) { // fast path for the common case, without a call for each element
        for (int64_t i = 0; i < count; i++) out[i] = (double)((const float *)array)[i];
    } else {
        for (int64_t i = 0; i < count; i++) out[i] = (double)ls_load_float(array, storage, i);
    }
}

const ls_device_api ls_device_ref = {
    .abi = LS_DEVICE_ABI,
    .size = sizeof(ls_device_api),
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .info = ref_info,
    .check_precision = ref_check_precision,
    LS_HOST_MEMORY_ROWS,
    LS_HOST_LAYOUT_ROWS,
    .plan_new = ref_plan_new,
    .plan_free = ref_plan_free,
    .fusions = LS_FUSES_NORM_POOL,
};
