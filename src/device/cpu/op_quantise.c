// op_quantise.c - fake quantisation. Activations ignore the layout; weights are [row blocks][columns][lanes], and an
// output channel is one lane of a row block.
#include <string.h>
#include "device/cpu/cpu.h"

enum { TASK = 32768 }; // elements in a task

typedef struct {
    const ls_kernels *kernels;
    ls_kernel_grid grid;
    const float *src, *grad_dst; // grad_dst: NULL forward
    float *out;
    size_t count, each; // each: weights: elements of a task
    int lanes;          // weights: output channels of a task
} quantise_run;

static void map_task(void *context, int task, int thread) {
    (void)thread;
    const quantise_run *run = context;
    const size_t at = (size_t)task * TASK, n = run->count - at < TASK ? run->count - at : TASK;
    if (run->grad_dst)
        run->kernels->quantise_backward(&run->grid, run->src + at, run->grad_dst + at, run->out + at, n);
    else
        run->kernels->quantise(&run->grid, run->src + at, run->out + at, n);
}

static void map_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_cpu *cpu = ((const ls_cpu_plan *)plan)->cpu;
    const int backward = plan->desc.op == LS_OP_FAKE_QUANTISE_BACKWARD;
    const float zero = *ls_cpu_floats_at(args[LS_FAKE_QUANTISE_ZERO]);
    quantise_run run = { .kernels = cpu->kernels,
        .grid = { *ls_cpu_floats_at(args[LS_FAKE_QUANTISE_SCALE]), LS_QUANTISE_LEAST - zero, LS_QUANTISE_MOST - zero },
        .src = ls_cpu_floats_at(args[LS_FAKE_QUANTISE_SRC]),
        .grad_dst = backward ? ls_cpu_floats_at(args[LS_FAKE_QUANTISE_BACKWARD_GRAD_DST]) : NULL,
        .out = ls_cpu_floats_at(args[ls_op_args(plan->desc.op) - 1]), // the output is the last argument
        .count = ls_cpu_elements(cpu, plan->desc.attr.quantise.shape) };
    ls_pool_run(cpu->pool, map_task, &run, (int)((run.count + TASK - 1) / TASK));
}
_Static_assert((int)LS_FAKE_QUANTISE_SRC == (int)LS_FAKE_QUANTISE_BACKWARD_SRC &&
                   (int)LS_FAKE_QUANTISE_SCALE == (int)LS_FAKE_QUANTISE_BACKWARD_SCALE &&
                   (int)LS_FAKE_QUANTISE_ZERO == (int)LS_FAKE_QUANTISE_BACKWARD_ZERO,
    "map_plan_run has one list for both");

static void weight_task(void *context, int task, int thread) { // task: a block of output channels
    (void)thread;
    const quantise_run *run = context;
    const float *src = run->src + (size_t)task * run->each;
    float *out = run->out + (size_t)task * run->each, most = 0;
    if (run->lanes > 1) {
        run->kernels->quantise_lanes(src, out, run->each / (size_t)run->lanes);
        return;
    }
    for (size_t i = 0; i < run->each; i++) {
        const float size = src[i] < 0 ? -src[i] : src[i];
        most = size > most ? size : most;
    }
    const ls_kernel_grid grid = { most / LS_QUANTISE_WEIGHT_MOST, -LS_QUANTISE_WEIGHT_MOST, LS_QUANTISE_WEIGHT_MOST };
    if (grid.scale > 0)
        run->kernels->quantise(&grid, src, out, run->each);
    else
        memmove(out, src, run->each * sizeof *out);
}

static void weight_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_cpu *cpu = ((const ls_cpu_plan *)plan)->cpu;
    const ls_param_shape *s = &plan->desc.attr.quantise.param;
    const int lanes = s->kind == LS_PARAM_CONV && s->groups == 1 ? cpu->block : 1;
    const int blocks = (s->dim[0] + lanes - 1) / lanes;
    quantise_run run = { .kernels = cpu->kernels,
        .src = ls_cpu_floats_at(args[LS_FAKE_QUANTISE_WEIGHT_SRC]),
        .out = ls_cpu_floats_at(args[LS_FAKE_QUANTISE_WEIGHT_DST]),
        .each = ls_cpu_param_elements(&cpu->base, s) / (size_t)blocks,
        .lanes = lanes };
    ls_pool_run(cpu->pool, weight_task, &run, blocks);
}

ls_status ls_cpu_quantise_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    ls_cpu_run *run = desc->op == LS_OP_FAKE_QUANTISE_WEIGHT ? weight_plan_run : map_plan_run;
    *out = ls_cpu_plan_make(cpu, desc, sizeof(ls_cpu_plan), run, "own");
    return LS_SUCCESS;
}
