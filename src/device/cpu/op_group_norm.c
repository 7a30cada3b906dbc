// op_group_norm.c - group norm. A task is one sample. The kernels of batch norm compute sums for each channel; these
// are added up for each group. Then all channels are computed with the constants of their groups. A norm over pixels
// has kernels of its own.
#include <math.h>
#include <string.h>
#include "device/cpu/cpu.h"

enum { WIDTH_MAX = 16 };

typedef struct {
    ls_cpu_plan base;
    const ls_kernels *kernels;
    int block, blocks, channels; // channels: including padding
    size_t plane, sample;        // elements
    ls_pool_task *forward, *backward;
} group_plan;

typedef struct {
    const group_plan *plan;
    const void *src, *grad_dst;
    const float *gamma, *beta; // NULL unless affine
    void *out;
    float *saved, *grad_gamma, *grad_beta;
    double *sums; // for each sample: [2][channels]
} group_run;

static const ls_group_norm_attr *attr_of(const group_run *run) {
    return &run->plan->base.base.desc.attr.group_norm;
}

static void *at_block(const group_run *run, const void *activation, int n, int cb) {
    const size_t at = (size_t)n * run->plan->sample + (size_t)cb * run->plan->plane;
    return ls_cpu_at(activation, at, attr_of(run)->storage);
}

static double weight_of(const group_run *run, int c) {
    return run->gamma ? (double)run->gamma[c] : 1;
}

static float *mean_of(const group_run *run, int n) { // means of sample n, by group or by pixel; r_of: 1/deviations
    return run->saved + ls_group_norm_means(attr_of(run)) / attr_of(run)->shape.n * n;
}

static float *r_of(const group_run *run, int n) {
    return mean_of(run, n) + ls_group_norm_means(attr_of(run));
}

// Copies the sums of channel block `cb`, [2][block], to the sample's sums.
static void put_sums(const group_run *run, int n, int cb, const double *sums) {
    const int block = run->plan->block, channels = run->plan->channels;
    double *to = run->sums + (size_t)n * 2 * (size_t)channels + (size_t)cb * (size_t)block;
    for (int i = 0; i < block; i++) {
        to[i] = sums[i];
        to[channels + i] = sums[block + i];
    }
}

static void forward_sample(void *context, int n, int thread) {
    (void)thread;
    const group_run *run = context;
    const group_plan *plan = run->plan;
    const ls_group_norm_attr *a = attr_of(run);
    const int block = plan->block, each = a->shape.c / a->groups;
    const ls_kernel_span span = { .stride = plan->sample, .samples = 1, .pixels = a->shape.h * a->shape.w };
    double sums[2 * WIDTH_MAX];
    for (int cb = 0; cb < plan->blocks; cb++) {
        plan->kernels->norm_stats(&span, at_block(run, run->src, n, cb), sums);
        put_sums(run, n, cb, sums);
    }
    const double *of_channel = run->sums + (size_t)n * 2 * (size_t)plan->channels;
    for (int g = 0; g < a->groups; g++) {
        double sum = 0, squares = 0;
        for (int c = g * each; c < (g + 1) * each; c++) {
            sum += of_channel[c];
            squares += of_channel[plan->channels + c];
        }
        const double mean = sum / ls_group_norm_count(a), var = squares / ls_group_norm_count(a) - mean * mean;
        mean_of(run, n)[g] = (float)mean;
        r_of(run, n)[g] = (float)(1 / sqrt(fmax(var, 0) + (double)a->eps));
    }
    for (int cb = 0; cb < plan->blocks; cb++) {
        float constants[3 * WIDTH_MAX] = { 0 }; // mean, factor, offset; 0 for padding
        for (int i = 0, c = cb * block; i < block && c < a->shape.c; i++, c++) {
            constants[i] = mean_of(run, n)[c / each];
            constants[block + i] = (float)((double)r_of(run, n)[c / each] * weight_of(run, c));
            constants[2 * block + i] = run->beta ? run->beta[c] : 0;
        }
        plan->kernels->norm_apply(&span, at_block(run, run->src, n, cb), NULL, LS_ACTIVATION_NONE, 0, constants,
            at_block(run, run->out, n, cb));
    }
}

static void backward_sample(void *context, int n, int thread) {
    (void)thread;
    const group_run *run = context;
    const group_plan *plan = run->plan;
    const ls_group_norm_attr *a = attr_of(run);
    const int block = plan->block, each = a->shape.c / a->groups, pixels = a->shape.h * a->shape.w;
    const ls_kernel_span span = { .stride = plan->sample, .samples = 1, .pixels = pixels };
    float constants[4 * WIDTH_MAX] = { 0 }; // mean, factor, level, slope
    double sums[2 * WIDTH_MAX];
    for (int cb = 0; cb < plan->blocks; cb++) {
        const ls_kernel_norm_grad grad = { .src = at_block(run, run->src, n, cb),
            .grad_dst = at_block(run, run->grad_dst, n, cb) };
        for (int i = 0, c = cb * block; i < block; i++, c++)
            constants[i] = c < a->shape.c ? mean_of(run, n)[c / each] : 0;
        plan->kernels->norm_grad_sums(&span, &grad, constants, sums);
        put_sums(run, n, cb, sums);
    }
    const double *of_channel = run->sums + (size_t)n * 2 * (size_t)plan->channels;
    double sum = 0, dot = 0;
    for (int cb = 0; cb < plan->blocks; cb++) {
        for (int i = 0, c = cb * block; i < block; i++, c++) {
            const int g = c / each, inside = c < a->shape.c;
            if (inside && c % each == 0) { // a group starts here
                sum = dot = 0;
                for (int k = c; k < c + each; k++) {
                    sum += weight_of(run, k) * of_channel[k];
                    dot += weight_of(run, k) * of_channel[plan->channels + k];
                }
            }
            const double r = inside ? (double)r_of(run, n)[g] : 0, share = r / ls_group_norm_count(a);
            constants[i] = inside ? mean_of(run, n)[g] : 0;
            constants[block + i] = (float)(r * (inside ? weight_of(run, c) : 0));
            constants[2 * block + i] = (float)(share * sum);
            constants[3 * block + i] = (float)(share * r * r * dot);
        }
        plan->kernels->group_norm_grad(at_block(run, run->src, n, cb), at_block(run, run->grad_dst, n, cb), constants,
            at_block(run, run->out, n, cb), pixels);
    }
}

// --- over pixels -----------------------------------------------------------------------------------

static ls_kernel_pixel_norm pixels_of(const group_run *run, int n) {
    const ls_group_norm_attr *a = attr_of(run);
    return (ls_kernel_pixel_norm){ .src = at_block(run, run->src, n, 0),
        .grad_dst = at_block(run, run->grad_dst, n, 0),
        .out = at_block(run, run->out, n, 0),
        .gamma = run->gamma,
        .beta = run->beta,
        .mean = mean_of(run, n),
        .r = r_of(run, n),
        .plane = run->plan->plane,
        .blocks = run->plan->blocks,
        .channels = a->shape.c,
        .pixels = a->shape.h * a->shape.w,
        .eps = a->eps };
}

static void forward_pixels(void *context, int n, int thread) {
    (void)thread;
    const group_run *run = context;
    const ls_kernel_pixel_norm pixels = pixels_of(run, n);
    run->plan->kernels->pixel_norm(&pixels);
}

static void backward_pixels(void *context, int n, int thread) {
    (void)thread;
    const group_run *run = context;
    ls_kernel_pixel_norm pixels = pixels_of(run, n);
    const size_t count = 2 * (size_t)run->plan->channels;
    pixels.sums = run->sums + (size_t)n * count;
    memset(pixels.sums, 0, count * sizeof *pixels.sums);
    run->plan->kernels->pixel_norm_grad(&pixels);
}

// --- over nothing: layer scale ---------------------------------------------------------------------

static void scale_block(const group_run *run, int n, int cb, const void *src) {
    const group_plan *plan = run->plan;
    const ls_nchw shape = attr_of(run)->shape;
    const ls_kernel_span span = { .stride = plan->sample, .samples = 1, .pixels = shape.h * shape.w };
    float constants[3 * WIDTH_MAX] = { 0 }; // mean, factor, offset
    for (int i = 0, c = cb * plan->block; i < plan->block && c < shape.c; i++, c++)
        constants[plan->block + i] = run->gamma[c];
    plan->kernels->norm_apply(
        &span, at_block(run, src, n, cb), NULL, LS_ACTIVATION_NONE, 0, constants, at_block(run, run->out, n, cb));
}

static void forward_scale(void *context, int n, int thread) {
    (void)thread;
    const group_run *run = context;
    for (int cb = 0; cb < run->plan->blocks; cb++) scale_block(run, n, cb, run->src);
}

static void backward_scale(void *context, int n, int thread) {
    (void)thread;
    const group_run *run = context;
    const group_plan *plan = run->plan;
    const ls_nchw shape = attr_of(run)->shape;
    const ls_kernel_span span = { .stride = plan->sample, .samples = 1, .pixels = shape.h * shape.w };
    const float constants[3 * WIDTH_MAX] = { 0 };
    double sums[2 * WIDTH_MAX];
    for (int cb = 0; cb < plan->blocks; cb++) {
        const ls_kernel_norm_grad grad = { .src = at_block(run, run->src, n, cb),
            .grad_dst = at_block(run, run->grad_dst, n, cb) };
        plan->kernels->norm_grad_sums(&span, &grad, constants, sums);
        put_sums(run, n, cb, sums);
        scale_block(run, n, cb, run->grad_dst);
    }
}

// --- all -------------------------------------------------------------------------------------------

static void backward_params(void *context, int cb, int thread) {
    (void)thread;
    const group_run *run = context;
    const group_plan *plan = run->plan;
    const ls_group_norm_attr *a = attr_of(run);
    for (int c = cb * plan->block; c < (cb + 1) * plan->block && c < a->shape.c; c++) {
        double sum = 0, dot = 0;
        for (int n = 0; n < a->shape.n; n++) {
            const double *of_channel = run->sums + (size_t)n * 2 * (size_t)plan->channels;
            sum += of_channel[c];
            double r = 1; // over pixels, the sums contain r already
            if (a->over == LS_NORM_OVER_GROUPS) r = (double)r_of(run, n)[c / (a->shape.c / a->groups)];
            dot += of_channel[plan->channels + c] * r;
        }
        if (run->grad_beta) run->grad_beta[c] += (float)sum;
        if (run->grad_gamma) run->grad_gamma[c] += (float)dot;
    }
}

static void forward_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const group_plan *own = (const group_plan *)plan;
    const ls_group_norm_attr *a = &plan->desc.attr.group_norm;
    group_run run = { .plan = own,
        .src = ls_buffer_host(args[LS_GROUP_NORM_FORWARD_SRC]),
        .saved = ls_cpu_floats_at(args[LS_GROUP_NORM_FORWARD_SAVED]),
        .out = ls_buffer_host(args[LS_GROUP_NORM_FORWARD_DST]),
        .sums = ls_buffer_host(workspace) };
    if (a->affine) run.gamma = ls_cpu_floats_at(args[LS_GROUP_NORM_FORWARD_GAMMA]);
    if (a->affine) run.beta = ls_cpu_floats_at(args[LS_GROUP_NORM_FORWARD_BETA]);
    ls_pool_run(own->base.cpu->pool, own->forward, &run, a->shape.n);
}

static void backward_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const group_plan *own = (const group_plan *)plan;
    const ls_group_norm_attr *a = &plan->desc.attr.group_norm;
    group_run run = { .plan = own,
        .src = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_SRC]),
        .grad_dst = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_DST]),
        .saved = ls_cpu_floats_at(args[LS_GROUP_NORM_BACKWARD_SAVED]),
        .out = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_SRC]),
        .sums = ls_buffer_host(workspace) };
    if (a->affine) run.gamma = ls_cpu_floats_at(args[LS_GROUP_NORM_BACKWARD_GAMMA]);
    ls_pool_run(own->base.cpu->pool, own->backward, &run, a->shape.n);
    if (!a->affine) return;
    run.grad_gamma = ls_cpu_floats_at(args[LS_GROUP_NORM_BACKWARD_GRAD_GAMMA]);
    run.grad_beta = ls_cpu_floats_at(args[LS_GROUP_NORM_BACKWARD_GRAD_BETA]);
    ls_pool_run(own->base.cpu->pool, backward_params, &run, own->blocks);
}

ls_status ls_cpu_group_norm_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    static ls_pool_task *const tasks[][2] = { [LS_NORM_OVER_GROUPS] = { forward_sample, backward_sample },
        [LS_NORM_OVER_PIXELS] = { forward_pixels, backward_pixels },
        [LS_NORM_OVER_NOTHING] = { forward_scale, backward_scale } };
    const ls_nchw shape = desc->attr.group_norm.shape;
    ls_cpu_run *run = desc->op == LS_OP_GROUP_NORM_FORWARD ? forward_run : backward_run;
    group_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, run, "own");
    plan->kernels = ls_cpu_kernels(cpu, shape.c, desc->attr.group_norm.storage);
    plan->forward = tasks[desc->attr.group_norm.over][0];
    plan->backward = tasks[desc->attr.group_norm.over][1];
    plan->block = ls_cpu_block(cpu, shape.c);
    plan->blocks = ls_cpu_blocks(cpu, shape.c);
    plan->channels = ls_cpu_channels(cpu, shape.c);
    plan->sample = ls_cpu_sample(cpu, shape);
    plan->plane = plan->sample / (size_t)plan->blocks;
    plan->base.base.workspace_bytes = (size_t)shape.n * 2 * (size_t)plan->channels * sizeof(double);
    *out = &plan->base.base;
    return LS_SUCCESS;
}
