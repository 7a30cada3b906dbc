// op_linear.c - fully connected layers as matrix products C = A * B.
//                    rows  columns  depth  A                     B
//   forward           N     O        K     src [N][K]            weight [O][K], transposed
//   backward data     N     K        O     grad_dst [N][O]       weight [O][K]
//   backward weight   O     K        N     grad_dst, transposed  src [N][K]
#include "device/cpu/cpu.h"

typedef struct {
    ls_cpu_plan base;
    ls_cpu_product product; // without its operands
} linear_plan;

static void linear_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const linear_plan *own = (const linear_plan *)plan;
    ls_cpu_product p = own->product;
    p.panels = ls_buffer_host(workspace);
    if (plan->desc.op == LS_OP_LINEAR_FORWARD) {
        p.a = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_SRC]);
        p.b = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_WEIGHT]);
        p.c = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_DST]);
        if (plan->desc.attr.linear.has_bias) p.bias = ls_cpu_floats_at(args[LS_LINEAR_FORWARD_BIAS]);
    } else if (plan->desc.op == LS_OP_LINEAR_BACKWARD_DATA) {
        p.a = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_DST]);
        p.b = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_DATA_WEIGHT]);
        p.c = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_DATA_GRAD_SRC]);
    } else {
        p.a = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST]);
        p.b = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_SRC]);
        p.c = ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT]);
    }
    if (!plan->desc.attr.linear.bias_only) ls_cpu_product_run(&p);
    if (plan->desc.op == LS_OP_LINEAR_BACKWARD_WEIGHT && plan->desc.attr.linear.has_bias)
        own->base.cpu->kernels->column_sums(
            p.a, p.a_k, p.k, p.m, ls_cpu_floats_at(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS]));
}

ls_status ls_cpu_linear_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_linear_attr *attr = &desc->attr.linear;
    linear_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, linear_plan_run, "own sgemm");
    int o = attr->out_features, k = (int)ls_cpu_sample(cpu, attr->src);
    size_t row = (size_t)k, out_row = (size_t)ls_cpu_channels(cpu, o);
    ls_cpu_product *p = &plan->product;
    p->cpu = cpu;
    if (desc->op == LS_OP_LINEAR_FORWARD) {
        p->m = attr->src.n, p->n = (int)out_row, p->k = k;
        p->a_m = row, p->a_k = 1, p->b_k = 1, p->b_n = row, p->c_m = out_row;
    } else if (desc->op == LS_OP_LINEAR_BACKWARD_DATA) {
        p->m = attr->src.n, p->n = k, p->k = o;
        p->a_m = out_row, p->a_k = 1, p->b_k = row, p->b_n = 1, p->c_m = row;
    } else {
        p->m = o, p->n = k, p->k = attr->src.n;
        p->a_m = 1, p->a_k = out_row, p->b_k = row, p->b_n = 1, p->c_m = row;
    }
    p->columns = desc->op == LS_OP_LINEAR_FORWARD ? o : p->n;
    p->accumulate = desc->op == LS_OP_LINEAR_BACKWARD_WEIGHT;
    plan->base.base.workspace_bytes = ls_cpu_product_bytes(cpu);
    *out = &plan->base.base;
    return LS_SUCCESS;
}
