// conv_measure.c - which algorithm of a convolution is the fastest:
// they run in turns, and the shortest run of each counts.
//
// It must not take long, and the machine may be busy. So of a large layer only some samples are computed; what is far
// behind the rule's choice on a quarter of those takes no further part; and the rule's choice stays unless another one
// is clearly faster, so that noise changes little.
#include <float.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "device/cpu/conv.h"
#include "device/host.h"

enum { SAMPLES_LEAST = 16, SCREEN = 4, ROUNDS_LEAST = 2, ROUNDS = 5 };
static const double WORK = 0.5e9;     // operations of a run for each thread, as direct convolution counts them
static const double FAR_BEHIND = 1.3; // of the rule's time
static const double CLEARLY = 0.95;   // the same
static const double LIMIT_S = 0.05;   // after it no further round begins
enum { PATTERN = 4096 };              // floats

typedef struct {
    ls_cpu *cpu;
    ls_queue *queue;
    ls_op_desc desc; // of some samples
    ls_slab slab;    // cpu->trial
    ls_buffer args[LS_OP_ARGS_MAX], workspace;
    ls_plan *plan[LS_CONV_ALGORITHMS]; // NULL: takes no part
    double seconds[LS_CONV_ALGORITHMS];
} trial;

static int timed_samples(const ls_cpu *cpu, const ls_op_desc *desc) {
    const int n = desc->attr.conv.src.n;
    const double wanted = WORK * cpu->threads / (ls_op_flops(desc) / n);
    if (wanted >= n) return n;
    const int samples = wanted < SAMPLES_LEAST ? SAMPLES_LEAST : (int)wanted;
    return samples < n ? samples : n;
}

static ls_op_desc with_samples(const ls_op_desc *desc, int samples) {
    ls_op_desc some = *desc;
    some.attr.conv.src.n = some.attr.conv.dst.n = samples;
    return some;
}

// Numbers in [-1, 1): zeros of memory never written to would all be one page.
static void fill(float *values, size_t count) {
    uint32_t random = 1;
    for (size_t i = 0; i < count && i < PATTERN; i++) {
        random = random * 1664525U + 1013904223U;
        values[i] = (float)(random >> 8) * 0x1p-23F - 1.0F;
    }
    for (size_t at = PATTERN; at < count; at += PATTERN)
        memcpy(values + at, values, (count - at < PATTERN ? count - at : PATTERN) * sizeof *values);
}

void ls_cpu_conv_measure_end(ls_cpu *cpu) {
    ls_memory_free(cpu->trial);
    cpu->trial = NULL;
    cpu->trial_bytes = 0;
}

// Memory for the operator's arguments and the largest workspace. It stays for the next convolution.
static ls_status lay_out(trial *t, size_t workspace_bytes) {
    ls_cpu *cpu = t->cpu;
    const ls_conv_attr *a = &t->desc.attr.conv;
    const ls_param_shape weight = {
        .kind = LS_PARAM_CONV, .dim = { a->dst.c, a->src.c / a->groups, a->kernel, a->kernel }, .groups = a->groups
    };
    const size_t bytes[] = { ls_cpu_floats(cpu, a->src) * sizeof(float), ls_cpu_floats(cpu, a->dst) * sizeof(float),
        ls_cpu_param_elements(&cpu->base, &weight) * sizeof(float),
        (size_t)ls_cpu_vector(cpu, a->dst.c) * sizeof(float), workspace_bytes };
    ls_buffer part[5];
    size_t at = 0;
    for (int i = 0; i < 5; i++) {
        part[i] = ls_buffer_at(&t->slab, at, bytes[i]);
        at += ls_cpu_round(bytes[i]);
    }
    if (at > cpu->trial_bytes) {
        ls_cpu_conv_measure_end(cpu);
        LS_TRY(ls_memory_new(at, "measuring convolutions", &cpu->trial));
        cpu->trial_bytes = at;
    }
    t->slab = (ls_slab){ .device = &cpu->base, .host_visible = 1, .address = cpu->trial, .bytes = at };
    fill(cpu->trial, at / sizeof(float));
    const ls_buffer src = part[0], dst = part[1], bias = a->has_bias ? part[3] : (ls_buffer){ 0 };
    const ls_buffer forward[] = { src, part[2], bias, dst }, backward_data[] = { dst, part[2], src },
                    backward_weight[] = { src, dst, part[2], bias };
    const ls_buffer *args = t->desc.op == LS_OP_CONV_FORWARD         ? forward
                            : t->desc.op == LS_OP_CONV_BACKWARD_DATA ? backward_data
                                                                     : backward_weight;
    memcpy(t->args, args, (size_t)ls_op_args(t->desc.op) * sizeof *args);
    t->workspace = part[4];
    return LS_SUCCESS;
}

static double run(const trial *t, const ls_plan *plan) {
    const double start = ls_clock_seconds();
    ls_plan_run(plan, t->args, t->workspace, t->queue);
    return ls_clock_seconds() - start;
}

// The shorter of two: the first one wakes threads and fills caches.
static double run_twice(const trial *t, const ls_plan *plan) {
    const double first = run(t, plan), second = run(t, plan);
    return second < first ? second : first;
}

static void leave_out(trial *t, int algorithm) {
    ls_cpu_plan_free(t->plan[algorithm]);
    t->plan[algorithm] = NULL;
}

// Leaves those that are not far behind on some of the samples.
static ls_status screen(trial *t, ls_conv_algorithm rule) {
    const int samples = t->desc.attr.conv.src.n;
    const ls_op_desc some = with_samples(&t->desc, (samples + SCREEN - 1) / SCREEN);
    t->seconds[rule] = run_twice(t, t->plan[rule]);
    for (int i = 0; i < LS_CONV_ALGORITHMS; i++) {
        if (!t->plan[i] || i == (int)rule) continue;
        ls_plan *plan;
        LS_TRY(ls_cpu_conv_plan_by(t->cpu, &some, (ls_conv_algorithm)i, &plan));
        double seconds = DBL_MAX;
        if (plan && plan->workspace_bytes <= t->workspace.bytes)
            seconds = run_twice(t, plan) * samples / some.attr.conv.src.n;
        ls_cpu_plan_free(plan);
        if (seconds > FAR_BEHIND * t->seconds[rule]) leave_out(t, i);
    }
    return ls_host_queue_sync(t->queue);
}

static void take_turns(trial *t, ls_conv_algorithm rule) {
    const double start = ls_clock_seconds();
    int others = 0;
    for (int i = 0; i < LS_CONV_ALGORITHMS; i++) {
        if (!t->plan[i] || i == (int)rule) continue;
        others++;
        t->seconds[i] = run_twice(t, t->plan[i]);
    }
    for (int round = 0; others && round < ROUNDS; round++) {
        if (round >= ROUNDS_LEAST && ls_clock_seconds() - start > LIMIT_S) break;
        for (int i = 0; i < LS_CONV_ALGORITHMS; i++) {
            const double seconds = t->plan[i] ? run(t, t->plan[i]) : DBL_MAX;
            if (seconds < t->seconds[i]) t->seconds[i] = seconds;
        }
    }
}

static ls_status compare(trial *t, ls_conv_algorithm rule, ls_conv_algorithm *best, int *compared) {
    size_t workspace = 0;
    int count = 0;
    for (int i = 0; i < LS_CONV_ALGORITHMS; i++) {
        if (ls_cpu_conv_allowed(t->cpu, (ls_conv_algorithm)i) || i == (int)rule)
            LS_TRY(ls_cpu_conv_plan_by(t->cpu, &t->desc, (ls_conv_algorithm)i, &t->plan[i]));
        if (!t->plan[i]) continue;
        count++;
        if (t->plan[i]->workspace_bytes > workspace) workspace = t->plan[i]->workspace_bytes;
    }
    *compared = count > 1;
    if (!*compared) return LS_SUCCESS;
    LS_TRY(lay_out(t, workspace));
    LS_TRY(screen(t, rule));
    take_turns(t, rule);
    double least = CLEARLY * t->seconds[rule];
    for (int i = 0; i < LS_CONV_ALGORITHMS; i++) {
        if (!t->plan[i] || i == (int)rule || t->seconds[i] >= least) continue;
        least = t->seconds[i];
        *best = (ls_conv_algorithm)i;
    }
    return ls_host_queue_sync(t->queue);
}

ls_status ls_cpu_conv_measure(
    ls_cpu *cpu, const ls_op_desc *desc, ls_conv_algorithm rule, ls_conv_algorithm *best, int *compared) {
    trial t = { .cpu = cpu, .desc = with_samples(desc, timed_samples(cpu, desc)) };
    *best = rule;
    LS_TRY(ls_host_queue_new(&cpu->base, "measuring", &t.queue));
    ls_status status = compare(&t, rule, best, compared);
    for (int i = 0; i < LS_CONV_ALGORITHMS; i++) leave_out(&t, i);
    ls_host_queue_free(t.queue);
    return status;
}
