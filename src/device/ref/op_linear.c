#include "device/ref/ref.h"

// The workspace, as doubles: src (or the sum of its gradient), dst (or its gradient), the weight (or the sum of its
// gradient).
typedef struct {
    int samples, inputs, outputs, relu;
    ls_dtype storage;
    double *src, *dst, *weight;
    const void *bias; // NULL: no bias
    void *out;
    float *grad_weight, *grad_bias;
} linear_job;

size_t ls_ref_linear_workspace(const ls_op_desc *desc) {
    const ls_linear_attr *a = &desc->attr.linear;
    int64_t inputs = ls_nchw_count(a->src) / a->src.n;
    return (size_t)((a->src.n + a->out_features) * inputs + (int64_t)a->src.n * a->out_features) * sizeof(double);
}

static linear_job job_in(const ls_op_desc *desc, ls_buffer workspace) {
    const ls_linear_attr *a = &desc->attr.linear;
    linear_job job = { .samples = a->src.n, .outputs = a->out_features, .relu = a->relu, .storage = a->storage };
    job.inputs = (int)(ls_nchw_count(a->src) / a->src.n);
    job.src = ls_buffer_host(workspace);
    job.dst = job.src + (int64_t)job.samples * job.inputs;
    job.weight = job.dst + (int64_t)job.samples * job.outputs;
    return job;
}

static void forward_sample(void *context, int n, int thread) {
    (void)thread;
    const linear_job *job = context;
    const double *src = job->src + (int64_t)n * job->inputs;
    for (int o = 0; o < job->outputs; o++) {
        const double *weight = job->weight + (int64_t)o * job->inputs;
        // four chains, so that additions need not wait for each other
        double sum[4] = { job->bias ? (double)ls_load_float(job->bias, job->storage, o) : 0 };
        for (int i = 0; i < job->inputs; i++) sum[i % 4] += src[i] * weight[i];
        double all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        if (job->relu && all < 0) all = 0; // NaN stays NaN
        ls_store_float(job->out, job->storage, (int64_t)n * job->outputs + o, (float)all);
    }
}

void ls_ref_linear_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    linear_job job = job_in(&plan->desc, workspace_buffer);
    int64_t weights = (int64_t)job.outputs * job.inputs;
    ls_ref_doubles(
        ls_buffer_host(args[LS_LINEAR_FORWARD_SRC]), job.storage, (int64_t)job.samples * job.inputs, job.src);
    ls_ref_doubles(ls_buffer_host(args[LS_LINEAR_FORWARD_WEIGHT]), job.storage, weights, job.weight);
    if (plan->desc.attr.linear.has_bias) job.bias = ls_buffer_host(args[LS_LINEAR_FORWARD_BIAS]);
    job.out = ls_buffer_host(args[LS_LINEAR_FORWARD_DST]);
    ls_ref_run_tasks(plan, forward_sample, &job, job.samples);
}

static void add_scaled(double *restrict sum, const double *restrict from, double factor, int count) {
    for (int i = 0; i < count; i++) sum[i] += factor * from[i];
}

static void backward_data_sample(void *context, int n, int thread) {
    (void)thread;
    const linear_job *job = context;
    double *sum = job->src + (int64_t)n * job->inputs;
    for (int i = 0; i < job->inputs; i++) sum[i] = 0;
    for (int o = 0; o < job->outputs; o++) {
        add_scaled(sum, job->weight + (int64_t)o * job->inputs, job->dst[(int64_t)n * job->outputs + o], job->inputs);
    }
    for (int i = 0; i < job->inputs; i++) {
        ls_store_float(job->out, job->storage, (int64_t)n * job->inputs + i, (float)sum[i]);
    }
}

void ls_ref_linear_backward_data(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    linear_job job = job_in(&plan->desc, workspace_buffer);
    int64_t weights = (int64_t)job.outputs * job.inputs, grads = (int64_t)job.samples * job.outputs;
    ls_ref_doubles(ls_buffer_host(args[LS_LINEAR_BACKWARD_DATA_GRAD_DST]), job.storage, grads, job.dst);
    ls_ref_doubles(ls_buffer_host(args[LS_LINEAR_BACKWARD_DATA_WEIGHT]), job.storage, weights, job.weight);
    job.out = ls_buffer_host(args[LS_LINEAR_BACKWARD_DATA_GRAD_SRC]);
    ls_ref_run_tasks(plan, backward_data_sample, &job, job.samples);
}

static void backward_weight_output(void *context, int o, int thread) {
    (void)thread;
    const linear_job *job = context;
    const int inputs = job->grad_weight ? job->inputs : 0; // otherwise only the bias gradient
    double *sum = job->weight + (int64_t)o * inputs, bias_sum = 0;
    for (int i = 0; i < inputs; i++) sum[i] = 0;
    for (int n = 0; n < job->samples; n++) {
        double grad = job->dst[(int64_t)n * job->outputs + o];
        add_scaled(sum, job->src + (int64_t)n * job->inputs, grad, inputs);
        bias_sum += grad;
    }
    float *grad_weight = job->grad_weight + (int64_t)o * inputs;
    for (int i = 0; i < inputs; i++) grad_weight[i] = (float)((double)grad_weight[i] + sum[i]);
    if (job->grad_bias) job->grad_bias[o] = (float)((double)job->grad_bias[o] + bias_sum);
}

void ls_ref_linear_backward_weight(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    linear_job job = job_in(&plan->desc, workspace_buffer);
    int64_t values = (int64_t)job.samples * job.inputs, grads = (int64_t)job.samples * job.outputs;
    ls_ref_doubles(ls_buffer_host(args[LS_LINEAR_BACKWARD_WEIGHT_SRC]), job.storage, values, job.src);
    ls_ref_doubles(ls_buffer_host(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST]), job.storage, grads, job.dst);
    job.grad_weight = ls_buffer_host(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT]);
    if (plan->desc.attr.linear.has_bias) job.grad_bias = ls_buffer_host(args[LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS]);
    ls_ref_run_tasks(plan, backward_weight_output, &job, job.outputs);
}
