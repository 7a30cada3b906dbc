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

// The elements of a group are adjacent: channel by channel, from `first` on.
typedef struct {
    int64_t first, plane, count;
    int channel; // first channel of the group
} group_range;

static group_range range_of(const ls_group_norm_attr *a, int task) {
    const int channels = a->shape.c / a->groups;
    const int64_t plane = (int64_t)a->shape.h * a->shape.w, count = channels * plane;
    return (group_range){ task * count, plane, count, task % a->groups * channels };
}

static double weight_of(const group_job *job, const group_range *g, int64_t i) { // weight of element i of the group
    return job->gamma ? (double)job->gamma[g->channel + i / g->plane] : 1;
}

static void forward_group(void *context, int task, int thread) {
    (void)thread;
    const group_job *job = context;
    const ls_group_norm_attr *a = job->attr;
    const group_range g = range_of(a, task);
    double sum = 0, spread = 0;
    for (int64_t i = 0; i < g.count; i++) sum += load(job, job->src, g.first + i);
    const double mean = sum / (double)g.count;
    for (int64_t i = 0; i < g.count; i++) spread += pow(load(job, job->src, g.first + i) - mean, 2);
    const double r = 1 / sqrt(spread / (double)g.count + (double)a->eps);
    job->saved[task] = (float)mean;
    job->saved[a->shape.n * a->groups + task] = (float)r;
    for (int64_t i = 0; i < g.count; i++) {
        const double offset = job->beta ? (double)job->beta[g.channel + i / g.plane] : 0;
        const double y = (load(job, job->src, g.first + i) - mean) * r * weight_of(job, &g, i) + offset;
        ls_store_float(job->out, a->storage, g.first + i, (float)y);
    }
}

static void backward_group(void *context, int task, int thread) {
    (void)thread;
    const group_job *job = context;
    const ls_group_norm_attr *a = job->attr;
    const group_range g = range_of(a, task);
    const double mean = (double)job->saved[task], r = (double)job->saved[a->shape.n * a->groups + task];
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < g.count; i++) {
        const double d = load(job, job->grad_dst, g.first + i) * weight_of(job, &g, i);
        sum += d;
        dot += d * (load(job, job->src, g.first + i) - mean) * r;
    }
    for (int64_t i = 0; i < g.count; i++) {
        const double d = load(job, job->grad_dst, g.first + i) * weight_of(job, &g, i);
        const double xhat = (load(job, job->src, g.first + i) - mean) * r;
        const double grad = r * (d - sum / (double)g.count - xhat * dot / (double)g.count);
        ls_store_float(job->out, a->storage, g.first + i, (float)grad);
    }
}

static void backward_channel(void *context, int c, int thread) {
    (void)thread;
    const group_job *job = context;
    const ls_group_norm_attr *a = job->attr;
    const int64_t plane = (int64_t)a->shape.h * a->shape.w;
    double sum = 0, dot = 0;
    for (int n = 0; n < a->shape.n; n++) {
        const int task = n * a->groups + c / (a->shape.c / a->groups);
        const double mean = (double)job->saved[task], r = (double)job->saved[a->shape.n * a->groups + task];
        for (int64_t i = 0, at = ((int64_t)n * a->shape.c + c) * plane; i < plane; i++, at++) {
            sum += load(job, job->grad_dst, at);
            dot += load(job, job->grad_dst, at) * (load(job, job->src, at) - mean) * r;
        }
    }
    if (job->grad_beta) job->grad_beta[c] = (float)((double)job->grad_beta[c] + sum);
    if (job->grad_gamma) job->grad_gamma[c] = (float)((double)job->grad_gamma[c] + dot);
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
    ls_ref_run_tasks(plan, forward_group, &job, a->shape.n * a->groups);
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
    ls_ref_run_tasks(plan, backward_group, &job, a->shape.n * a->groups);
    if (!a->affine) return;
    job.grad_gamma = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_GAMMA]);
    job.grad_beta = ls_buffer_host(args[LS_GROUP_NORM_BACKWARD_GRAD_BETA]);
    ls_ref_run_tasks(plan, backward_channel, &job, a->shape.c);
}
