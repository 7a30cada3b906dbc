// plan.c - making and freeing plans.
#include "base/memory.h"
#include "device/cpu/cpu.h"

ls_status ls_cpu_plan_make(
    ls_cpu *cpu, const ls_op_desc *desc, size_t bytes, ls_cpu_run *run, const char *algorithm, void *out) {
    ls_cpu_plan *plan;
    LS_TRY(LS_NEW_BYTES(plan, bytes, "layer %s", desc->layer));
    plan->base.run = run;
    plan->base.desc = *desc;
    plan->base.algorithm = algorithm;
    plan->cpu = cpu;
    *(ls_cpu_plan **)out = plan;
    return LS_SUCCESS;
}

static ls_cpu_maker *const makers[LS_FAMILY_COUNT] = {
#define F(family, storage) [LS_FAMILY_##family] = ls_cpu_##family##_plan,
#include "device/op_families.def"
};

ls_status ls_cpu_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(ls_op_check(desc));
    if (ls_op_storage(desc) != LS_F32)
        return ls_fail(LS_USAGE, "layer %s: the cpu device computes in fp32, not %s; use train.precision = fp32",
            desc->layer, ls_dtype_name(ls_op_storage(desc)));
    return makers[ls_op_family_of(desc->op)]((ls_cpu *)device, desc, out);
}

void ls_cpu_plan_free(ls_plan *plan) {
    ls_cpu_plan *own = (ls_cpu_plan *)plan;
    if (!own) return;
    if (own->release) own->release(own);
    free(own);
}
