// op_distill.c - the teacher's part of the loss. Tasks are ranges of rows; the losses of the rows are added in order.
#include <math.h>
#include "base/half.h"
#include "device/cpu/cpu.h"

enum { ROWS = 16 }; // rows in a task

typedef struct {
    double loss;
    int bad;
} distill_row;

typedef struct {
    const ls_cpu_plan *plan;
    const void *logits, *teacher;
    void *grad;
    float scale; // factor of the gradient
    int count;
    distill_row *rows;
} distill_run;

// A row of logits, softened: the probability of class k is exp((z[k] - max) / temperature) / sum.
typedef struct {
    float max, log_sum;
} soft_row;

static float log_of(const void *logits, const ls_distill_attr *a, size_t at, soft_row row) {
    return (ls_load_float(logits, a->storage, (int64_t)at) - row.max) / a->temperature - row.log_sum;
}

static soft_row soften(const void *logits, const ls_distill_attr *a, size_t first) {
    soft_row row = { -INFINITY, 0 };
    float sum = 0;
    for (int k = 0; k < a->logits.c; k++)
        row.max = fmaxf(row.max, ls_load_float(logits, a->storage, (int64_t)first + k));
    for (int k = 0; k < a->logits.c; k++) sum += expf(log_of(logits, a, first + (size_t)k, row));
    row.log_sum = logf(sum);
    return row;
}

static distill_row one_row(const distill_run *run, size_t first) {
    const ls_distill_attr *a = &run->plan->base.desc.attr.distill;
    const soft_row student = soften(run->logits, a, first), teacher = soften(run->teacher, a, first);
    const int was_bad = isnan(ls_load_float(run->grad, a->storage, (int64_t)first));
    double sum = 0;
    for (size_t at = first; at < first + (size_t)a->logits.c; at++) {
        const float log_p = log_of(run->logits, a, at, student), log_q = log_of(run->teacher, a, at, teacher);
        const float p = expf(log_p), q = expf(log_q);
        if (q != 0) sum += (double)q * (double)(log_q - log_p); // skipping 0 avoids 0 * infinity
        const float before = ls_load_float(run->grad, a->storage, (int64_t)at);
        ls_store_float(run->grad, a->storage, (int64_t)at, before + (p - q) * run->scale);
    }
    const double loss = (double)a->share * (double)a->temperature * (double)a->temperature * sum;
    for (int k = 0; !isfinite(loss) && k < a->logits.c; k++)
        ls_store_float(run->grad, a->storage, (int64_t)first + k, NAN);
    return (distill_row){ loss, !isfinite(loss) && !was_bad };
}

static void distill_task(void *context, int task, int thread) {
    (void)thread;
    const distill_run *run = context;
    const size_t stride = (size_t)ls_cpu_channels(run->plan->cpu, run->plan->base.desc.attr.distill.logits.c);
    for (int n = task * ROWS; n < (task + 1) * ROWS && n < run->count; n++)
        run->rows[n] = one_row(run, (size_t)n * stride);
}

static void distill_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const ls_distill_attr *a = &plan->desc.attr.distill;
    const ls_train_state *state = ls_buffer_host(args[LS_DISTILL_STATE]);
    const ls_micro_input *micro = ls_buffer_host(args[LS_DISTILL_MICRO]);
    ls_micro_result *result = ls_buffer_host(args[LS_DISTILL_RESULT]);
    distill_run run = { .plan = (const ls_cpu_plan *)plan,
        .logits = ls_buffer_host(args[LS_DISTILL_LOGITS]),
        .teacher = ls_buffer_host(args[LS_DISTILL_TEACHER]),
        .grad = ls_buffer_host(args[LS_DISTILL_GRAD_LOGITS]),
        .scale = a->share * a->temperature * LS_GRADIENT_SCALE(state, a->mean_of),
        .count = micro->count,
        .rows = ls_buffer_host(workspace) };
    ls_pool_run(run.plan->cpu->pool, distill_task, &run, (a->logits.n + ROWS - 1) / ROWS);
    double loss = 0;
    for (int n = 0; n < run.count; n++) {
        loss += run.rows[n].loss;
        result->bad += run.rows[n].bad;
    }
    result->loss_sum += LS_LOSS_STEP(loss);
}

ls_status ls_cpu_distill_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    ls_cpu_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, distill_plan_run, "own");
    plan->base.workspace_bytes = (size_t)desc->attr.distill.logits.n * sizeof(distill_row);
    *out = &plan->base;
    return LS_SUCCESS;
}
