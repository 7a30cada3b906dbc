// plan.c - makes and frees plans.
#include "base/memory.h"
#include "device/cpu/cpu.h"

enum {
    WORTH_THREADS_NS = 120000,
    FLOPS_A_NS = 200, // floating-point operations of convolutions and products in a nanosecond
    ELEMENTS_A_NS = 2
};
static const double WEIGHT_NS = 0.2; // nanoseconds to read one weight

void *ls_cpu_plan_make(ls_cpu *cpu, const ls_op_desc *desc, size_t bytes, ls_cpu_run *run, const char *algorithm) {
    ls_cpu_plan *plan = ls_new(1, bytes, "layer %s", desc->layer);
    plan->base.run = run;
    plan->base.desc = *desc;
    plan->base.algorithm = algorithm;
    plan->cpu = cpu;
    return plan;
}

static ls_cpu_maker *const makers[LS_FAMILY_COUNT] = {
#define F(family, storage) [LS_FAMILY_##family] = ls_cpu_##family##_plan,
#include "device/op_families.def"
};

// --- operators too small for several threads -----------------------------------------------------

// Returns the rough time of an operator on one thread in nanoseconds, for the arithmetic and for reading the weights.
static double product_ns(const ls_op_desc *desc, double weights) {
    return ls_op_flops(desc) / FLOPS_A_NS + weights * WEIGHT_NS;
}

static double run_ns(const ls_op_desc *desc) {
    const ls_conv_attr *conv = &desc->attr.conv;
    const ls_linear_attr *linear = &desc->attr.linear;
    switch (ls_op_family_of(desc->op)) {
    case LS_FAMILY_conv:
        return product_ns(desc, (double)conv->dst.c * (conv->src.c / conv->groups) * ls_conv_taps(conv));
    case LS_FAMILY_linear:
        return product_ns(desc, (double)ls_nchw_count(linear->src) / linear->src.n * linear->out_features);
    default:
        return ls_op_work(desc) / ELEMENTS_A_NS;
    }
}

static void run_by_caller(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_cpu_plan *own = (const ls_cpu_plan *)plan;
    ls_pool *const team = own->cpu->pool;
    own->cpu->pool = own->cpu->alone;
    own->by_caller(plan, args, workspace, queue);
    own->cpu->pool = team;
}

// Lets the caller's thread run an operator alone if it is too small for several threads. With a batch of one picture,
// operators are so small that threads go to sleep between them, and waking a thread takes longer than the operator. For
// one picture, resnet20 took 2.1 ms with two threads and 0.55 ms with one.
static void choose_threads(ls_cpu_plan *plan) {
    if (plan->cpu->threads == 1 || run_ns(&plan->base.desc) >= WORTH_THREADS_NS) return;
    plan->by_caller = plan->base.run;
    plan->base.run = run_by_caller;
}

// Whether the family has bf16 kernels. The optimizer writes the 16-bit copy of its weights itself.
static int has_bf16(ls_op_family family) {
    return family == LS_FAMILY_norm || family == LS_FAMILY_group_norm || family == LS_FAMILY_pool ||
           family == LS_FAMILY_elementwise || family == LS_FAMILY_gate || family == LS_FAMILY_channels ||
           family == LS_FAMILY_conv || family == LS_FAMILY_optimizer || family == LS_FAMILY_distill;
}

ls_status ls_cpu_plan_new(ls_device *device, const ls_op_desc *desc, ls_plan **out) {
    ls_op_check(desc);
    const ls_dtype storage = ls_op_storage(desc);
    const ls_op_family family = ls_op_family_of(desc->op);
    if (storage != LS_F32 && storage != LS_BF16)
        return ls_fail(LS_USAGE,
            "layer %s: the cpu device stores activations in fp32 or bf16, not in %s; use one of these as "
            "train.precision",
            desc->layer, ls_dtype_name(storage));
    if (storage == LS_BF16 && !has_bf16(family))
        LS_TRY(ls_cpu_plan_through_fp32((ls_cpu *)device, desc, makers[family], out));
    else
        LS_TRY(makers[family]((ls_cpu *)device, desc, out));
    choose_threads((ls_cpu_plan *)*out);
    return LS_SUCCESS;
}

void ls_cpu_plan_free(ls_plan *plan) {
    ls_cpu_plan *own = (ls_cpu_plan *)plan;
    if (!own) return;
    if (own->release) own->release(own);
    free(own);
}
