#include "device/ref/ref.h"

#include <math.h>

typedef struct {
    const ls_norm_attr *attr;
    const void *src, *residual, *dst, *grad_dst, *grad_dst2; // activations read
    void *out, *grad_residual;                               // activations written
    const float *gamma, *beta, *mean, *var;
    float *saved, *sum_mean, *sum_var, *grad_gamma, *grad_beta;
} norm_job;

// Element i of channel c, i counting samples and pixels.
static inline int64_t element(ls_nchw s, int c, int64_t i) {
    int64_t plane = (int64_t)s.h * s.w;
    return (i / plane * s.c + c) * plane + i % plane;
}

static int64_t channel_count(ls_nchw s) {
    return (int64_t)s.n * s.h * s.w;
}

// dst = relu((src - mean) * scale * gamma + beta + residual), for one channel
static void normalise_channel(const norm_job *job, int c, double mean, double scale) {
    const ls_norm_attr *a = job->attr;
    for (int64_t i = 0; i < channel_count(a->shape); i++) {
        int64_t at = element(a->shape, c, i);
        double y = ((double)ls_load_float(job->src, a->storage, at) - mean) * scale;
        y = y * (double)job->gamma[c] + (double)job->beta[c];
        if (a->residual) y += (double)ls_load_float(job->residual, a->storage, at);
        if (a->relu && y < 0) y = 0;
        ls_store_float(job->out, a->storage, at, (float)y);
    }
}

static void forward_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    const ls_norm_attr *a = job->attr;
    int64_t count = channel_count(a->shape);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)ls_load_float(job->src, a->storage, element(a->shape, c, i));
    double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)ls_load_float(job->src, a->storage, element(a->shape, c, i)) - mean;
        squares += d * d;
    }
    double var = squares / (double)count, scale = 1 / sqrt(var + (double)a->eps);
    job->saved[c] = (float)mean;
    job->saved[a->shape.c + c] = (float)scale;
    if (job->sum_mean) {
        job->sum_mean[c] = (float)((double)job->sum_mean[c] + mean);
        job->sum_var[c] = (float)((double)job->sum_var[c] + squares / (double)(count - 1));
    }
    normalise_channel(job, c, mean, scale);
}

void ls_ref_norm_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    norm_job job = {
        .attr = &plan->desc.attr.norm,
        .src = ls_buffer_host(args[LS_NORM_FORWARD_SRC]),
        .residual = ls_buffer_host(args[LS_NORM_FORWARD_RESIDUAL]),
        .gamma = ls_buffer_host(args[LS_NORM_FORWARD_GAMMA]),
        .beta = ls_buffer_host(args[LS_NORM_FORWARD_BETA]),
        .saved = ls_buffer_host(args[LS_NORM_FORWARD_SAVED]),
        .sum_mean = ls_buffer_host(args[LS_NORM_FORWARD_SUM_MEAN]),
        .sum_var = ls_buffer_host(args[LS_NORM_FORWARD_SUM_VAR]),
        .out = ls_buffer_host(args[LS_NORM_FORWARD_DST]),
    };
    ls_ref_run_tasks(plan, forward_channel, &job, job.attr->shape.c);
}

static void inference_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    normalise_channel(job, c, (double)job->mean[c], 1 / sqrt((double)job->var[c] + (double)job->attr->eps));
}

void ls_ref_norm_inference(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    norm_job job = {
        .attr = &plan->desc.attr.norm,
        .src = ls_buffer_host(args[LS_NORM_INFERENCE_SRC]),
        .residual = ls_buffer_host(args[LS_NORM_INFERENCE_RESIDUAL]),
        .gamma = ls_buffer_host(args[LS_NORM_INFERENCE_GAMMA]),
        .beta = ls_buffer_host(args[LS_NORM_INFERENCE_BETA]),
        .mean = ls_buffer_host(args[LS_NORM_INFERENCE_MEAN]),
        .var = ls_buffer_host(args[LS_NORM_INFERENCE_VAR]),
        .out = ls_buffer_host(args[LS_NORM_INFERENCE_DST]),
    };
    ls_ref_run_tasks(plan, inference_channel, &job, job.attr->shape.c);
}

static double gradient_at(const norm_job *job, int64_t at) {
    const ls_norm_attr *a = job->attr;
    if (a->relu && !(ls_load_float(job->dst, a->storage, at) > 0)) return 0;
    double g = (double)ls_load_float(job->grad_dst, a->storage, at);
    return a->two_grads ? g + (double)ls_load_float(job->grad_dst2, a->storage, at) : g;
}

static void backward_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    const ls_norm_attr *a = job->attr;
    int64_t count = channel_count(a->shape);
    double mean = (double)job->saved[c], scale = (double)job->saved[a->shape.c + c], sum = 0, sum_xhat = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = element(a->shape, c, i);
        double g = gradient_at(job, at);
        sum += g;
        sum_xhat += g * (((double)ls_load_float(job->src, a->storage, at) - mean) * scale);
    }
    job->grad_beta[c] = (float)((double)job->grad_beta[c] + sum);
    job->grad_gamma[c] = (float)((double)job->grad_gamma[c] + sum_xhat);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = element(a->shape, c, i);
        double g = gradient_at(job, at);
        double xhat = ((double)ls_load_float(job->src, a->storage, at) - mean) * scale;
        double grad = (double)job->gamma[c] * scale * (g - sum / (double)count - xhat * sum_xhat / (double)count);
        if (a->residual) ls_store_float(job->grad_residual, a->storage, at, (float)g);
        ls_store_float(job->out, a->storage, at, (float)grad);
    }
}

void ls_ref_norm_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    norm_job job = {
        .attr = &plan->desc.attr.norm,
        .src = ls_buffer_host(args[LS_NORM_BACKWARD_SRC]),
        .dst = ls_buffer_host(args[LS_NORM_BACKWARD_DST]),
        .grad_dst = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_DST]),
        .grad_dst2 = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_DST2]),
        .gamma = ls_buffer_host(args[LS_NORM_BACKWARD_GAMMA]),
        .saved = ls_buffer_host(args[LS_NORM_BACKWARD_SAVED]),
        .out = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_SRC]),
        .grad_residual = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_RESIDUAL]),
        .grad_gamma = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_GAMMA]),
        .grad_beta = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_BETA]),
    };
    ls_ref_run_tasks(plan, backward_channel, &job, job.attr->shape.c);
}
