// op_update.c - flat operators over the parameter store, in ranges of a fixed length. Work that happens once in an
// update or concerns only a few numbers (step control, running statistics) uses the reference device's functions. So do
// WIDEN and casts of types other than bf16.
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"

enum { FLAT_TASK = 65536 }; // elements in a task

typedef struct {
    const ls_cpu_plan *plan;
    size_t count;
    const float *grad;
    float *grad_out;
    int64_t *fixed;
    uint16_t *bf16;                       // CAST, CAST_TO_F32
    float *average, *weight, decay, rest; // rest: 1 - decay, rounded once from double
    double factor, divisor;
    double (*partials)[2];
    atomic_int bad; // 1 + the highest index of an element that does not fit
} flat_run;

// Returns 1 + the index of the last element of [at, at + n) that fixed point cannot hold. Called only after the kernel
// found that there is one.
static int last_misfit(const flat_run *run, size_t at, size_t n) {
    const double limit = (double)((int64_t)1 << (62 - LS_FIXED_RANK_BITS));
    for (size_t i = at + n; i-- > at;)
        if (!(fabs(nearbyint((double)run->grad[i] * run->factor / run->divisor)) < limit)) return (int)i + 1;
    return 0;
}

static void raise_to(atomic_int *highest, int value) {
    int seen = atomic_load(highest);
    while (value > seen && !atomic_compare_exchange_weak(highest, &seen, value)) continue;
}

static void average(const flat_run *run, size_t at, size_t n) {
    float *mean = run->average + at, *weight = run->weight + at;
    for (size_t i = 0; i < n; i++) mean[i] = run->decay * mean[i] + run->rest * weight[i];
    if (run->plan->base.desc.attr.flat.write_back) memcpy(weight, mean, n * sizeof *mean);
}

static void flat_task(void *context, int task, int thread) {
    (void)thread;
    flat_run *run = context;
    const ls_kernels *kernels = run->plan->cpu->kernels;
    size_t at = (size_t)task * FLAT_TASK, n = run->count - at < FLAT_TASK ? run->count - at : FLAT_TASK;
    switch (run->plan->base.desc.op) {
    case LS_OP_TO_FIXED_POINT:
        if (kernels->to_fixed_point(run->grad + at, run->factor, run->divisor, run->fixed + at, n))
            raise_to(&run->bad, last_misfit(run, at, n));
        break;
    case LS_OP_FROM_FIXED_POINT:
        kernels->from_fixed_point(run->fixed + at, run->factor, run->divisor, run->grad_out + at, n);
        break;
    case LS_OP_STEP_CONTROL:
        kernels->grad_stats(run->grad + at, n, run->partials[task]);
        break;
    case LS_OP_AVERAGE:
        average(run, at, n);
        break;
    case LS_OP_UPDATE_BEGIN:
        memset(run->grad_out + at, 0, n * sizeof(float));
        break;
    case LS_OP_CAST:
        run->plan->cpu->kernels_bf16->from_floats(run->grad + at, run->bf16 + at, n);
        break;
    default: // CAST_TO_F32
        run->plan->cpu->kernels_bf16->to_floats(run->bf16 + at, run->grad_out + at, n);
    }
}

static int flat_tasks(int64_t count) {
    return (int)((count + FLAT_TASK - 1) / FLAT_TASK);
}

static void run_flat(flat_run *run, const ls_plan *plan, int64_t count) {
    run->plan = (const ls_cpu_plan *)plan;
    run->count = (size_t)count;
    ls_pool_run(run->plan->cpu->pool, flat_task, run, flat_tasks(count));
}

static double loss_scale_of(const ls_plan *plan, const ls_train_state *state) {
    const ls_flat_attr *a = &plan->desc.attr.flat;
    return a->unscaled ? 1 : (double)LS_GRADIENT_SCALE(state, a->mean_of);
}

static void update_begin_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    flat_run run = { .grad_out = ls_cpu_floats_at(args[LS_UPDATE_BEGIN_SUMS]) };
    ls_ref_take_window(args);
    run_flat(&run, plan, plan->desc.attr.flat.count);
}

static void to_fixed_point_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_flat_attr *attr = &plan->desc.attr.flat;
    ls_train_state *state = ls_buffer_host(args[LS_TO_FIXED_POINT_STATE]);
    flat_run run = { .grad = ls_cpu_floats_at(args[LS_TO_FIXED_POINT_GRAD]),
        .fixed = ls_buffer_host(args[LS_TO_FIXED_POINT_FIXED]),
        .factor = ldexp(1, attr->fraction_bits),
        .divisor = loss_scale_of(plan, state) };
    run_flat(&run, plan, attr->count);
    int32_t number = run.bad ? (int32_t)attr->first + run.bad : 0;
    if (number > state->bad_gradient) state->bad_gradient = number;
}

static void from_fixed_point_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_flat_attr *attr = &plan->desc.attr.flat;
    flat_run run = { .fixed = ls_buffer_host(args[LS_FROM_FIXED_POINT_FIXED]),
        .grad_out = ls_cpu_floats_at(args[LS_FROM_FIXED_POINT_GRAD]),
        .factor = ldexp(1, -attr->fraction_bits),
        .divisor = loss_scale_of(plan, ls_buffer_host(args[LS_FROM_FIXED_POINT_STATE])) };
    run_flat(&run, plan, attr->count);
}

static void step_control_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const ls_step_control_attr *attr = &plan->desc.attr.step_control;
    float *grad = ls_cpu_floats_at(args[LS_STEP_CONTROL_GRAD]);
    if (attr->storage != LS_F32)
        ls_ref_add_rounded(ls_buffer_host(args[LS_STEP_CONTROL_ROUNDED]), attr->storage, attr->count, grad);
    flat_run run = { .grad = grad, .partials = ls_buffer_host(workspace) };
    run_flat(&run, plan, attr->count);
    ls_ref_gradient all = { 0, 0, -1 };
    for (int i = 0; i < flat_tasks(attr->count); i++) {
        all.squares += run.partials[i][0];
        all.bad += run.partials[i][1];
    }
    if (all.bad > 0) all.last = attr->count - 1;
    while (all.last >= 0 && isfinite(grad[all.last])) all.last--;
    ls_ref_control(plan, args, all);
}

static void average_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_update_input *window = ls_buffer_host(args[LS_AVERAGE_WINDOW]);
    const ls_train_state *state = ls_buffer_host(args[LS_AVERAGE_STATE]);
    flat_run run = { .average = ls_cpu_floats_at(args[LS_AVERAGE_AVERAGE]),
        .weight = ls_cpu_floats_at(args[LS_AVERAGE_WEIGHT]),
        .decay = (float)window->average_decay,
        .rest = (float)(1 - window->average_decay) };
    if (!state->halted) run_flat(&run, plan, plan->desc.attr.flat.count);
}

static void cast_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    flat_run run = { .grad = ls_cpu_floats_at(args[LS_CAST_SRC]), .bf16 = ls_buffer_host(args[LS_CAST_DST]) };
    run_flat(&run, plan, plan->desc.attr.flat.count);
}

static void cast_to_f32_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    flat_run run = { .bf16 = ls_buffer_host(args[LS_CAST_TO_F32_SRC]),
        .grad_out = ls_cpu_floats_at(args[LS_CAST_TO_F32_DST]) };
    run_flat(&run, plan, plan->desc.attr.flat.count);
}

ls_status ls_cpu_flat_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    static ls_cpu_run *const runs[LS_OP_COUNT] = {
        [LS_OP_UPDATE_BEGIN] = update_begin_run,
        [LS_OP_TO_FIXED_POINT] = to_fixed_point_run,
        [LS_OP_FROM_FIXED_POINT] = from_fixed_point_run,
        [LS_OP_AVERAGE] = average_run,
        [LS_OP_CAST] = ls_ref_cast,
        [LS_OP_CAST_TO_F32] = ls_ref_cast_to_f32,
        [LS_OP_WIDEN] = ls_ref_widen,
    };
    ls_cpu_run *run = runs[desc->op];
    if (desc->attr.flat.storage == LS_BF16 && desc->op == LS_OP_CAST) run = cast_run;
    if (desc->attr.flat.storage == LS_BF16 && desc->op == LS_OP_CAST_TO_F32) run = cast_to_f32_run;
    ls_cpu_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, run, "own");
    *out = &plan->base;
    return LS_SUCCESS;
}

ls_status ls_cpu_step_control_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    ls_cpu_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, step_control_run, "own");
    plan->base.workspace_bytes = (size_t)flat_tasks(desc->attr.step_control.count) * sizeof(double[2]);
    *out = &plan->base;
    return LS_SUCCESS;
}

// --- optimizers ----------------------------------------------------------------------------------

typedef struct { // data of one segment
    ls_kernel_optimizer *kernel;
    const ls_kernels *kernels_bf16;
    ls_kernel_step constants;
    const float *grad;
    float *kept[LS_STEP_KEPT_MAX], *weight;
    uint16_t *copy; // NULL: no copy
    size_t count;
} step_run;

static ls_kernel_optimizer *kernel_of(const ls_kernels *kernels, ls_op op) {
    switch (op) {
#define STEP(NAME, name, text, flops) \
    case LS_OP_##NAME: \
        return kernels->name;
#include "device/ops.def"
    case LS_OP_LARS:
        return kernels->sgd;
    default:
        return NULL;
    }
}

// LARS: sums of squares of the gradient and of the weight.
typedef struct {
    const ls_kernels *kernels;
    const float *values[2];
    size_t count;
    double (*partials)[2];
} squares_run;

static void squares_task(void *context, int task, int thread) {
    (void)thread;
    const squares_run *run = context;
    const int tasks = flat_tasks((int64_t)run->count), which = task / tasks;
    size_t at = (size_t)(task % tasks) * FLAT_TASK, n = run->count - at < FLAT_TASK ? run->count - at : FLAT_TASK;
    run->kernels->grad_stats(run->values[which] + at, n, run->partials[task]);
}

static float trust_of(const ls_cpu *cpu, const step_run *step, const ls_optimizer_attr *attr, double (*partials)[2]) {
    squares_run run = { cpu->kernels, { step->grad, step->weight }, step->count, partials };
    const int tasks = flat_tasks((int64_t)step->count);
    double norm[2] = { 0 };
    ls_pool_run(cpu->pool, squares_task, &run, 2 * tasks);
    for (int t = 0; t < 2 * tasks; t++) norm[t / tasks] += partials[t][0];
    if (norm[0] == 0 || norm[1] == 0) return 1;
    norm[0] = sqrt(norm[0]) * (double)step->constants.multiplier;
    norm[1] = sqrt(norm[1]);
    return (
        float)((double)attr->trust * norm[1] / (norm[0] + (double)step->constants.decay * norm[1] + (double)attr->eps));
}

static void step_task(void *context, int task, int thread) {
    (void)thread;
    const step_run *run = context;
    size_t at = (size_t)task * FLAT_TASK, n = run->count - at < FLAT_TASK ? run->count - at : FLAT_TASK;
    float *kept[LS_STEP_KEPT_MAX] = { NULL };
    for (int k = 0; k < LS_STEP_KEPT_MAX && run->kept[k]; k++) kept[k] = run->kept[k] + at;
    run->kernel(&run->constants, run->grad + at, kept, run->weight + at, n);
    if (run->copy) run->kernels_bf16->from_floats(run->weight + at, run->copy + at, n);
}

static ls_kernel_step constants_of(
    const ls_optimizer_attr *attr, const ls_step_segment *segment, const ls_train_state *state) {
    double t = (double)state->applied;
    return (ls_kernel_step){ .multiplier = state->multiplier,
        .lr = state->lr[segment->rate] * segment->lr_factor,
        .decay = segment->decay,
        .momentum = segment->momentum,
        .beta1 = (float)attr->beta1,
        .beta2 = (float)attr->beta2,
        .rest1 = (float)(1 - attr->beta1),
        .rest2 = (float)(1 - attr->beta2),
        .eps = attr->eps,
        .correction1 = (float)(1 / (1 - pow(attr->beta1, t))),
        .correction2 = (float)(1 / sqrt(1 - pow(attr->beta2, t))),
        .nesterov = attr->nesterov,
        .first = state->applied == 1 };
}

static void optimizer_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const ls_cpu *cpu = ((const ls_cpu_plan *)plan)->cpu;
    const ls_optimizer_attr *attr = &plan->desc.attr.optimizer;
    const ls_train_state *state = ls_buffer_host(args[LS_STEP_STATE]);
    const int kept = ls_op_args(plan->desc.op) - LS_STEP_OTHER_ARGS;
    if (state->skip) return;
    step_run run = { .kernel = kernel_of(cpu->kernels, plan->desc.op),
        .kernels_bf16 = cpu->kernels_bf16,
        .grad = ls_cpu_floats_at(args[LS_STEP_GRAD]),
        .weight = ls_cpu_floats_at(args[LS_STEP_KEPT + kept]) };
    for (int k = 0; k < kept; k++) run.kept[k] = ls_cpu_floats_at(args[LS_STEP_KEPT + k]);
    if (attr->storage == LS_BF16) run.copy = ls_buffer_host(args[LS_STEP_KEPT + kept + 1]);
    for (const ls_step_segment *segment = attr->segments; segment < attr->segments + attr->segment_count; segment++) {
        run.count = (size_t)segment->count;
        if (segment->rate == LS_SEGMENT_STATISTICS) ls_ref_move_statistics(segment, state, run.grad, run.weight);
        if (segment->rate >= 0) {
            run.constants = constants_of(attr, segment, state);
            if (plan->desc.op == LS_OP_LARS) {
                const float trust = trust_of(cpu, &run, attr, ls_buffer_host(workspace));
                run.constants.multiplier *= trust;
                run.constants.decay *= trust;
            }
            ls_pool_run(cpu->pool, step_task, &run, flat_tasks(segment->count));
        }
        run.grad += segment->count;
        run.weight += segment->count;
        if (run.copy) run.copy += segment->count;
        for (int k = 0; k < kept; k++) run.kept[k] += segment->count;
    }
}

ls_status ls_cpu_optimizer_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    if (desc->op == LS_OP_MUON) return ls_cpu_muon_plan(cpu, desc, out);
    ls_cpu_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, optimizer_run, "own");
    if (desc->op == LS_OP_LARS)
        plan->base.workspace_bytes = 2 * (size_t)flat_tasks(desc->attr.optimizer.count) * sizeof(double[2]);
    *out = &plan->base;
    return LS_SUCCESS;
}
