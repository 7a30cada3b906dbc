#include "device/ref/ref.h"

typedef struct {
    const ls_gate_attr *attr;
    const void *src, *other; // other: gate, or grad_dst
    void *out;
} gate_job;

static double load(const gate_job *job, const void *array, int64_t i) {
    return (double)ls_load_float(array, job->attr->storage, i);
}

static void gate_plane(void *context, int task, int thread) { // task: one (n, c)
    (void)thread;
    const gate_job *job = context;
    const int64_t plane = (int64_t)job->attr->shape.h * job->attr->shape.w, at = task * plane;
    for (int64_t i = at; i < at + plane; i++)
        ls_store_float(job->out, job->attr->storage, i, (float)(load(job, job->src, i) * load(job, job->other, task)));
}

static void gate_backward_plane(void *context, int task, int thread) {
    (void)thread;
    const gate_job *job = context;
    const int64_t plane = (int64_t)job->attr->shape.h * job->attr->shape.w, at = task * plane;
    double sum = 0;
    for (int64_t i = at; i < at + plane; i++) sum += load(job, job->src, i) * load(job, job->other, i);
    ls_store_float(job->out, job->attr->storage, task, (float)sum);
}

// Runs either operator; both have the arguments src, the other input, the output, in this order.
static void run(const ls_plan *plan, const ls_buffer *args, ls_pool_task *task) {
    gate_job job = { .attr = &plan->desc.attr.gate,
        .src = ls_buffer_host(args[0]),
        .other = ls_buffer_host(args[1]),
        .out = ls_buffer_host(args[2]) };
    ls_ref_run_tasks(plan, task, &job, job.attr->shape.n * job.attr->shape.c);
}

void ls_ref_gate(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, args, gate_plane);
}

void ls_ref_gate_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run(plan, args, gate_backward_plane);
}
