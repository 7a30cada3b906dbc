#include <math.h>

#include "base/philox.h"
#include "device/ref/ref.h"

typedef struct {
    const ls_map_attr *attr;
    const void *a, *b;
    void *out;
    const ls_micro_input *micro;
} map_job;

static double load(const map_job *job, const void *array, int64_t i) {
    return (double)ls_load_float(array, job->attr->storage, i);
}

static void store(const map_job *job, int64_t i, double value) {
    ls_store_float(job->out, job->attr->storage, i, (float)value);
}

// The elements of sample `task`.
static void sample_range(const map_job *job, int task, int64_t *first, int64_t *end) {
    int64_t size = ls_nchw_count(job->attr->shape) / job->attr->shape.n;
    *first = task * size;
    *end = *first + size;
}

static const double sqrt_half = 0.70710678118654752440, sqrt_two_pi = 2.50662827463100050242;

double ls_ref_gelu(double x) {
    return x * erfc(-x * sqrt_half) / 2;
}

double ls_ref_gelu_slope(double x) {
    return erfc(-x * sqrt_half) / 2 + x * exp(-x * x / 2) / sqrt_two_pi;
}

static void relu_sample(void *context, int task, int thread) {
    (void)thread;
    const map_job *job = context;
    int64_t i, end;
    for (sample_range(job, task, &i, &end); i < end; i++) {
        double value = load(job, job->a, i);
        store(job, i, value <= 0 ? 0 : value);
    }
}

static void relu_backward_sample(void *context, int task, int thread) {
    (void)thread;
    const map_job *job = context;
    int64_t i, end;
    for (sample_range(job, task, &i, &end); i < end; i++) {
        store(job, i, load(job, job->a, i) > 0 ? load(job, job->b, i) : 0);
    }
}

static void gelu_sample(void *context, int task, int thread) {
    (void)thread;
    const map_job *job = context;
    int64_t i, end;
    for (sample_range(job, task, &i, &end); i < end; i++) store(job, i, ls_ref_gelu(load(job, job->a, i)));
}

static void gelu_backward_sample(void *context, int task, int thread) {
    (void)thread;
    const map_job *job = context;
    int64_t i, end;
    for (sample_range(job, task, &i, &end); i < end; i++)
        store(job, i, load(job, job->b, i) * ls_ref_gelu_slope(load(job, job->a, i)));
}

static void add_sample(void *context, int task, int thread) {
    (void)thread;
    const map_job *job = context;
    int64_t i, end;
    for (sample_range(job, task, &i, &end); i < end; i++) store(job, i, load(job, job->a, i) + load(job, job->b, i));
}

static void scale_sample(void *context, int task, int thread) {
    (void)thread;
    const map_job *job = context;
    int64_t i, end;
    for (sample_range(job, task, &i, &end); i < end; i++)
        store(job, i, load(job, job->a, i) * (double)job->attr->factor);
}

static void dropout_sample(void *context, int task, int thread) {
    (void)thread;
    const map_job *job = context;
    const ls_map_attr *attr = job->attr;
    int64_t first, end;
    sample_range(job, task, &first, &end);
    uint64_t first_word = (job->micro->position + (uint64_t)task) * (uint64_t)(end - first);
    for (int64_t i = first; i < end; i++) {
        uint32_t word = ls_random_word(attr->seed, LS_PURPOSE_DROPOUT, (uint32_t)attr->layer, job->micro->update,
            first_word + (uint64_t)(i - first));
        store(job, i, ls_unit_float(word) >= attr->p ? load(job, job->a, i) / (1 - (double)attr->p) : 0);
    }
}

static void run(const ls_plan *plan, ls_pool_task *task, ls_buffer a, ls_buffer b, ls_buffer out) {
    map_job job = { &plan->desc.attr.map, ls_buffer_host(a), ls_buffer_host(b), ls_buffer_host(out), NULL };
    ls_ref_run_tasks(plan, task, &job, job.attr->shape.n);
}

void ls_ref_relu_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, relu_sample, args[LS_RELU_FORWARD_SRC], (ls_buffer){ 0 }, args[LS_RELU_FORWARD_DST]);
}

void ls_ref_relu_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, relu_backward_sample, args[LS_RELU_BACKWARD_DST], args[LS_RELU_BACKWARD_GRAD_DST],
        args[LS_RELU_BACKWARD_GRAD_SRC]);
}

void ls_ref_gelu_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, gelu_sample, args[LS_GELU_FORWARD_SRC], (ls_buffer){ 0 }, args[LS_GELU_FORWARD_DST]);
}

void ls_ref_gelu_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, gelu_backward_sample, args[LS_GELU_BACKWARD_SRC], args[LS_GELU_BACKWARD_GRAD_DST],
        args[LS_GELU_BACKWARD_GRAD_SRC]);
}

void ls_ref_add(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, add_sample, args[LS_ADD_A], args[LS_ADD_B], args[LS_ADD_DST]);
}

void ls_ref_scale(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, scale_sample, args[LS_SCALE_SRC], (ls_buffer){ 0 }, args[LS_SCALE_DST]);
}

void ls_ref_dropout(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    map_job job = { .attr = &plan->desc.attr.map,
        .a = ls_buffer_host(args[LS_DROPOUT_SRC]),
        .out = ls_buffer_host(args[LS_DROPOUT_DST]),
        .micro = ls_buffer_host(args[LS_DROPOUT_MICRO]) };
    ls_ref_run_tasks(plan, dropout_sample, &job, job.attr->shape.n);
}
