// op_loss.c - softmax cross-entropy. Tasks are ranges of rows; the losses of the rows are added in order.
#include <math.h>
#include "device/cpu/cpu.h"

enum { LOSS_ROWS = 16 }; // rows in a task

typedef struct {
    double loss;
    int correct;
} loss_row;

typedef struct {
    int label, partner;
    float mix; // the partner's share
} loss_label;

typedef struct {
    const ls_cpu_plan *plan;
    const float *logits;
    const int32_t *labels;
    const ls_augment_sample *samples; // NULL: targets are not mixed
    const float *weights;             // class weights; NULL: all are 1
    float all_weights;                // sum of the class weights
    float *grad;                      // NULL: not training
    float scale;                      // factor of the gradient
    double share;                     // part of the loss without a teacher
    int count;
    loss_row *rows;
} loss_run;

static loss_label label_of(const loss_run *run, int n) {
    const int label = run->labels[n], last = run->plan->base.desc.attr.loss.logits.n - 1;
    if (!run->samples) return (loss_label){ label, label, 0 };
    return (loss_label){ label, run->labels[last - n], (float)run->samples[n].mix / 65536 };
}

static loss_row one_row(const loss_run *run, const float *logits, loss_label is, float *grad) {
    const ls_loss_attr *attr = &run->plan->base.desc.attr.loss;
    int classes = attr->logits.c, best = 0;
    float spread = attr->smoothing / (float)classes, sum = 0;
    const float of_label = (1 - attr->smoothing) * (1 - is.mix), of_partner = (1 - attr->smoothing) * is.mix;
    for (int k = 1; k < classes; k++)
        if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < classes; k++) sum += expf(logits[k] - logits[best]);
    float log_sum = logf(sum);
    double loss = 0;
    const float *weights = run->weights;
    const float all = weights
                          ? of_label * weights[is.label] + of_partner * weights[is.partner] + spread * run->all_weights
                          : 1; // sum of the targets
    for (int k = 0; k < classes; k++) {
        float log_p = logits[k] - logits[best] - log_sum;
        float target = (k == is.label ? of_label : 0) + (k == is.partner ? of_partner : 0) + spread;
        if (weights) target *= weights[k];
        if (target > 0)
            // skipping a target of 0 avoids 0 * infinity where log p is infinite
            loss -= (double)target * (double)log_p;
        if (grad) grad[k] = (expf(log_p) * all - target) * run->scale;
    }
    loss *= run->share;
    for (int k = 0; grad && !isfinite(loss) && k < classes; k++) grad[k] = NAN;
    return (loss_row){ loss, best == is.label };
}

static void loss_task(void *context, int task, int thread) {
    (void)thread;
    const loss_run *run = context;
    const ls_nchw shape = run->plan->base.desc.attr.loss.logits;
    int stride = ls_cpu_channels(run->plan->cpu, shape.c), end = (task + 1) * LOSS_ROWS;
    for (int n = task * LOSS_ROWS; n < end && n < shape.n; n++) {
        float *grad = run->grad ? run->grad + (size_t)n * (size_t)stride : NULL;
        int from = n < run->count ? shape.c : 0; // the rest is padding, or the sample does not count
        for (int k = from; grad && k < stride; k++) grad[k] = 0;
        if (n < run->count)
            run->rows[n] = one_row(run, run->logits + (size_t)n * (size_t)stride, label_of(run, n), grad);
    }
}

static void loss_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    const ls_loss_attr *attr = &plan->desc.attr.loss;
    const ls_train_state *state = ls_buffer_host(args[LS_LOSS_STATE]);
    const ls_micro_input *micro = ls_buffer_host(args[LS_LOSS_MICRO]);
    ls_micro_result *result = ls_buffer_host(args[LS_LOSS_RESULT]);
    loss_run run = { .plan = (const ls_cpu_plan *)plan,
        .logits = ls_cpu_floats_at(args[LS_LOSS_LOGITS]),
        .labels = ls_buffer_host(args[LS_LOSS_LABELS]),
        .samples = attr->mixed ? ls_buffer_host(args[LS_LOSS_SAMPLE]) : NULL,
        .weights = attr->weighted ? ls_buffer_host(args[LS_LOSS_WEIGHTS]) : NULL,
        .scale = attr->training ? (1 - attr->teacher_share) * LS_GRADIENT_SCALE(state, attr->mean_of) : 1,
        .share = 1 - (double)attr->teacher_share,
        .count = micro->count,
        .rows = ls_buffer_host(workspace) };
    for (int k = 0; run.weights && k < attr->logits.c; k++) run.all_weights += run.weights[k];
    if (attr->training) run.grad = ls_cpu_floats_at(args[LS_LOSS_GRAD_LOGITS]);
    ls_pool_run(run.plan->cpu->pool, loss_task, &run, (attr->logits.n + LOSS_ROWS - 1) / LOSS_ROWS);
    double loss = 0;
    for (int n = 0; n < run.count; n++) {
        loss += run.rows[n].loss;
        result->correct += run.rows[n].correct;
        result->bad += !isfinite(run.rows[n].loss);
    }
    result->loss_sum += LS_LOSS_STEP(loss);
    result->count += run.count;
}

ls_status ls_cpu_loss_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    if (desc->op == LS_OP_HEAD)
        return ls_fail(LS_INTERNAL,
            "layer %s: the cpu device has no head in one operator; LS_FUSES_HEAD is not among its fusions",
            desc->layer);
    ls_cpu_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, loss_plan_run, "own");
    plan->base.workspace_bytes = (size_t)desc->attr.loss.logits.n * sizeof(loss_row);
    *out = &plan->base;
    return LS_SUCCESS;
}
