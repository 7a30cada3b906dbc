// op_elementwise.c - element-wise operators. They ignore the layout, except dropout, whose random numbers depend on the
// canonical index, and clear_padding.
#include <string.h>
#include "base/philox.h"
#include "config/purpose.h"
#include "device/cpu/cpu.h"

enum { ELEMENTWISE_TASK = 32768 }; // elements in a task

typedef struct {
    ls_kernel_elementwise *kernel;
    const ls_elementwise_attr *attr;
    const void *a, *b;
    void *dst;
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
    const ls_dtype storage = run->attr->storage;
    run->kernel(
        ls_cpu_at(run->a, at, storage), ls_cpu_at(run->b, at, storage), ls_cpu_at(run->dst, at, storage), n, run->attr);
}

// Clears the padding channels of one sample.
static void clear_padding(const ls_cpu *cpu, const ls_elementwise_attr *attr, void *sample) {
    const size_t block = (size_t)ls_cpu_block(cpu, attr->shape.c), used = (size_t)attr->shape.c % block;
    const size_t pixels = (size_t)attr->shape.h * (size_t)attr->shape.w, first = (size_t)attr->shape.c / block * pixels;
    for (size_t i = first; used && i < first + pixels; i++)
        memset(ls_cpu_at(sample, i * block + used, attr->storage), 0, (block - used) * ls_dtype_bytes(attr->storage));
}

static void elementwise_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_cpu_plan *own = (const ls_cpu_plan *)plan;
    const ls_elementwise_attr *attr = &plan->desc.attr.elementwise;
    int inputs = ls_op_args(plan->desc.op) - 1; // the output is the last argument
    elementwise_run run = { .kernel =
                                kernel_of(ls_cpu_kernels(own->cpu, own->cpu->block, attr->storage), plan->desc.op),
        .attr = attr,
        .a = ls_buffer_host(args[0]),
        .dst = ls_buffer_host(args[inputs]),
        .count = ls_cpu_elements(own->cpu, attr->shape) };
    if (inputs == 2) run.b = ls_buffer_host(args[1]);
    ls_pool_run(own->cpu->pool, elementwise_task, &run, (int)((run.count + ELEMENTWISE_TASK - 1) / ELEMENTWISE_TASK));
    // the other operators give 0 for 0, so their padding stays zero
    if (plan->desc.op != LS_OP_ACTIVATION_FORWARD || ls_activation_keeps_zero(attr->activation)) return;
    for (int n = 0; n < attr->shape.n; n++)
        clear_padding(
            own->cpu, attr, ls_cpu_at(run.dst, (size_t)n * ls_cpu_sample(own->cpu, attr->shape), attr->storage));
}

typedef struct {
    const ls_cpu_plan *plan;
    const void *src;
    void *dst;
    const ls_micro_input *micro;
} dropout_run;

static void dropout_task(void *context, int task, int thread) { // task: a sample
    (void)thread;
    const dropout_run *run = context;
    const ls_cpu *cpu = run->plan->cpu;
    const ls_elementwise_attr *attr = &run->plan->base.desc.attr.elementwise;
    const int block = ls_cpu_block(cpu, attr->shape.c), pixels = attr->shape.h * attr->shape.w;
    const size_t plane = (size_t)pixels * (size_t)block;
    size_t at = (size_t)task * ls_cpu_sample(cpu, attr->shape);
    const uint64_t channel = (run->micro->position + (uint64_t)task) * (uint64_t)attr->shape.c;
    ls_kernel_dropout dropout = { .a = (uint32_t)attr->layer, .b = run->micro->update, .pixels = pixels, .p = attr->p };
    ls_random_key(attr->seed, LS_PURPOSE_DROPOUT, dropout.key);
    for (int c = 0; c < attr->shape.c; c += block, at += plane) {
        dropout.word = (channel + (uint64_t)c) * (uint64_t)pixels;
        dropout.channels = attr->shape.c - c < block ? attr->shape.c - c : block;
        ls_cpu_kernels(cpu, attr->shape.c, attr->storage)
            ->dropout(&dropout, ls_cpu_at(run->src, at, attr->storage), ls_cpu_at(run->dst, at, attr->storage));
    }
}

// With one random number for a channel or a sample: each channel is multiplied by its factor.
static void dropout_units_task(void *context, int task, int thread) { // task: a sample
    enum { WIDTH_MAX = 16 };
    (void)thread;
    const dropout_run *run = context;
    const ls_cpu *cpu = run->plan->cpu;
    const ls_elementwise_attr *attr = &run->plan->base.desc.attr.elementwise;
    const int block = ls_cpu_block(cpu, attr->shape.c), pixels = attr->shape.h * attr->shape.w;
    const size_t sample = ls_cpu_sample(cpu, attr->shape), plane = (size_t)pixels * (size_t)block;
    const ls_kernel_span span = { .stride = sample, .samples = 1, .pixels = pixels };
    const uint64_t channel = (run->micro->position + (uint64_t)task) * (uint64_t)attr->shape.c;
    size_t at = (size_t)task * sample;
    for (int first = 0; first < attr->shape.c; first += block, at += plane) {
        float constants[3 * WIDTH_MAX] = { 0 }; // mean, factor, offset
        for (int i = 0; i < block && first + i < attr->shape.c; i++) {
            const uint64_t number = (channel + (uint64_t)(first + i)) * (uint64_t)pixels / (uint64_t)attr->unit;
            const uint32_t word =
                ls_random_word(attr->seed, LS_PURPOSE_DROPOUT, (uint32_t)attr->layer, run->micro->update, number);
            constants[block + i] = ls_unit_float(word) >= attr->p ? 1 / (1 - attr->p) : 0;
        }
        ls_cpu_kernels(cpu, attr->shape.c, attr->storage)
            ->norm_apply(&span, ls_cpu_at(run->src, at, attr->storage), NULL, LS_ACTIVATION_NONE, 0, constants,
                ls_cpu_at(run->dst, at, attr->storage));
    }
}

static void dropout_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    dropout_run run = { .plan = (const ls_cpu_plan *)plan,
        .src = ls_buffer_host(args[LS_DROPOUT_SRC]),
        .dst = ls_buffer_host(args[LS_DROPOUT_DST]),
        .micro = ls_buffer_host(args[LS_DROPOUT_MICRO]) };
    const ls_elementwise_attr *attr = &plan->desc.attr.elementwise;
    ls_pool_run(run.plan->cpu->pool, attr->unit == 1 ? dropout_task : dropout_units_task, &run, attr->shape.n);
}

ls_status ls_cpu_elementwise_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    ls_cpu_run *run = desc->op == LS_OP_DROPOUT ? dropout_plan_run : elementwise_plan_run;
    *out = ls_cpu_plan_make(cpu, desc, sizeof(ls_cpu_plan), run, "own");
    return LS_SUCCESS;
}
