#include "device/ref/ref.h"

#include <math.h>

typedef struct {
    const ls_norm_attr *attr;
    const void *src, *residual, *dst, *grad_dst, *grad_dst2; // activations read
    void *out, *grad_residual;                               // activations written
    const float *gamma, *beta, *mean, *var;
    float *saved, *sum_mean, *sum_var, *grad_gamma, *grad_beta;
    double *sums;    // over several ranks: [2][C], then the count
    uint8_t *index;  // with pooling
    double *pooling; // backward with pooling: gradient of the activation, which is not stored
} norm_job;

// Index of element i of channel c; i counts samples and pixels.
static inline int64_t element(ls_nchw s, int c, int64_t i) {
    int64_t plane = (int64_t)s.h * s.w;
    return (i / plane * s.c + c) * plane + i % plane;
}

static int64_t channel_count(ls_nchw s) {
    return (int64_t)s.n * s.h * s.w;
}

static double residual_at(const norm_job *job, int64_t at) {
    return (double)ls_load_float(job->residual, job->attr->storage, at);
}

// (src - mean) * scale * gamma + beta, for one element of channel c; plus the residual, if any, unless adds_last
static double normalised(const norm_job *job, int c, int64_t at, double mean, double scale) {
    const ls_norm_attr *a = job->attr;
    double y = ((double)ls_load_float(job->src, a->storage, at) - mean) * scale;
    y = y * (double)job->gamma[c] + (double)job->beta[c];
    return a->residual && !a->adds_last ? y + residual_at(job, at) : y;
}

// Index in the channel (counted as i in element()) of element t of the window of pooled element i. -1: in the padding.
static int64_t window_element(const ls_norm_attr *a, int64_t i, int t) {
    int64_t plane = (int64_t)a->pooled.h * a->pooled.w;
    int y = (int)(i % plane / a->pooled.w) * a->pool_stride - a->pool_pad + t / a->pool_kernel;
    int x = (int)(i % a->pooled.w) * a->pool_stride - a->pool_pad + t % a->pool_kernel;
    if (y < 0 || y >= a->shape.h || x < 0 || x >= a->shape.w) return -1;
    return (i / plane * a->shape.h + y) * a->shape.w + x;
}

// dst = maximum of 0 and the window's largest element. The winner is chosen among the normalised values before
// rounding.
static void pool_channel(const norm_job *job, int c, double mean, double scale) {
    const ls_norm_attr *a = job->attr;
    for (int64_t i = 0; i < channel_count(a->pooled); i++) {
        double best = 0;
        int winner = -1;
        for (int t = 0; t < a->pool_kernel * a->pool_kernel; t++) {
            int64_t inside = window_element(a, i, t);
            if (inside < 0) continue;
            double y = normalised(job, c, element(a->shape, c, inside), mean, scale);
            if (winner >= 0 && !(y > best) && !isnan(y)) continue;
            best = y;
            winner = t;
        }
        int64_t at = element(a->pooled, c, i);
        ls_store_float(job->out, a->storage, at, best <= 0 ? 0 : (float)best);
        if (job->index) job->index[at] = best <= 0 ? LS_POOL_NONE_U8 : (uint8_t)winner;
    }
}

// Writes dst of one channel: pooled, or the activation of the normalised values, with adds_last plus the residual.
static void normalise_channel(const norm_job *job, int c, double mean, double scale) {
    const ls_norm_attr *a = job->attr;
    if (a->pool_kernel) {
        pool_channel(job, c, mean, scale);
        return;
    }
    for (int64_t i = 0; i < channel_count(a->shape); i++) {
        int64_t at = element(a->shape, c, i);
        double y = normalised(job, c, at, mean, scale);
        if (a->activation == LS_ACTIVATION_RELU && y < 0) y = 0;
        if (a->activation > LS_ACTIVATION_RELU) y = ls_activation_value(a->activation, (double)a->parameter, y);
        if (a->adds_last) y += residual_at(job, at);
        ls_store_float(job->out, a->storage, at, (float)y);
    }
}

typedef struct {
    double count, sum, spread; // spread: sum of (src - mean)^2
} moments;

static moments moments_of(const norm_job *job, int c) {
    const ls_norm_attr *a = job->attr;
    int64_t count = channel_count(a->shape);
    double sum = 0, spread = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)ls_load_float(job->src, a->storage, element(a->shape, c, i));
    double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        double d = (double)ls_load_float(job->src, a->storage, element(a->shape, c, i)) - mean;
        spread += d * d;
    }
    return (moments){ (double)count, sum, spread };
}

static void forward_with(const norm_job *job, int c, moments m) {
    const ls_norm_attr *a = job->attr;
    double mean = m.sum / m.count, var = m.spread / m.count, scale = 1 / sqrt(var + (double)a->eps);
    job->saved[c] = (float)mean;
    job->saved[a->shape.c + c] = (float)scale;
    if (job->sum_mean) {
        job->sum_mean[c] = (float)((double)job->sum_mean[c] + mean);
        job->sum_var[c] = (float)((double)job->sum_var[c] + m.spread / (m.count - 1));
    }
    normalise_channel(job, c, mean, scale);
}

static void forward_channel(void *context, int c, int thread) {
    (void)thread;
    forward_with(context, c, moments_of(context, c));
}

static void sums_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    moments m = moments_of(job, c);
    job->sums[c] = m.sum;
    job->sums[job->attr->shape.c + c] = m.spread + m.sum * m.sum / m.count;
}

static void apply_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    int channels = job->attr->shape.c;
    moments m = { .count = job->sums[2 * channels], .sum = job->sums[c] };
    m.spread = fmax(job->sums[channels + c] - m.sum * m.sum / m.count, 0);
    forward_with(job, c, m);
}

static norm_job forward_job(const ls_plan *plan, const ls_buffer *args) {
    return (norm_job){
        .attr = &plan->desc.attr.norm,
        .src = ls_buffer_host(args[LS_NORM_FORWARD_SRC]),
        .residual = ls_buffer_host(args[LS_NORM_FORWARD_RESIDUAL]),
        .gamma = ls_buffer_host(args[LS_NORM_FORWARD_GAMMA]),
        .beta = ls_buffer_host(args[LS_NORM_FORWARD_BETA]),
        .saved = ls_buffer_host(args[LS_NORM_FORWARD_SAVED]),
        .sum_mean = ls_buffer_host(args[LS_NORM_FORWARD_SUM_MEAN]),
        .sum_var = ls_buffer_host(args[LS_NORM_FORWARD_SUM_VAR]),
        .out = ls_buffer_host(args[LS_NORM_FORWARD_DST]),
        .index = ls_buffer_host(args[LS_NORM_FORWARD_INDEX]),
    };
}

void ls_ref_norm_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    norm_job job = forward_job(plan, args);
    ls_ref_run_tasks(plan, forward_channel, &job, job.attr->shape.c);
}

void ls_ref_norm_sums(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    norm_job job = {
        .attr = &plan->desc.attr.norm,
        .src = ls_buffer_host(args[LS_NORM_SUMS_SRC]),
        .sums = ls_buffer_host(args[LS_NORM_SUMS_SUMS]),
    };
    ls_ref_run_tasks(plan, sums_channel, &job, job.attr->shape.c);
    job.sums[2 * job.attr->shape.c] = (double)channel_count(job.attr->shape);
}

void ls_ref_norm_apply(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    norm_job job = forward_job(plan, args);
    job.sums = ls_buffer_host(args[LS_NORM_APPLY_SUMS]);
    ls_ref_run_tasks(plan, apply_channel, &job, job.attr->shape.c);
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

// Mean and 1/deviation of the forward pass.
static double mean_of(const norm_job *job, int c) {
    return (double)(job->attr->stored ? job->mean[c] : job->saved[c]);
}

static double scale_of(const norm_job *job, int c) {
    if (job->attr->stored) return 1 / sqrt((double)job->var[c] + (double)job->attr->eps);
    return (double)job->saved[job->attr->shape.c + c];
}

// Returns the input of the activation, computed again for the backward pass.
static double normalised_again(const norm_job *job, int c, int64_t at) {
    return normalised(job, c, at, mean_of(job, c), scale_of(job, c));
}

static double gradient_at(const norm_job *job, int c, int64_t at) {
    const ls_norm_attr *a = job->attr;
    if (a->pool_kernel) return job->pooling[at];
    double g = (double)ls_load_float(job->grad_dst, a->storage, at);
    if (a->two_grads) g += (double)ls_load_float(job->grad_dst2, a->storage, at);
    if (a->activation > LS_ACTIVATION_RELU)
        return g * ls_activation_slope(a->activation, (double)a->parameter, normalised_again(job, c, at));
    if (a->activation == LS_ACTIVATION_NONE) return g;
    double y = job->dst ? (double)ls_load_float(job->dst, a->storage, at) : normalised_again(job, c, at);
    return y > 0 ? g : 0;
}

// Gives each gradient of the pooled map to the winner of its window.
static void unpool_channel(const norm_job *job, int c) {
    const ls_norm_attr *a = job->attr;
    for (int64_t i = 0; i < channel_count(a->shape); i++) job->pooling[element(a->shape, c, i)] = 0;
    for (int64_t i = 0; i < channel_count(a->pooled); i++) {
        int64_t at = element(a->pooled, c, i);
        if (job->index[at] == LS_POOL_NONE_U8) continue;
        double g = (double)ls_load_float(job->grad_dst, a->storage, at);
        if (a->two_grads) g += (double)ls_load_float(job->grad_dst2, a->storage, at);
        job->pooling[element(a->shape, c, window_element(a, i, job->index[at]))] += g;
    }
}

typedef struct {
    double count, sum, product; // sum of g; sum of g * (src - mean)
} grad_sums;

static grad_sums grad_sums_of(const norm_job *job, int c) {
    const ls_norm_attr *a = job->attr;
    grad_sums s = { .count = (double)channel_count(a->shape) };
    double mean = mean_of(job, c);
    if (a->pool_kernel) unpool_channel(job, c);
    for (int64_t i = 0; i < channel_count(a->shape); i++) {
        int64_t at = element(a->shape, c, i);
        double g = gradient_at(job, c, at);
        s.sum += g;
        s.product += g * ((double)ls_load_float(job->src, a->storage, at) - mean);
    }
    return s;
}

static void add_param_grads(const norm_job *job, int c, grad_sums s) {
    double scale = scale_of(job, c);
    if (job->grad_beta) job->grad_beta[c] = (float)((double)job->grad_beta[c] + s.sum);
    if (job->grad_gamma) job->grad_gamma[c] = (float)((double)job->grad_gamma[c] + s.product * scale);
}

static void backward_with(const norm_job *job, int c, grad_sums s) {
    const ls_norm_attr *a = job->attr;
    double mean = mean_of(job, c), scale = scale_of(job, c), sum_xhat = s.product * scale;
    for (int64_t i = 0; i < channel_count(a->shape); i++) {
        int64_t at = element(a->shape, c, i);
        double g = gradient_at(job, c, at);
        double xhat = ((double)ls_load_float(job->src, a->storage, at) - mean) * scale;
        double grad = (double)job->gamma[c] * scale * (g - s.sum / s.count - xhat * sum_xhat / s.count);
        if (a->residual) ls_store_float(job->grad_residual, a->storage, at, (float)g);
        ls_store_float(job->out, a->storage, at, (float)grad);
    }
}

static void backward_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    grad_sums s = grad_sums_of(job, c);
    add_param_grads(job, c, s);
    if (job->attr->stored) s.sum = s.product = 0; // stored statistics do not depend on src
    backward_with(job, c, s);
}

static void backward_sums_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    grad_sums s = grad_sums_of(job, c);
    add_param_grads(job, c, s);
    job->sums[c] = s.sum;
    job->sums[job->attr->shape.c + c] = s.product;
}

static void backward_apply_channel(void *context, int c, int thread) {
    (void)thread;
    const norm_job *job = context;
    int channels = job->attr->shape.c;
    if (job->attr->pool_kernel) unpool_channel(job, c);
    backward_with(job, c, (grad_sums){ job->sums[2 * channels], job->sums[c], job->sums[channels + c] });
}

size_t ls_ref_norm_workspace(const ls_op_desc *desc) {
    const ls_norm_attr *a = &desc->attr.norm;
    int backward = desc->op == LS_OP_NORM_BACKWARD || desc->op == LS_OP_NORM_BACKWARD_SUMS ||
                   desc->op == LS_OP_NORM_BACKWARD_APPLY;
    return backward && a->pool_kernel ? (size_t)ls_nchw_count(a->shape) * sizeof(double) : 0;
}

static norm_job backward_job(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer) {
    return (norm_job){
        .attr = &plan->desc.attr.norm,
        .src = ls_buffer_host(args[LS_NORM_BACKWARD_SRC]),
        .dst = ls_buffer_host(args[LS_NORM_BACKWARD_DST]),
        .grad_dst = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_DST]),
        .grad_dst2 = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_DST2]),
        .gamma = ls_buffer_host(args[LS_NORM_BACKWARD_GAMMA]),
        .beta = ls_buffer_host(args[LS_NORM_BACKWARD_BETA]),
        .saved = ls_buffer_host(args[LS_NORM_BACKWARD_SAVED]),
        .mean = ls_buffer_host(args[LS_NORM_BACKWARD_MEAN]),
        .var = ls_buffer_host(args[LS_NORM_BACKWARD_VAR]),
        .out = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_SRC]),
        .grad_residual = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_RESIDUAL]),
        .grad_gamma = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_GAMMA]),
        .grad_beta = ls_buffer_host(args[LS_NORM_BACKWARD_GRAD_BETA]),
        .index = ls_buffer_host(args[LS_NORM_BACKWARD_INDEX]),
        .pooling = ls_buffer_host(workspace_buffer),
    };
}

void ls_ref_norm_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    norm_job job = backward_job(plan, args, workspace_buffer);
    ls_ref_run_tasks(plan, backward_channel, &job, job.attr->shape.c);
}

void ls_ref_norm_backward_sums(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    norm_job job = backward_job(plan, args, workspace_buffer);
    job.sums = ls_buffer_host(args[LS_NORM_BACKWARD_SUMS_SUMS]);
    ls_ref_run_tasks(plan, backward_sums_channel, &job, job.attr->shape.c);
    job.sums[2 * job.attr->shape.c] = (double)channel_count(job.attr->shape);
}

void ls_ref_norm_backward_apply(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    norm_job job = backward_job(plan, args, workspace_buffer);
    job.sums = ls_buffer_host(args[LS_NORM_BACKWARD_APPLY_SUMS]);
    ls_ref_run_tasks(plan, backward_apply_channel, &job, job.attr->shape.c);
}
