#include "device/ref/ref.h"

#include <math.h>

typedef struct {
    const ls_group_norm_attr *attr;
    const void *src, *grad_dst;
    void *out; // dst or grad_src
    const float *gamma, *beta;
    float *saved, *grad_gamma, *grad_beta;
} group_job;

static double load(const group_job *job, const void *array, int64_t i) {
    return (double)ls_load_float(array, job->attr->storage, i);
}

// The elements that a mean is over: `step` apart, from `first` on. Each channel has `plane` of them.
typedef struct {
    int64_t first, step, plane, count;
    int channel; // first channel of the group
} group_range;

static group_range range_of(const ls_group_norm_attr *a, int task) {
    const int channels = a->shape.c / a->groups;
    const int64_t plane = (int64_t)a->shape.h * a->shape.w, count = channels * plane;
    if (a->over == LS_NORM_OVER_PIXELS)
        return (group_range){ task / plane * count + task % plane, plane, 1, a->shape.c, 0 };
    return (group_range){ task * count, 1, plane, count, task % a->groups * channels };
}

// Mean and 1/deviation number i.
static double mean_at(const group_job *job, int64_t i) {
    return job->saved ? (double)job->saved[i] : 0;
}

static double r_at(const group_job *job, int64_t i) {
    return job->saved ? (double)job->saved[ls_group_norm_means(job->attr) + i] : 1;
}

static double weight_of(const group_job *job, const group_range *g, int64_t i) { // weight of element i of the group
    return job->gamma ? (double)job->gamma[g->channel + i / g->plane] : 1;
}

static void forward_group(void *context, int task, int thread) {
    (void)thread;
    const group_job *job = context;
    const ls_group_norm_attr *a = job->attr;
    const group_range g = range_of(a, task);
    double mean = 0, spread = 0, r = 1;
    if (job->saved) {
        for (int64_t i = 0; i < g.count; i++) mean += load(job, job->src, g.first + i * g.step);
        mean /= (double)g.count;
        for (int64_t i = 0; i < g.count; i++) spread += pow(load(job, job->src, g.first + i * g.step) - mean, 2);
        r = 1 / sqrt(spread / (double)g.count + (double)a->eps);
        job->saved[task] = (float)mean;
        job->saved[ls_group_norm_means(a) + task] = (float)r;
    }
    for (int64_t i = 0; i < g.count; i++) {
        const double offset = job->beta ? (double)job->beta[g.channel + i / g.plane] : 0;
        const double y = (load(job, job->src, g.first + i * g.step) - mean) * r * weight_of(job, &g, i) + offset;
        ls_store_float(job->out, a->storage, g.first + i * g.step, (float)y);
    }
}

static void backward_group(void *context, int task, int thread) {
    (void)thread;
    const group_job *job = context;
    const ls_group_norm_attr *a = job->attr;
    const group_range g = range_of(a, task);
    const double mean = mean_at(job, task), r = r_at(job, task);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < g.count && job->saved; i++) {
        const double d = load(job, job->grad_dst, g.first + i * g.step) * weight_of(job, &g, i);
        sum += d;
        dot += d * (load(job, job->src, g.first + i * g.step) - mean) * r;
    }
    for (int64_t i = 0; i < g.count; i++) {
        const double d = load(job, job->grad_dst, g.first + i * g.step) * weight_of(job, &g, i);
        const double xhat = (load(job, job->src, g.first + i * g.step) - mean) * r;
        const double grad = r * (d - sum / (double)g.count - xhat * dot / (double)g.count);
        ls_store_float(job->out, a->storage, g.first + i * g.step, (float)grad);
    }
}

static void backward_channel(void *context, int c, int thread) {
    (void)thread;
    const group_job *job = context;
    const ls_group_norm_attr *a = job->attr;
    const int64_t plane = (int64_t)a->shape.h * a->shape.w;
    double sum = 0, dot = 0;
    for (int n = 0; n < a->shape.n; n++) {
        const int64_t group = (int64_t)n * a->groups + c / (a->shape.c / a->groups);
        for (int64_t i = 0, at = ((int64_t)n * a->shape.c + c) * plane; i < plane; i++, at++) {
            const int64_t task = a->over == LS_NORM_OVER_PIXELS ? n * plane + i : group;
            sum += load(job, job->grad_dst, at);
            dot += load(job, job->grad_dst, at) * (load(job, job->src, at) - mean_at(job, task)) * r_at(job, task);
        }
    }
    if (job->grad_beta) job->grad_beta[c] = (float)((double)job->grad_beta[c] + sum);
    if (job->grad_gamma) job->grad_gamma[c] = (float)((double)job->grad_gamma[c] + dot);
}

static int tasks_of(const ls_group_norm_attr *a) {
    return a->over == LS_NORM_OVER_NOTHING ? a->shape.n : (int)ls_group_norm_means(a);
}

void ls_ref_group_norm_forward(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_group_norm_attr *a = &plan->desc.attr.group_norm;
    group_job job = { .attr = a,
        .src = ls_buffer_host(args[LS_GROUP_NORM_FORWARD_SRC]),
        .saved = ls_buffer_host(args[LS_GROUP_NORM_FORWARD_SAVED]),
        .out = ls_buffer_host(args[LS_GROUP_NORM_FORWARD_DST]) };
    if (a->affine) job.gamma = ls_buffer_host(args[LS_GROUP_NORM_FORWARD_GAMMA]);
    if (a->affine) job.beta = ls_buffer_host(args[LS_GROUP_NORM_FORWARD_BETA]);
    ls_ref_run_tasks(plan, forward_group, &job, tasks_of(a));
}

void ls_ref_group_norm_backward(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_group_norm_attr *a = &plan->desc.attr.group_norm;
    group_job job = { .attr = a,
        .src = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_SRC]),
        .grad_dst = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_DST]),
        .saved = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_SAVED]),
        .out = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_SRC]) };
    if (a->affine) job.gamma = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GAMMA]);
    ls_ref_run_tasks(plan, backward_group, &job, tasks_of(a));
    if (!a->affine) return;
    job.grad_gamma = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_GAMMA]);
    job.grad_beta = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_BETA]);
    ls_ref_run_tasks(plan, backward_channel, &job, a->shape.c);
}
