#include "base/philox.h"
#include "config/purpose.h"
#include "device/ref/ref.h"

typedef double formula_of_op(const ls_elementwise_attr *attr, double a, double b); // computes one element

typedef struct {
    const ls_elementwise_attr *attr;
    formula_of_op *formula; // not used by dropout
    const void *a, *b;
    void *out;
    const ls_micro_input *micro;
} elementwise_job;

static double load(const elementwise_job *job, const void *array, int64_t i) {
    return (double)ls_load_float(array, job->attr->storage, i);
}

static void store(const elementwise_job *job, int64_t i, double value) {
    ls_store_float(job->out, job->attr->storage, i, (float)value);
}

// The range of elements of sample `task`.
static void sample_range(const elementwise_job *job, int task, int64_t *first, int64_t *end) {
    int64_t size = ls_nchw_count(job->attr->shape) / job->attr->shape.n;
    *first = task * size;
    *end = *first + size;
}

// --- the formulas of op_elementwise.h: a, b are the inputs in the order of the arguments; b is 0 if absent ---

static double relu_forward(const ls_elementwise_attr *attr, double a, double b) {
    (void)attr, (void)b;
    return a <= 0 ? 0 : a;
}

static double relu_backward(const ls_elementwise_attr *attr, double a, double b) {
    (void)attr;
    return a > 0 ? b : 0;
}

static double activation_forward(const ls_elementwise_attr *attr, double a, double b) {
    (void)b;
    return ls_activation_value(attr->activation, (double)attr->parameter, a);
}

static double activation_backward(const ls_elementwise_attr *attr, double a, double b) {
    return b * ls_activation_slope(attr->activation, (double)attr->parameter, a);
}

static double multiply(const ls_elementwise_attr *attr, double a, double b) {
    (void)attr;
    return a * b;
}

static double add(const ls_elementwise_attr *attr, double a, double b) {
    (void)attr;
    return a + b;
}

static double scale(const ls_elementwise_attr *attr, double a, double b) {
    (void)b;
    return a * (double)attr->factor;
}

// --- running them --------------------------------------------------------------------------------

static void elementwise_sample(void *context, int task, int thread) {
    (void)thread;
    const elementwise_job *job = context;
    int64_t i, end;
    for (sample_range(job, task, &i, &end); i < end; i++)
        store(job, i, job->formula(job->attr, load(job, job->a, i), job->b ? load(job, job->b, i) : 0));
}

static void run(const ls_plan *plan, const ls_buffer *args, formula_of_op *formula) {
    int inputs = ls_op_args(plan->desc.op) - 1; // the output is the last argument
    elementwise_job job = { .attr = &plan->desc.attr.elementwise,
        .formula = formula,
        .a = ls_buffer_host(args[0]),
        .b = inputs > 1 ? ls_buffer_host(args[1]) : NULL,
        .out = ls_buffer_host(args[inputs]) };
    ls_ref_run_tasks(plan, elementwise_sample, &job, job.attr->shape.n);
}

#define ELEMENTWISE(NAME, name, text, output, flops) \
    void ls_ref_##name(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) { \
        (void)workspace_buffer; \
        (void)queue; \
        run(plan, args, name); \
    }
#include "device/ops.def"

static void dropout_sample(void *context, int task, int thread) {
    (void)thread;
    const elementwise_job *job = context;
    const ls_elementwise_attr *attr = job->attr;
    int64_t first, end;
    sample_range(job, task, &first, &end);
    const uint64_t first_number = (job->micro->position + (uint64_t)task) * (uint64_t)(end - first);
    for (int64_t i = first; i < end; i++) {
        uint32_t word = ls_random_word(attr->seed, LS_PURPOSE_DROPOUT, (uint32_t)attr->layer, job->micro->update,
            (first_number + (uint64_t)(i - first)) / (uint64_t)attr->unit);
        store(job, i, ls_unit_float(word) >= attr->p ? load(job, job->a, i) / (1 - (double)attr->p) : 0);
    }
}

void ls_ref_dropout(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    elementwise_job job = { .attr = &plan->desc.attr.elementwise,
        .a = ls_buffer_host(args[LS_DROPOUT_SRC]),
        .out = ls_buffer_host(args[LS_DROPOUT_DST]),
        .micro = ls_buffer_host(args[LS_DROPOUT_MICRO]) };
    ls_ref_run_tasks(plan, dropout_sample, &job, job.attr->shape.n);
}
