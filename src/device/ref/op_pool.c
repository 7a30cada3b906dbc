#include "device/ref/ref.h"

#include <math.h>

typedef struct {
    const ls_pool_attr *attr;
    const void *src, *grad_dst;
    const float *bias; // NULL: no bias
    void *out, *index;
    double *sum; // backward: grad_src
} pool_job;

static int wide_index(const ls_pool_attr *a) {
    return a->kernel_h * a->kernel_w >= LS_POOL_NONE_U8;
}

static void store_index(const pool_job *job, int64_t at, int winner) { // winner -1: none
    if (wide_index(job->attr)) {
        ((uint16_t *)job->index)[at] = (uint16_t)(winner < 0 ? LS_POOL_NONE_U16 : winner);
    } else {
        ((uint8_t *)job->index)[at] = (uint8_t)(winner < 0 ? LS_POOL_NONE_U8 : winner);
    }
}

static int load_index(const pool_job *job, int64_t at) {
    int index = wide_index(job->attr) ? ((const uint16_t *)job->index)[at] : ((const uint8_t *)job->index)[at];
    return index == (wide_index(job->attr) ? LS_POOL_NONE_U16 : LS_POOL_NONE_U8) ? -1 : index;
}

typedef struct {
    int y, x, h, w; // first row and column, rows and columns, with those in the padding
} window;

// The window of output i (of its plane).
static window window_of(const ls_pool_attr *a, int64_t i) {
    const int p = (int)(i / a->dst.w), q = (int)(i % a->dst.w);
    if (a->stride_h)
        return (window){ p * a->stride_h - a->pad_h, q * a->stride_w - a->pad_w, a->kernel_h, a->kernel_w };
    window w = { p * a->src.h / a->dst.h, q * a->src.w / a->dst.w, 0, 0 };
    w.h = ((p + 1) * a->src.h + a->dst.h - 1) / a->dst.h - w.y;
    w.w = ((q + 1) * a->src.w + a->dst.w - 1) / a->dst.w - w.x;
    return w;
}

// Index in the source plane of element t of a window. -1: in the padding.
static int64_t window_element(const ls_pool_attr *a, window w, int t) {
    const int y = w.y + t / w.w, x = w.x + t % w.w;
    return y < 0 || y >= a->src.h || x < 0 || x >= a->src.w ? -1 : (int64_t)y * a->src.w + x;
}

static void forward_plane(void *context, int task, int thread) { // task: one (n, c)
    (void)thread;
    const pool_job *job = context;
    const ls_pool_attr *a = job->attr;
    int64_t src_at = task * (int64_t)a->src.h * a->src.w, plane = (int64_t)a->dst.h * a->dst.w;
    for (int64_t i = 0; i < plane; i++) {
        double sum = 0, best = 0;
        int winner = -1;
        const window w = window_of(a, i);
        for (int t = 0; t < w.h * w.w; t++) {
            int64_t at = window_element(a, w, t);
            if (at < 0) continue;
            double value = (double)ls_load_float(job->src, a->storage, src_at + at);
            sum += value;
            if (winner >= 0 && !(value > best) && !isnan(value)) continue;
            best = value;
            winner = t;
        }
        if (job->bias) best += (double)job->bias[task % a->src.c];
        if (a->relu && best <= 0) {
            best = 0;
            winner = -1;
        }
        double result = a->kind == LS_POOL_MAX ? best : sum / (w.h * w.w);
        ls_store_float(job->out, a->storage, task * plane + i, (float)result);
        if (job->index) store_index(job, task * plane + i, winner);
    }
}

void ls_ref_pool_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_pool_attr *a = &plan->desc.attr.pool;
    pool_job job = { .attr = a, .src = ls_buffer_host(args[LS_POOL_FORWARD_SRC]) };
    if (a->has_bias) job.bias = ls_buffer_host(args[LS_POOL_FORWARD_BIAS]);
    job.out = ls_buffer_host(args[LS_POOL_FORWARD_DST]);
    if (a->kind == LS_POOL_MAX && a->training) job.index = ls_buffer_host(args[LS_POOL_FORWARD_INDEX]);
    ls_ref_run_tasks(plan, forward_plane, &job, a->src.n * a->src.c);
}

size_t ls_ref_pool_workspace(const ls_op_desc *desc) {
    return desc->op == LS_OP_POOL_BACKWARD ? (size_t)ls_nchw_count(desc->attr.pool.src) * sizeof(double) : 0;
}

static void backward_plane(void *context, int task, int thread) { // task: one (n, c)
    (void)thread;
    const pool_job *job = context;
    const ls_pool_attr *a = job->attr;
    int64_t src_plane = (int64_t)a->src.h * a->src.w, plane = (int64_t)a->dst.h * a->dst.w;
    double *sum = job->sum + task * src_plane;
    for (int64_t i = 0; i < src_plane; i++) sum[i] = 0;
    for (int64_t i = 0; i < plane; i++) {
        double grad = (double)ls_load_float(job->grad_dst, a->storage, task * plane + i);
        const window w = window_of(a, i);
        if (a->kind == LS_POOL_MAX) {
            int winner = load_index(job, task * plane + i);
            if (winner >= 0) sum[window_element(a, w, winner)] += grad;
            continue;
        }
        for (int t = 0; t < w.h * w.w; t++) {
            int64_t at = window_element(a, w, t);
            if (at >= 0) sum[at] += grad / (w.h * w.w);
        }
    }
    for (int64_t i = 0; i < src_plane; i++) ls_store_float(job->out, a->storage, task * src_plane + i, (float)sum[i]);
}

void ls_ref_pool_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)queue;
    const ls_pool_attr *a = &plan->desc.attr.pool;
    pool_job job = { .attr = a, .grad_dst = ls_buffer_host(args[LS_POOL_BACKWARD_GRAD_DST]) };
    job.index = ls_buffer_host(args[LS_POOL_BACKWARD_INDEX]);
    job.out = ls_buffer_host(args[LS_POOL_BACKWARD_GRAD_SRC]);
    job.sum = ls_buffer_host(workspace_buffer);
    ls_ref_run_tasks(plan, backward_plane, &job, a->src.n * a->src.c);
}
