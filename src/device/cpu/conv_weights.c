// conv_weights.c - converts between the layouts of convolution weights, in parallel over blocks.
#include <string.h>
#include "base/half.h"
#include "device/cpu/conv.h"

typedef struct {
    const ls_conv_run *run;
    const void *from; // floats; for ls_conv_expand, values in the storage type
    float *to;
} weights_run;

static size_t taps_of(const ls_conv_plan *plan) {
    return (size_t)ls_conv_taps(&plan->base.base.desc.attr.conv);
}

// Place of a weight in the dense array. k: number of the output channel. c: number of the source channel, or its number
// within k's part.
static size_t dense_place(const ls_conv_plan *plan, int k, int c, size_t tap) {
    c %= plan->src_blocks * plan->depth;
    size_t row = (size_t)(k / plan->block * plan->src_blocks + c / plan->depth) * taps_of(plan) + tap;
    return (row * (size_t)plan->depth + (size_t)(c % plan->depth)) * (size_t)plan->block + (size_t)(k % plan->block);
}

static void expand_task(void *context, int kb, int thread) {
    (void)thread;
    const weights_run *w = context;
    const ls_conv_plan *plan = w->run->plan;
    const ls_conv_attr *attr = &plan->base.base.desc.attr.conv;
    size_t taps = taps_of(plan), share = plan->weight_floats / (size_t)plan->dst_blocks;
    int in = attr->src.c / attr->groups, out = attr->dst.c / attr->groups;
    if (attr->groups == 1) {
        const void *from = ls_cpu_at(w->from, (size_t)kb * share, attr->storage);
        ls_cpu_kernels(plan->base.cpu, plan->block, attr->storage)->to_floats(from, w->to + (size_t)kb * share, share);
        return;
    }
    memset(w->to + (size_t)kb * share, 0, share * sizeof(float));
    for (int k = kb * plan->block; k < (kb + 1) * plan->block && k < attr->dst.c; k++)
        for (int i = 0; i < in; i++)
            for (size_t tap = 0; tap < taps; tap++)
                w->to[dense_place(plan, k, k / out * in + i, tap)] =
                    ls_load_float(w->from, attr->storage, (int64_t)(((size_t)k * (size_t)in + (size_t)i) * taps + tap));
}

static void run_weights(const ls_conv_run *run, ls_pool_task *task, const void *from, float *to, int tasks) {
    weights_run w = { run, from, to };
    ls_pool_run(run->plan->base.cpu->pool, task, &w, tasks);
}

void ls_conv_expand(const ls_conv_run *run, const void *stored, float *dense) {
    run_weights(run, expand_task, stored, dense, run->plan->dst_blocks);
}

static void exchange_task(void *context, int kb, int thread) {
    (void)thread;
    const weights_run *w = context;
    const ls_conv_plan *plan = w->run->plan;
    const float *from = w->from;
    size_t b = (size_t)plan->block, count = (size_t)plan->src_blocks * taps_of(plan), square = b * b;
    for (size_t at = (size_t)kb * count * square; count > 0; count--, at += square)
        for (size_t i = 0; i < b; i++)
            for (size_t j = 0; j < b; j++) w->to[at + i * b + j] = from[at + j * b + i];
}

void ls_conv_exchange(const ls_conv_run *run, const float *dense, float *exchanged) {
    run_weights(run, exchange_task, dense, exchanged, run->plan->dst_blocks);
}

// Turns one block of source channels, which are the outputs of the backward pass.
static void turn_task(void *context, int cb, int thread) {
    (void)thread;
    const weights_run *w = context;
    const ls_conv_plan *plan = w->run->plan;
    int b = plan->block, channels = plan->parts * plan->src_blocks * plan->depth,
        outputs = ls_conv_part_outputs(plan) * b;
    size_t taps = taps_of(plan);
    if (plan->dst_depth < b) outputs = plan->dst_depth;
    const float *from = w->from;
    float *to = w->to + (size_t)cb * (size_t)outputs * taps * (size_t)b;
    const int first = cb / plan->src_blocks * outputs;
    for (int kb = first; kb < first + outputs; kb += plan->dst_depth)
        for (size_t tap = 0; tap < taps; tap++)
            for (int k = kb; k < kb + plan->dst_depth; k++)
                for (int c = cb * b; c < (cb + 1) * b; c++)
                    *to++ = c < channels ? from[dense_place(plan, k, c, taps - 1 - tap)] : 0;
}

void ls_conv_turn(const ls_conv_run *run, const float *dense, float *turned) {
    const ls_conv_plan *plan = run->plan;
    run_weights(run, turn_task, dense, turned, plan->depth < plan->block ? 1 : plan->parts * plan->src_blocks);
}

static const float *partial(const ls_conv_run *run, int task) {
    return (const float *)(const void *)(run->workspace + run->plan->partial_at) +
           (size_t)task * run->plan->weight_floats;
}

// Adds the partial sums of one block of output channels to the gradient, in order. With groups, only those dense
// weights that exist in the parameter.
static void reduce_task(void *context, int kb, int thread) {
    (void)thread;
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *attr = &plan->base.base.desc.attr.conv;
    size_t taps = taps_of(plan), share = plan->weight_floats / (size_t)plan->dst_blocks, begin = (size_t)kb * share;
    if (attr->groups == 1) {
        for (int t = 0; t < plan->tasks; t++)
            plan->base.cpu->kernels->add(
                run->grad_weight + begin, partial(run, t) + begin, run->grad_weight + begin, share, NULL);
        return;
    }
    int in = attr->src.c / attr->groups, out = attr->dst.c / attr->groups;
    for (int k = kb * plan->block; k < (kb + 1) * plan->block && k < attr->dst.c; k++)
        for (int i = 0; i < in; i++)
            for (size_t tap = 0; tap < taps; tap++) {
                float *to = run->grad_weight + ((size_t)k * (size_t)in + (size_t)i) * taps + tap;
                for (int t = 0; t < plan->tasks; t++)
                    *to += partial(run, t)[dense_place(plan, k, k / out * in + i, tap)];
            }
}

void ls_conv_reduce(const ls_conv_run *run) {
    const ls_conv_plan *plan = run->plan;
    if (run->grad_weight) ls_pool_run(plan->base.cpu->pool, reduce_task, (void *)(uintptr_t)run, plan->dst_blocks);
    if (!run->grad_bias) return;
    const float *bias = (const float *)(const void *)(run->workspace + plan->bias_at);
    for (int t = 0; t < plan->tasks; t++, bias += ls_conv_bias_floats(plan))
        for (size_t k = 0; k < ls_conv_bias_floats(plan); k++) run->grad_bias[k] += bias[k];
}
