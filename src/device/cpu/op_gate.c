// op_gate.c - gates. A task is one plane of a channel block.
#include "device/cpu/cpu.h"

typedef struct {
    const ls_cpu_plan *plan;
    const void *src, *other; // other: gate, or grad_dst
    void *out;
    int blocks, block, pixels;
} gate_run;

static void gate_task(void *context, int task, int thread) {
    (void)thread;
    const gate_run *run = context;
    const ls_op_desc *desc = &run->plan->base.desc;
    const ls_dtype storage = desc->attr.gate.storage;
    const ls_kernels *kernels = ls_cpu_kernels(run->plan->cpu, desc->attr.gate.shape.c, storage);
    const size_t plane = (size_t)task * (size_t)run->pixels * (size_t)run->block,
                 vector = (size_t)task * (size_t)run->block;
    if (desc->op == LS_OP_GATE)
        kernels->gate(ls_cpu_at(run->src, plane, storage), ls_cpu_at(run->other, vector, storage),
            ls_cpu_at(run->out, plane, storage), run->pixels);
    else
        kernels->gate_backward(ls_cpu_at(run->src, plane, storage), ls_cpu_at(run->other, plane, storage),
            ls_cpu_at(run->out, vector, storage), run->pixels);
}

// Runs either operator; both have the arguments src, the other input, the output, in this order.
static void gate_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_cpu_plan *own = (const ls_cpu_plan *)plan;
    const ls_nchw shape = plan->desc.attr.gate.shape;
    gate_run run = { .plan = own,
        .src = ls_buffer_host(args[0]),
        .other = ls_buffer_host(args[1]),
        .out = ls_buffer_host(args[2]),
        .blocks = ls_cpu_blocks(own->cpu, shape.c),
        .block = ls_cpu_block(own->cpu, shape.c),
        .pixels = shape.h * shape.w };
    ls_pool_run(own->cpu->pool, gate_task, &run, shape.n * run.blocks);
}

ls_status ls_cpu_gate_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    *out = ls_cpu_plan_make(cpu, desc, sizeof(ls_cpu_plan), gate_plan_run, "own");
    return LS_SUCCESS;
}
