// op_elementwise.c - element-wise operators: the layout does not matter, but for dropout,
// whose random numbers go by canonical index.
#include "base/philox.h"
#include "device/cpu/cpu.h"

enum { ELEMENTWISE_TASK = 32768 }; // floats to a task

typedef struct {
    ls_kernel_elementwise *kernel;
    const ls_elementwise_attr *attr;
    const float *a, *b;
    float *dst;
    size_t count;
} elementwise_run;

static ls_kernel_elementwise *kernel_of(const ls_kernels *kernels, ls_op op) {
    switch (op) {
#define ELEMENTWISE(NAME, name, text, output, flops) \
    case LS_OP_##NAME: \
        return kernels->name;
#include "device/ops.def"
    default:
        return NULL;
    }
}

static void elementwise_task(void *context, int task, int thread) {
    (void)thread;
    const elementwise_run *run = context;
    size_t at = (size_t)task * ELEMENTWISE_TASK,
           n = run->count - at < ELEMENTWISE_TASK ? run->count - at : ELEMENTWISE_TASK;
    run->kernel(run->a + at, run->b ? run->b + at : NULL, run->dst + at, n, run->attr);
}

// Of one sample: what rounding the channels up has added.
static void clear_padding(const ls_cpu *cpu, ls_nchw shape, float *sample) {
    const int block = ls_cpu_block(cpu, shape.c), pixels = shape.h * shape.w, used = shape.c % block;
    if (!used) return;
    float *last = sample + (size_t)(shape.c / block) * (size_t)pixels * (size_t)block;
    for (int i = 0; i < pixels; i++)
        for (int c = used; c < block; c++) last[(size_t)i * (size_t)block + (size_t)c] = 0;
}

static void elementwise_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_cpu_plan *own = (const ls_cpu_plan *)plan;
    int inputs = ls_op_args(plan->desc.op) - 1; // the output is the last
    elementwise_run run = { .kernel = kernel_of(own->cpu->kernels, plan->desc.op),
        .attr = &plan->desc.attr.elementwise,
        .a = ls_cpu_floats_at(args[0]),
        .dst = ls_cpu_floats_at(args[inputs]),
        .count = ls_cpu_floats(own->cpu, plan->desc.attr.elementwise.shape) };
    if (inputs == 2) run.b = ls_cpu_floats_at(args[1]);
    ls_pool_run(own->cpu->pool, elementwise_task, &run, (int)((run.count + ELEMENTWISE_TASK - 1) / ELEMENTWISE_TASK));
    if (plan->desc.op != LS_OP_SIGMOID_FORWARD) return; // the others make 0 of 0
    const ls_nchw shape = plan->desc.attr.elementwise.shape;
    for (int n = 0; n < shape.n; n++)
        clear_padding(own->cpu, shape, run.dst + (size_t)n * ls_cpu_sample(own->cpu, shape));
}

typedef struct {
    const ls_cpu_plan *plan;
    const float *src;
    float *dst;
    const ls_micro_input *micro;
} dropout_run;

static void dropout_task(void *context, int task, int thread) { // a sample
    (void)thread;
    const dropout_run *run = context;
    const ls_cpu *cpu = run->plan->cpu;
    const ls_elementwise_attr *attr = &run->plan->base.desc.attr.elementwise;
    const int block = ls_cpu_block(cpu, attr->shape.c), pixels = attr->shape.h * attr->shape.w;
    const size_t sample = ls_cpu_sample(cpu, attr->shape), plane = (size_t)pixels * (size_t)block;
    const float *src = run->src + (size_t)task * sample;
    float *dst = run->dst + (size_t)task * sample;
    const uint64_t channel = (run->micro->position + (uint64_t)task) * (uint64_t)attr->shape.c;
    ls_kernel_dropout dropout = { .a = (uint32_t)attr->layer, .b = run->micro->update, .pixels = pixels, .p = attr->p };
    ls_random_key(attr->seed, LS_PURPOSE_DROPOUT, dropout.key);
    for (int c = 0; c < attr->shape.c; c += block, src += plane, dst += plane) {
        dropout.word = (channel + (uint64_t)c) * (uint64_t)pixels;
        dropout.channels = attr->shape.c - c < block ? attr->shape.c - c : block;
        ls_cpu_kernels(cpu, attr->shape.c)->dropout(&dropout, src, dst);
    }
}

static void dropout_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    dropout_run run = { .plan = (const ls_cpu_plan *)plan,
        .src = ls_cpu_floats_at(args[LS_DROPOUT_SRC]),
        .dst = ls_cpu_floats_at(args[LS_DROPOUT_DST]),
        .micro = ls_buffer_host(args[LS_DROPOUT_MICRO]) };
    ls_pool_run(run.plan->cpu->pool, dropout_task, &run, plan->desc.attr.elementwise.shape.n);
}

ls_status ls_cpu_elementwise_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    ls_cpu_run *run = desc->op == LS_OP_DROPOUT ? dropout_plan_run : elementwise_plan_run;
    return ls_cpu_plan_make(cpu, desc, sizeof(ls_cpu_plan), run, "own", out);
}
