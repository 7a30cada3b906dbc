// through_fp32.c - bf16 operators without bf16 kernels: augmentation, resizing, linear layers and the loss. Each runs
// an fp32 plan on fp32 copies in the workspace: inputs are converted before the run, and outputs are rounded after it.
#include <assert.h>
#include "device/cpu/cpu.h"

enum { COPIES_MAX = 4, COPY_TASK = 32768 }; // COPY_TASK: elements in a task

typedef struct {
    int arg, is_written;
    size_t elements, at; // at: offset into the workspace in bytes
} argument_copy;

typedef struct {
    ls_cpu_plan base;
    ls_plan *in_fp32;
    argument_copy copies[COPIES_MAX];
    int count;
    size_t bytes; // size of all copies; the fp32 plan's workspace follows them
} fp32_plan;

static void add(fp32_plan *plan, int arg, int is_written, size_t elements) {
    plan->copies[plan->count++] = (argument_copy){ arg, is_written, elements, plan->bytes };
    plan->bytes += ls_cpu_round(elements * sizeof(float));
}

static void add_activation(fp32_plan *plan, int arg, int is_written, ls_nchw shape) {
    add(plan, arg, is_written, ls_cpu_elements(plan->base.cpu, shape));
}

static void add_linear(fp32_plan *plan, const ls_op_desc *desc) {
    const ls_linear_attr *a = &desc->attr.linear;
    const ls_nchw dst = { a->src.n, a->out_features, 1, 1 };
    const size_t weights = (size_t)a->out_features * ls_cpu_sample(plan->base.cpu, a->src);
    if (desc->op == LS_OP_LINEAR_FORWARD) {
        add_activation(plan, LS_LINEAR_FORWARD_SRC, 0, a->src);
        add(plan, LS_LINEAR_FORWARD_WEIGHT, 0, weights);
        if (a->has_bias) add(plan, LS_LINEAR_FORWARD_BIAS, 0, (size_t)ls_cpu_vector(plan->base.cpu, a->out_features));
        add_activation(plan, LS_LINEAR_FORWARD_DST, 1, dst);
    } else if (desc->op == LS_OP_LINEAR_BACKWARD_DATA) {
        add_activation(plan, LS_LINEAR_BACKWARD_DATA_GRAD_DST, 0, dst);
        add(plan, LS_LINEAR_BACKWARD_DATA_WEIGHT, 0, weights);
        add_activation(plan, LS_LINEAR_BACKWARD_DATA_GRAD_SRC, 1, a->src);
    } else {
        add_activation(plan, LS_LINEAR_BACKWARD_WEIGHT_SRC, 0, a->src);
        add_activation(plan, LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST, 0, dst);
    }
}

// Lists the arguments to copy. Sets the storage type of in_fp32, the fp32 plan's descriptor, to fp32.
static void list_copies(fp32_plan *plan, const ls_op_desc *desc, ls_op_desc *in_fp32) {
    switch (ls_op_family_of(desc->op)) {
    case LS_FAMILY_augment:
        in_fp32->attr.augment.storage = LS_F32;
        add_activation(plan, LS_AUGMENT_DST, 1, desc->attr.augment.shape);
        break;
    case LS_FAMILY_resize:
        in_fp32->attr.resize.storage = LS_F32;
        add_activation(plan, LS_RESIZE_SRC, 0, desc->attr.resize.src);
        add_activation(plan, LS_RESIZE_DST, 1, desc->attr.resize.dst);
        break;
    case LS_FAMILY_linear:
        in_fp32->attr.linear.storage = LS_F32;
        add_linear(plan, desc);
        break;
    case LS_FAMILY_loss:
        in_fp32->attr.loss.storage = LS_F32;
        add_activation(plan, LS_LOSS_LOGITS, 0, desc->attr.loss.logits);
        if (desc->attr.loss.training) add_activation(plan, LS_LOSS_GRAD_LOGITS, 1, desc->attr.loss.logits);
        break;
    default: // these families have bf16 kernels (plan.c)
        assert(0);
    }
}

typedef struct {
    const ls_kernels *kernels;
    const argument_copy *copy;
    void *activation;
    float *floats;
} convert_run;

static void convert_task(void *context, int task, int thread) {
    (void)thread;
    const convert_run *run = context;
    const size_t at = (size_t)task * COPY_TASK, left = run->copy->elements - at,
                 n = left < COPY_TASK ? left : COPY_TASK;
    void *activation = ls_cpu_at(run->activation, at, LS_BF16);
    if (run->copy->is_written)
        run->kernels->from_floats(run->floats + at, activation, n);
    else
        run->kernels->to_floats(activation, run->floats + at, n);
}

static void convert(const fp32_plan *plan, const argument_copy *copy, ls_buffer activation, ls_buffer floats) {
    convert_run run = { plan->base.cpu->kernels_bf16, copy, ls_buffer_host(activation), ls_cpu_floats_at(floats) };
    ls_pool_run(plan->base.cpu->pool, convert_task, &run, (int)((copy->elements + COPY_TASK - 1) / COPY_TASK));
}

static ls_buffer part_of(ls_buffer buffer, size_t at, size_t bytes) {
    return ls_buffer_at(buffer.slab, buffer.offset + at, bytes);
}

static void run_through_fp32(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const fp32_plan *own = (const fp32_plan *)plan;
    ls_buffer in_fp32[LS_OP_ARGS_MAX];
    for (int i = 0; i < ls_op_args(plan->desc.op); i++) in_fp32[i] = args[i];
    for (const argument_copy *c = own->copies; c < own->copies + own->count; c++) {
        if (!args[c->arg].slab) continue; // absent
        in_fp32[c->arg] = part_of(workspace, c->at, c->elements * sizeof(float));
        if (!c->is_written) convert(own, c, args[c->arg], in_fp32[c->arg]);
    }
    ls_plan_run(own->in_fp32, in_fp32, part_of(workspace, own->bytes, own->in_fp32->workspace_bytes), queue);
    for (const argument_copy *c = own->copies; c < own->copies + own->count; c++)
        if (c->is_written && args[c->arg].slab) convert(own, c, args[c->arg], in_fp32[c->arg]);
}

static void release_fp32_plan(ls_cpu_plan *plan) {
    ls_cpu_plan_free(((fp32_plan *)plan)->in_fp32);
}

ls_status ls_cpu_plan_through_fp32(ls_cpu *cpu, const ls_op_desc *desc, ls_cpu_maker *in_fp32, ls_plan **out) {
    ls_op_desc other = *desc;
    fp32_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, run_through_fp32, "");
    plan->base.release = release_fp32_plan;
    list_copies(plan, desc, &other);
    ls_status status = in_fp32(cpu, &other, &plan->in_fp32);
    if (ls_failed(status)) {
        ls_cpu_plan_free(&plan->base.base);
        return status;
    }
    plan->base.base.algorithm = plan->in_fp32->algorithm;
    plan->base.base.workspace_bytes = plan->bytes + plan->in_fp32->workspace_bytes;
    *out = &plan->base.base;
    return LS_SUCCESS;
}
