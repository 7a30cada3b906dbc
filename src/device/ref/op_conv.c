#include "device/ref/ref.h"

// The workspace, as doubles: src and dst (or their gradients), the weight, and the sums.
typedef struct {
    const ls_conv_attr *attr;
    double *src, *dst, *weight, *sum;
    const float *bias;
    void *out;
    float *grad_weight, *grad_bias;
} conv_job;

static int64_t weight_count(const ls_conv_attr *a) {
    return (int64_t)a->dst.c * (a->src.c / a->groups) * ls_conv_taps(a);
}

// Returns the number of sums. They have the shape of the output: dst, grad_src or grad_weight.
static int64_t sum_count(const ls_op_desc *desc) {
    const ls_conv_attr *a = &desc->attr.conv;
    if (desc->op == LS_OP_CONV_FORWARD) return ls_nchw_count(a->dst);
    return desc->op == LS_OP_CONV_BACKWARD_DATA ? ls_nchw_count(a->src) : weight_count(a);
}

size_t ls_ref_conv_workspace(const ls_op_desc *desc) {
    const ls_conv_attr *a = &desc->attr.conv;
    int64_t doubles = ls_nchw_count(a->src) + ls_nchw_count(a->dst) + weight_count(a) + sum_count(desc);
    return (size_t)doubles * sizeof(double);
}

static conv_job job_in(const ls_op_desc *desc, ls_buffer workspace) {
    const ls_conv_attr *a = &desc->attr.conv;
    conv_job job = { .attr = a, .src = ls_buffer_host(workspace) };
    job.dst = job.src + ls_nchw_count(a->src);
    job.weight = job.dst + ls_nchw_count(a->dst);
    job.sum = job.weight + weight_count(a);
    return job;
}

// Finds the outputs first..end-1, whose tap q*stride + offset lies in 0..size-1.
static void taps_inside(int size, int outputs, int stride, int offset, int *first, int *end) {
    int last_tap = size - 1 - offset;
    *first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    *end = last_tap < 0 ? 0 : last_tap / stride + 1;
    if (*end > outputs) *end = outputs;
    if (*first > *end) *first = *end;
}

// dst[p][q] += weight * src[p*stride_h + dy][q*stride_w + dx] for all pixels of dst whose source is inside the map.
// With scatter, the reverse: src[...][...] += weight * dst[p][q].
static void tap_plane(const ls_conv_attr *a, int r, int s, double weight, double *dst, double *src, int scatter) {
    int dy = r * a->dilation - a->pad_h, dx = s * a->dilation - a->pad_w, stride = a->stride_w;
    int p_first, p_end, q_first, q_end;
    taps_inside(a->src.h, a->dst.h, a->stride_h, dy, &p_first, &p_end);
    taps_inside(a->src.w, a->dst.w, stride, dx, &q_first, &q_end);
    for (int p = p_first; p < p_end; p++) {
        double *restrict to = dst + (int64_t)p * a->dst.w + q_first;
        double *restrict from = src + (int64_t)(p * a->stride_h + dy) * a->src.w + q_first * stride + dx;
        int count = q_end - q_first;
        if (scatter) {
            for (int q = 0; q < count; q++) from[q * stride] += weight * to[q];
        } else {
            for (int q = 0; q < count; q++) to[q] += weight * from[q * stride];
        }
    }
}

static void forward_plane(void *context, int task, int thread) { // task: one (n, k)
    (void)thread;
    const conv_job *job = context;
    const ls_conv_attr *a = job->attr;
    int n = task / a->dst.c, k = task % a->dst.c, group_in = a->src.c / a->groups, taps = ls_conv_taps(a);
    int first_in = k / (a->dst.c / a->groups) * group_in;
    int64_t plane = (int64_t)a->dst.h * a->dst.w, src_plane = (int64_t)a->src.h * a->src.w;
    double *sum = job->sum + task * plane;
    for (int64_t i = 0; i < plane; i++) sum[i] = job->bias ? (double)job->bias[k] : 0;
    for (int c = 0; c < group_in; c++) {
        double *src = job->src + ((int64_t)n * a->src.c + first_in + c) * src_plane;
        const double *weight = job->weight + ((int64_t)k * group_in + c) * taps;
        for (int t = 0; t < taps; t++) tap_plane(a, t / a->kernel_w, t % a->kernel_w, weight[t], sum, src, 0);
    }
    for (int64_t i = 0; i < plane; i++) ls_store_float(job->out, a->storage, task * plane + i, (float)sum[i]);
}

void ls_ref_conv_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    conv_job job = job_in(&plan->desc, workspace_buffer);
    const ls_conv_attr *a = job.attr;
    ls_ref_doubles(ls_buffer_host(args[LS_CONV_FORWARD_SRC]), a->storage, ls_nchw_count(a->src), job.src);
    ls_ref_doubles(ls_buffer_host(args[LS_CONV_FORWARD_WEIGHT]), a->storage, weight_count(a), job.weight);
    if (a->has_bias) job.bias = ls_buffer_host(args[LS_CONV_FORWARD_BIAS]);
    job.out = ls_buffer_host(args[LS_CONV_FORWARD_DST]);
    ls_ref_run_tasks(plan, forward_plane, &job, a->dst.n * a->dst.c);
}

static void backward_data_plane(void *context, int task, int thread) { // task: one (n, c)
    (void)thread;
    const conv_job *job = context;
    const ls_conv_attr *a = job->attr;
    int n = task / a->src.c, c = task % a->src.c, taps = ls_conv_taps(a);
    int group_in = a->src.c / a->groups, group_out = a->dst.c / a->groups, group = c / group_in;
    int64_t plane = (int64_t)a->src.h * a->src.w, dst_plane = (int64_t)a->dst.h * a->dst.w;
    double *sum = job->sum + task * plane;
    for (int64_t i = 0; i < plane; i++) sum[i] = 0;
    for (int k = group * group_out; k < (group + 1) * group_out; k++) {
        double *grad_dst = job->dst + ((int64_t)n * a->dst.c + k) * dst_plane;
        const double *weight = job->weight + ((int64_t)k * group_in + c % group_in) * taps;
        for (int t = 0; t < taps; t++) tap_plane(a, t / a->kernel_w, t % a->kernel_w, weight[t], grad_dst, sum, 1);
    }
    for (int64_t i = 0; i < plane; i++) ls_store_float(job->out, a->storage, task * plane + i, (float)sum[i]);
}

void ls_ref_conv_backward_data(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    conv_job job = job_in(&plan->desc, workspace_buffer);
    const ls_conv_attr *a = job.attr;
    ls_ref_doubles(ls_buffer_host(args[LS_CONV_BACKWARD_DATA_GRAD_DST]), a->storage, ls_nchw_count(a->dst), job.dst);
    ls_ref_doubles(ls_buffer_host(args[LS_CONV_BACKWARD_DATA_WEIGHT]), a->storage, weight_count(a), job.weight);
    job.out = ls_buffer_host(args[LS_CONV_BACKWARD_DATA_GRAD_SRC]);
    ls_ref_run_tasks(plan, backward_data_plane, &job, a->src.n * a->src.c);
}

// Converts to doubles and puts channels innermost, so that the sums of one tap for many channels run in parallel lanes.
static void widen_channels_last(const void *array, ls_dtype storage, ls_nchw s, double *out) {
    int64_t plane = (int64_t)s.h * s.w;
    for (int64_t i = 0; i < ls_nchw_count(s); i++) {
        int64_t n = i / (plane * s.c), c = i / plane % s.c, at = i % plane;
        out[(n * plane + at) * s.c + c] = (double)ls_load_float(array, storage, i);
    }
}

static void backward_weight_filter(void *context, int task, int thread) { // task: one k; sum is (R, S, C/groups)
    (void)thread;
    const conv_job *job = context;
    const ls_conv_attr *a = job->attr;
    int k = task, group_in = a->src.c / a->groups, taps = a->bias_only ? 0 : ls_conv_taps(a);
    int first_in = k / (a->dst.c / a->groups) * group_in;
    int64_t plane = (int64_t)a->dst.h * a->dst.w;
    double *sum = job->sum + (int64_t)k * taps * group_in, bias_sum = 0;
    for (int i = 0; i < taps * group_in; i++) sum[i] = 0;
    for (int64_t i = 0; i < a->dst.n * plane; i++) {
        int64_t n = i / plane, at = i % plane;
        int y = (int)(at / a->dst.w) * a->stride_h - a->pad_h, x = (int)(at % a->dst.w) * a->stride_w - a->pad_w;
        double grad = job->dst[(n * a->dst.c + k) * plane + at];
        bias_sum += grad;
        for (int t = 0; t < taps; t++) {
            int row = y + t / a->kernel_w * a->dilation, column = x + t % a->kernel_w * a->dilation;
            if (row < 0 || row >= a->src.h || column < 0 || column >= a->src.w) continue;
            const double *restrict src = job->src + ((n * a->src.h + row) * a->src.w + column) * a->src.c + first_in;
            double *restrict to = sum + (int64_t)t * group_in;
            for (int c = 0; c < group_in; c++) to[c] += grad * src[c];
        }
    }
    float *grad_weight = job->grad_weight + (int64_t)k * taps * group_in;
    for (int i = 0; i < taps * group_in; i++) {
        int c = i / taps, t = i % taps;
        grad_weight[i] = (float)((double)grad_weight[i] + sum[t * group_in + c]);
    }
    if (job->grad_bias) job->grad_bias[k] = (float)((double)job->grad_bias[k] + bias_sum);
}

void ls_ref_conv_backward_weight(
    const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    conv_job job = job_in(&plan->desc, workspace_buffer);
    const ls_conv_attr *a = job.attr;
    widen_channels_last(ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_SRC]), a->storage, a->src, job.src);
    ls_ref_doubles(ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST]), a->storage, ls_nchw_count(a->dst), job.dst);
    job.grad_weight = ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT]);
    if (a->has_bias) job.grad_bias = ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS]);
    ls_ref_run_tasks(plan, backward_weight_filter, &job, a->dst.c);
}
