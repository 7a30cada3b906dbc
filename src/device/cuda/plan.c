// plan.c - makes and frees plans.

#include "base/memory.h"
#include "device/cuda/cuda.h"

void *ls_cuda_plan_make(
    ls_cuda_device *device, const ls_op_desc *desc, size_t bytes, ls_cuda_run *run, const char *algorithm) {
    ls_cuda_plan *plan = ls_new(1, bytes, "layer %s", desc->layer);
    plan->base.run = run;
    plan->base.desc = *desc;
    plan->base.algorithm = algorithm;
    plan->device = device;
    return plan;
}

ls_status ls_cuda_check_packs(const ls_op_desc *desc, ls_nchw shape, ls_dtype storage) {
    if (ls_cuda_packs(shape, storage) <= INT32_MAX) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "layer %s: %s: an activation of %dx%dx%dx%d is more than 32 GiB, the most that one operator of the cuda device "
        "works on; use a smaller micro-batch",
        desc->layer, ls_op_name(desc->op), shape.n, shape.c, shape.h, shape.w);
}

static ls_cuda_maker *const makers[LS_FAMILY_COUNT] = {
#define F(family, storage) [LS_FAMILY_##family] = ls_cuda_##family##_plan,
#include "device/op_families.def"
};

ls_status ls_cuda_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    ls_op_check(desc);
    return makers[ls_op_family_of(desc->op)]((ls_cuda_device *)device, desc, out);
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
