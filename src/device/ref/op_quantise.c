#include <math.h>
#include "device/ref/ref.h"

typedef struct {
    const float *src, *scale, *zero, *grad_dst;
    float *out;
    int64_t each; // elements of a task
} quantise_job;

static void forward_sample(void *context, int task, int thread) {
    (void)thread;
    const quantise_job *job = context;
    const float scale = *job->scale, least = LS_QUANTISE_LEAST - *job->zero, most = LS_QUANTISE_MOST - *job->zero;
    for (int64_t i = task * job->each; i < (task + 1) * job->each; i++) {
        const float q = job->src[i] / scale;
        job->out[i] = scale * (rintf(q < least ? least : q > most ? most : q) + 0.0F); // no negative zeros
    }
}

static void backward_sample(void *context, int task, int thread) {
    (void)thread;
    const quantise_job *job = context;
    const float scale = *job->scale, least = LS_QUANTISE_LEAST - *job->zero, most = LS_QUANTISE_MOST - *job->zero;
    for (int64_t i = task * job->each; i < (task + 1) * job->each; i++) {
        const float q = rintf(job->src[i] / scale);
        job->out[i] = q >= least && q <= most ? job->grad_dst[i] : 0;
    }
}

static void weight_row(void *context, int task, int thread) { // task: an output channel
    (void)thread;
    const quantise_job *job = context;
    const float *row = job->src + task * job->each;
    float most = 0;
    for (int64_t i = 0; i < job->each; i++)
        if (fabsf(row[i]) > most) most = fabsf(row[i]);
    const float scale = most / LS_QUANTISE_WEIGHT_MOST;
    for (int64_t i = 0; i < job->each; i++)
        job->out[task * job->each + i] = scale > 0 ? scale * (rintf(row[i] / scale) + 0.0F) : row[i];
}

void ls_ref_fake_quantise(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_nchw shape = plan->desc.attr.quantise.shape;
    quantise_job job = { .src = ls_buffer_host(args[LS_FAKE_QUANTISE_SRC]),
        .scale = ls_buffer_host(args[LS_FAKE_QUANTISE_SCALE]),
        .zero = ls_buffer_host(args[LS_FAKE_QUANTISE_ZERO]),
        .out = ls_buffer_host(args[LS_FAKE_QUANTISE_DST]),
        .each = ls_nchw_count(shape) / shape.n };
    ls_ref_run_tasks(plan, forward_sample, &job, shape.n);
}

void ls_ref_fake_quantise_backward(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_nchw shape = plan->desc.attr.quantise.shape;
    quantise_job job = { .src = ls_buffer_host(args[LS_FAKE_QUANTISE_BACKWARD_SRC]),
        .scale = ls_buffer_host(args[LS_FAKE_QUANTISE_BACKWARD_SCALE]),
        .zero = ls_buffer_host(args[LS_FAKE_QUANTISE_BACKWARD_ZERO]),
        .grad_dst = ls_buffer_host(args[LS_FAKE_QUANTISE_BACKWARD_GRAD_DST]),
        .out = ls_buffer_host(args[LS_FAKE_QUANTISE_BACKWARD_GRAD_SRC]),
        .each = ls_nchw_count(shape) / shape.n };
    ls_ref_run_tasks(plan, backward_sample, &job, shape.n);
}

void ls_ref_fake_quantise_weight(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_param_shape *param = &plan->desc.attr.quantise.param;
    quantise_job job = { .src = ls_buffer_host(args[LS_FAKE_QUANTISE_WEIGHT_SRC]),
        .out = ls_buffer_host(args[LS_FAKE_QUANTISE_WEIGHT_DST]),
        .each = ls_param_count(param) / param->dim[0] };
    ls_ref_run_tasks(plan, weight_row, &job, param->dim[0]);
}
