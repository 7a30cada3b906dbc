// op_norm.c - batch norm in two passes. Both passes run over one wave of channel blocks at a time, so that the second
// pass finds the data in the last-level cache. Over several ranks, each of the two operators makes one pass. Each
// channel block is split into `groups` ranges of samples by the shape alone; their sums are added in order.
#include <math.h>
#include "device/cpu/cpu.h"

enum { GROUPS_MAX = 8, GROUP_BYTES = 65536, WAVE_BYTES = 6 << 20, STREAM_BYTES = 16 << 20, WIDTH_MAX = 16 };

typedef struct {
    ls_cpu_plan base;
    const ls_kernels *kernels;
    int blocks, block, groups, wave; // wave: number of channel blocks in a wave
    size_t plane, sample;            // elements
    int stream;
} norm_plan;

typedef struct {
    const norm_plan *plan;
    int first; // first channel block of the wave
    const void *src, *residual;
    const float *gamma, *beta;
    const float *mean, *var; // inference and its backward pass
    void *dst;
    float *saved, *sum_mean, *sum_var;
    uint8_t *index;           // forward, with pooling
    ls_kernel_norm_grad grad; // backward: pointers to the whole tensors
    float *grad_gamma, *grad_beta;
    double *sums;         // [blocks][groups][2][block]
    double *whole;        // over several ranks: [2][vector], then the count
    const double *summed; // sums over all ranks, in the layout of `whole`
    int stream;
} norm_run;

typedef struct {
    int cb, group;
    size_t at; // offset of the first sample's plane in elements
    ls_kernel_span span;
} norm_piece;

static void *at(const norm_run *run, const void *activation, size_t elements) {
    return ls_cpu_at(activation, elements, run->plan->base.base.desc.attr.norm.storage);
}

static norm_piece piece_of(const norm_run *run, int task) {
    const norm_plan *plan = run->plan;
    ls_nchw shape = plan->base.base.desc.attr.norm.shape;
    norm_piece piece = { .cb = run->first + task / plan->groups, .group = task % plan->groups };
    int begin = ls_cpu_share(shape.n, piece.group, plan->groups),
        end = ls_cpu_share(shape.n, piece.group + 1, plan->groups);
    piece.at = (size_t)begin * plan->sample + (size_t)piece.cb * plan->plane;
    piece.span = (ls_kernel_span){
        .stride = plan->sample, .samples = end - begin, .pixels = shape.h * shape.w, .stream = run->stream
    };
    return piece;
}

static double *sums_of(const norm_run *run, int cb, int group) {
    size_t pair = 2 * (size_t)run->plan->block;
    return run->sums + ((size_t)cb * (size_t)run->plan->groups + (size_t)group) * pair;
}

static double count_of(const norm_run *run) {
    ls_nchw shape = run->plan->base.base.desc.attr.norm.shape;
    return (double)shape.n * shape.h * shape.w;
}

static int vector_of(const norm_run *run) {
    return ls_cpu_vector(run->plan->base.cpu, run->plan->base.base.desc.attr.norm.shape.c);
}

// Adds up the sums of one channel block. Returns the number of values that each sum is over.
static double total(const norm_run *run, int cb, double sums[2 * WIDTH_MAX]) {
    int b = run->plan->block, vector = vector_of(run);
    if (run->summed) {
        for (int i = 0; i < b; i++) {
            sums[i] = run->summed[cb * b + i];
            sums[b + i] = run->summed[vector + cb * b + i];
        }
        return run->summed[2 * vector];
    }
    for (int i = 0; i < 2 * b; i++) sums[i] = 0;
    for (int g = 0; g < run->plan->groups; g++)
        for (int i = 0; i < 2 * b; i++) sums[i] += sums_of(run, cb, g)[i];
    return count_of(run);
}

static void stats_task(void *context, int task, int thread) {
    (void)thread;
    const norm_run *run = context;
    norm_piece piece = piece_of(run, task);
    run->plan->kernels->norm_stats(&piece.span, at(run, run->src, piece.at), sums_of(run, piece.cb, piece.group));
}

// Computes mean, factor and offset of one channel block. In training, group 0 also saves the statistics.
static void forward_constants(const norm_run *run, int cb, int group, float *constants) {
    const norm_plan *plan = run->plan;
    const ls_norm_attr *attr = &plan->base.base.desc.attr.norm;
    int b = plan->block;
    double sums[2 * WIDTH_MAX], count = 0;
    if (!run->mean) count = total(run, cb, sums);
    for (int i = 0; i < b; i++) {
        int c = cb * b + i;
        double mean = run->mean ? run->mean[c] : sums[i] / count;
        double var = run->var ? run->var[c] : sums[b + i] / count - mean * mean;
        if (var < 0) var = 0;
        double r = 1 / sqrt(var + attr->eps);
        constants[i] = (float)mean;
        constants[b + i] = (float)r * run->gamma[c];
        constants[2 * b + i] = run->beta[c];
        if (run->mean || group > 0) continue;
        run->saved[c] = (float)mean;
        run->saved[vector_of(run) + c] = (float)r;
        if (!run->sum_mean) continue;
        run->sum_mean[c] += (float)mean;
        run->sum_var[c] += (float)(var * count / (count - 1));
    }
}

static void apply_task(void *context, int task, int thread) {
    (void)thread;
    const norm_run *run = context;
    const ls_norm_attr *attr = &run->plan->base.base.desc.attr.norm;
    norm_piece piece = piece_of(run, task);
    float constants[3 * WIDTH_MAX];
    forward_constants(run, piece.cb, piece.group, constants);
    const void *src = at(run, run->src, piece.at), *residual = at(run, run->residual, piece.at);
    if (attr->pool_kernel)
        run->plan->kernels->norm_apply_pool(&piece.span, src, residual, constants,
            &(ls_kernel_norm_pool){ .dst = at(run, run->dst, piece.at / 4),
                .index = run->index ? run->index + piece.at / 4 : NULL,
                .width = attr->shape.w });
    else
        run->plan->kernels->norm_apply(
            &piece.span, src, residual, attr->activation, attr->parameter, constants, at(run, run->dst, piece.at));
}

static ls_kernel_norm_grad grad_at(const norm_run *run, size_t place) {
    ls_kernel_norm_grad g = run->grad;
    const size_t pooled = g.index ? place / 4 : place;
    g.src = at(run, g.src, place);
    g.grad_dst = at(run, g.grad_dst, pooled);
    g.grad_src = at(run, g.grad_src, place);
    g.dst = at(run, g.dst, place);
    g.grad_dst2 = at(run, g.grad_dst2, pooled);
    if (g.index) g.index += pooled;
    g.grad_residual = at(run, g.grad_residual, place);
    return g;
}

// Mean and 1/deviation of the forward pass.
static float mean_of(const norm_run *run, int c) {
    return run->mean ? run->mean[c] : run->saved[c];
}

static float inverse_deviation_of(const norm_run *run, int c) {
    if (!run->mean) return run->saved[vector_of(run) + c];
    return (float)(1 / sqrt((double)run->var[c] + run->plan->base.base.desc.attr.norm.eps));
}

// Mean, factor and offset of the forward pass. When dst is read instead of recomputing it, gamma may be absent in the
// sums pass, and the offset is not needed.
static void backward_constants(const norm_run *run, int cb, float *constants) {
    int b = run->plan->block;
    for (int i = 0; i < b; i++) {
        int c = cb * b + i;
        constants[i] = mean_of(run, c);
        constants[b + i] = run->gamma ? run->gamma[c] * inverse_deviation_of(run, c) : 0;
        constants[2 * b + i] = run->beta ? run->beta[c] : 0;
    }
}

static void grad_sums_task(void *context, int task, int thread) {
    (void)thread;
    const norm_run *run = context;
    norm_piece piece = piece_of(run, task);
    ls_kernel_norm_grad grad = grad_at(run, piece.at);
    float constants[3 * WIDTH_MAX];
    backward_constants(run, piece.cb, constants);
    run->plan->kernels->norm_grad_sums(&piece.span, &grad, constants, sums_of(run, piece.cb, piece.group));
}

// Adds one channel block's sums to the gradients of gamma and beta, as far as these are present (in the forward pass
// neither is).
static void add_param_grads(const norm_run *run, int cb, const double *sums) {
    int b = run->plan->block;
    if (!run->grad_beta && !run->grad_gamma) return;
    for (int i = 0; i < b; i++) {
        int c = cb * b + i;
        float r = inverse_deviation_of(run, c);
        if (run->grad_beta) run->grad_beta[c] += (float)sums[i];
        if (run->grad_gamma) run->grad_gamma[c] += (float)(sums[b + i] * r);
    }
}

static void grad_apply_task(void *context, int task, int thread) {
    (void)thread;
    const norm_run *run = context;
    const norm_plan *plan = run->plan;
    norm_piece piece = piece_of(run, task);
    int b = plan->block;
    double sums[2 * WIDTH_MAX], count = total(run, piece.cb, sums);
    if (piece.group == 0) add_param_grads(run, piece.cb, sums);
    float constants[5 * WIDTH_MAX];
    backward_constants(run, piece.cb, constants);
    for (int i = 0; i < b; i++) {
        double r = (double)inverse_deviation_of(run, piece.cb * b + i);
        if (run->mean) sums[i] = sums[b + i] = 0; // stored statistics do not depend on src
        constants[3 * b + i] = (float)(sums[i] / count);
        constants[4 * b + i] = (float)(r * r * sums[b + i] / count);
    }
    ls_kernel_norm_grad grad = grad_at(run, piece.at);
    plan->kernels->norm_grad_apply(&piece.span, &grad, constants);
}

// first: the pass that computes sums, or NULL. second: the pass that uses them, or the only pass.
static void run_waves(norm_run *run, ls_pool_task *first, ls_pool_task *second) {
    const norm_plan *plan = run->plan;
    for (run->first = 0; run->first < plan->blocks; run->first += plan->wave) {
        int blocks = plan->blocks - run->first < plan->wave ? plan->blocks - run->first : plan->wave;
        if (first) ls_pool_run(plan->base.cpu->pool, first, run, blocks * plan->groups);
        ls_pool_run(plan->base.cpu->pool, second, run, blocks * plan->groups);
    }
}

// Runs `pass`, which computes sums, and stores the sums of all channels for the sum over ranks. Adds them to grad_gamma
// and grad_beta, too, if these are present.
static void hand_on(norm_run *run, ls_pool_task *pass) {
    int b = run->plan->block, vector = vector_of(run);
    run_waves(run, NULL, pass);
    for (int i = 0; i < 2 * vector; i++) run->whole[i] = 0;
    for (int cb = 0; cb < run->plan->blocks; cb++) {
        double sums[2 * WIDTH_MAX];
        run->whole[2 * vector] = total(run, cb, sums);
        for (int i = 0; i < b; i++) {
            run->whole[cb * b + i] = sums[i];
            run->whole[vector + cb * b + i] = sums[b + i];
        }
        add_param_grads(run, cb, sums);
    }
}

static norm_run forward_args(const ls_plan *plan, const ls_buffer *args) {
    norm_run run = { .plan = (const norm_plan *)plan,
        .src = ls_buffer_host(args[LS_NORM_FORWARD_SRC]),
        .gamma = ls_cpu_floats_at(args[LS_NORM_FORWARD_GAMMA]),
        .beta = ls_cpu_floats_at(args[LS_NORM_FORWARD_BETA]),
        .saved = ls_cpu_floats_at(args[LS_NORM_FORWARD_SAVED]),
        .sum_mean = ls_cpu_floats_at(args[LS_NORM_FORWARD_SUM_MEAN]),
        .sum_var = ls_cpu_floats_at(args[LS_NORM_FORWARD_SUM_VAR]),
        .dst = ls_buffer_host(args[LS_NORM_FORWARD_DST]) };
    if (plan->desc.attr.norm.residual) run.residual = ls_buffer_host(args[LS_NORM_FORWARD_RESIDUAL]);
    if (plan->desc.attr.norm.pool_kernel) run.index = ls_buffer_host(args[LS_NORM_FORWARD_INDEX]);
    run.stream = run.plan->stream && ls_cpu_aligned(run.dst);
    return run;
}

static void forward_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    norm_run run = forward_args(plan, args);
    run.sums = ls_buffer_host(workspace);
    run_waves(&run, stats_task, apply_task);
}

static void sums_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    norm_run run = { .plan = (const norm_plan *)plan,
        .src = ls_buffer_host(args[LS_NORM_SUMS_SRC]),
        .whole = ls_buffer_host(args[LS_NORM_SUMS_SUMS]),
        .sums = ls_buffer_host(workspace) };
    hand_on(&run, stats_task);
}

static void apply_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    norm_run run = forward_args(plan, args);
    run.summed = ls_buffer_host(args[LS_NORM_APPLY_SUMS]);
    run_waves(&run, NULL, apply_task);
}

static void inference_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    norm_run run = { .plan = (const norm_plan *)plan,
        .src = ls_buffer_host(args[LS_NORM_INFERENCE_SRC]),
        .gamma = ls_cpu_floats_at(args[LS_NORM_INFERENCE_GAMMA]),
        .beta = ls_cpu_floats_at(args[LS_NORM_INFERENCE_BETA]),
        .mean = ls_cpu_floats_at(args[LS_NORM_INFERENCE_MEAN]),
        .var = ls_cpu_floats_at(args[LS_NORM_INFERENCE_VAR]),
        .dst = ls_buffer_host(args[LS_NORM_INFERENCE_DST]) };
    if (plan->desc.attr.norm.residual) run.residual = ls_buffer_host(args[LS_NORM_INFERENCE_RESIDUAL]);
    run.stream = run.plan->stream && ls_cpu_aligned(run.dst);
    run_waves(&run, NULL, apply_task);
}

static norm_run backward_args(const ls_plan *plan, const ls_buffer *args) {
    const ls_norm_attr *attr = &plan->desc.attr.norm;
    norm_run run = { .plan = (const norm_plan *)plan,
        .gamma = ls_cpu_floats_at(args[LS_NORM_BACKWARD_GAMMA]),
        .saved = ls_cpu_floats_at(args[LS_NORM_BACKWARD_SAVED]),
        .mean = ls_cpu_floats_at(args[LS_NORM_BACKWARD_MEAN]),
        .var = ls_cpu_floats_at(args[LS_NORM_BACKWARD_VAR]),
        .grad_gamma = ls_cpu_floats_at(args[LS_NORM_BACKWARD_GRAD_GAMMA]),
        .grad_beta = ls_cpu_floats_at(args[LS_NORM_BACKWARD_GRAD_BETA]) };
    run.grad = (ls_kernel_norm_grad){ .src = ls_buffer_host(args[LS_NORM_BACKWARD_SRC]),
        .grad_dst = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_DST]),
        .grad_src = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_SRC]),
        .activation = attr->activation,
        .parameter = attr->parameter };
    // if present, the relu's mask is computed again from src instead of read from dst
    run.beta = ls_cpu_floats_at(args[LS_NORM_BACKWARD_BETA]);
    if (attr->pool_kernel) {
        run.grad.index = ls_buffer_host(args[LS_NORM_BACKWARD_INDEX]);
        run.grad.width = attr->shape.w;
    } else if (attr->activation == LS_ACTIVATION_RELU && !run.beta)
        run.grad.dst = ls_buffer_host(args[LS_NORM_BACKWARD_DST]);
    if (attr->two_grads) run.grad.grad_dst2 = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_DST2]);
    if (attr->residual) run.grad.grad_residual = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_RESIDUAL]);
    run.stream = run.plan->stream && ls_cpu_aligned(run.grad.grad_src) && ls_cpu_aligned(run.grad.grad_residual);
    return run;
}

static void backward_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    norm_run run = backward_args(plan, args);
    run.sums = ls_buffer_host(workspace);
    run_waves(&run, grad_sums_task, grad_apply_task);
}

static void backward_sums_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    norm_run run = backward_args(plan, args);
    run.sums = ls_buffer_host(workspace);
    run.whole = ls_buffer_host(args[LS_NORM_BACKWARD_SUMS_SUMS]);
    hand_on(&run, grad_sums_task);
}

static void backward_apply_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    norm_run run = backward_args(plan, args);
    run.summed = ls_buffer_host(args[LS_NORM_BACKWARD_APPLY_SUMS]);
    run_waves(&run, NULL, grad_apply_task);
}

static ls_cpu_run *run_of(ls_op op) {
    switch (op) {
    case LS_OP_NORM_FORWARD:
        return forward_run;
    case LS_OP_NORM_INFERENCE:
        return inference_run;
    case LS_OP_NORM_SUMS:
        return sums_run;
    case LS_OP_NORM_APPLY:
        return apply_run;
    case LS_OP_NORM_BACKWARD_SUMS:
        return backward_sums_run;
    case LS_OP_NORM_BACKWARD_APPLY:
        return backward_apply_run;
    default:
        return backward_run;
    }
}

static int is_half(ls_op op) {
    return op == LS_OP_NORM_SUMS || op == LS_OP_NORM_APPLY || op == LS_OP_NORM_BACKWARD_SUMS ||
           op == LS_OP_NORM_BACKWARD_APPLY;
}

ls_status ls_cpu_norm_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_norm_attr *attr = &desc->attr.norm;
    if (attr->pool_kernel && !(attr->pool_kernel == 2 && attr->pool_stride == 2 && attr->pool_pad == 0 &&
                                 attr->shape.h % 2 == 0 && attr->shape.w % 2 == 0))
        return ls_fail(LS_INTERNAL,
            "layer %s: the cpu device pools in a batch norm only with 2x2 windows that do not overlap, on maps of "
            "even height and width",
            desc->layer);
    if (attr->adds_last)
        return ls_fail(LS_INTERNAL,
            "layer %s: the cpu device has no batch norm that adds last; LS_FUSES_RELU_ADD is not among its fusions",
            desc->layer);
    norm_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, run_of(desc->op), "own");
    plan->kernels = ls_cpu_kernels(cpu, attr->shape.c, attr->storage);
    plan->blocks = ls_cpu_blocks(cpu, attr->shape.c);
    plan->block = ls_cpu_block(cpu, attr->shape.c);
    plan->sample = ls_cpu_sample(cpu, attr->shape);
    plan->plane = plan->sample / (size_t)plan->blocks;
    size_t block_bytes = (size_t)attr->shape.n * plan->plane * ls_dtype_bytes(attr->storage);
    size_t groups = block_bytes / GROUP_BYTES + 1;
    if (groups > GROUPS_MAX) groups = GROUPS_MAX;
    plan->groups = (int)groups < attr->shape.n ? (int)groups : attr->shape.n;
    const int reads_dst = attr->activation == LS_ACTIVATION_RELU && attr->residual;
    const int tensors = desc->op == LS_OP_NORM_BACKWARD ? 2 + reads_dst + attr->two_grads : 1;
    size_t wave = WAVE_BYTES / (block_bytes * (size_t)tensors);
    plan->wave = wave < 1 || plan->block == 1 ? 1 : (int)wave;
    if (is_half(desc->op)) plan->wave = plan->blocks; // only one pass, so the cache cannot help
    plan->stream = plan->block > 1 && block_bytes * (size_t)plan->blocks >= STREAM_BYTES;
    plan->base.base.workspace_bytes =
        (size_t)plan->blocks * (size_t)plan->groups * 2 * (size_t)plan->block * sizeof(double);
    *out = &plan->base.base;
    return LS_SUCCESS;
}
