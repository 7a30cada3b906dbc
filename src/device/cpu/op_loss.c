// op_loss.c - the loss. Tasks are ranges of rows; the losses of the rows are added in order.
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
    const uint8_t *sets;              // rows of labels; NULL: a label is a class
    float all_weights;                // sum of the class weights
    float *grad;                      // NULL: not training
    float scale;                      // factor of the gradient
    double share;                     // factor of the loss: 1 - teacher_share
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
    return (loss_row){ loss, best == is.label };
}

// f(p) and s(p) of op_loss.h for a probability whose rest is q = 1 - p.
typedef struct {
    float loss, slope;
} focal;

static focal focal_of(float log_p, float q, float gamma) {
    if (gamma == 0) return (focal){ -log_p, 1 };
    const float factor = powf(q, gamma), ratio = q > 0 ? -log_p / q : 1; // the ratio goes to 1 with q to 0
    return (focal){ factor * -log_p, factor * (1 + gamma * expf(log_p) * ratio) };
}

// The row of focal cross-entropy.
static loss_row focal_row(const loss_run *run, const float *logits, loss_label is, float *grad) {
    const ls_loss_attr *attr = &run->plan->base.desc.attr.loss;
    const float smoothing = attr->smoothing, gamma = attr->focal_gamma;
    const int classes = attr->logits.c;
    int best = 0;
    float sum = 0, all = 0; // all: sum of the targets times their slopes
    double loss = 0;
    for (int k = 1; k < classes; k++)
        if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < classes; k++) sum += expf(logits[k] - logits[best]);
    const float log_sum = logf(sum);
    for (int pass = 0; pass < (grad ? 2 : 1); pass++)
        for (int k = 0; k < classes; k++) {
            const float log_p = logits[k] - logits[best] - log_sum;
            float target = (1 - smoothing) * ((k == is.label ? 1 - is.mix : 0) + (k == is.partner ? is.mix : 0)) +
                           smoothing / (float)classes;
            if (run->weights) target *= run->weights[k];
            const focal f = target > 0 ? focal_of(log_p, -expm1f(log_p), gamma) : (focal){ 0, 0 };
            if (pass == 0) {
                loss += (double)target * (double)f.loss;
                all += target * f.slope;
            } else {
                grad[k] = (expf(log_p) * all - target * f.slope) * run->scale;
            }
        }
    return (loss_row){ loss, best == is.label };
}

// The row of binary cross-entropy, for pictures with several labels.
static loss_row several_row(const loss_run *run, const float *logits, loss_label is, float *grad) {
    const ls_loss_attr *attr = &run->plan->base.desc.attr.loss;
    const int classes = attr->logits.c;
    const uint8_t *own = run->sets + (int64_t)is.label * classes, *other = run->sets + (int64_t)is.partner * classes;
    loss_row row = { 0, 1 };
    for (int k = 0; k < classes; k++) {
        const float z = logits[k], e = expf(-fabsf(z)), rest = log1pf(e), high = 1 / (1 + e), low = e / (1 + e);
        const float p = z > 0 ? high : low, q = z > 0 ? low : high;
        const float t = (1 - attr->smoothing) * ((1 - is.mix) * own[k] + is.mix * other[k]) + attr->smoothing / 2;
        const float yes = run->weights ? run->weights[k] * t : t, no = 1 - t;
        float slope = 0;
        row.correct &= (z > 0) == own[k];
        if (isnan(z)) row.loss = NAN;
        if (yes > 0) { // skipping a share of 0 avoids 0 * infinity
            const focal f = focal_of(fminf(z, 0) - rest, q, attr->focal_gamma);
            row.loss += (double)yes * (double)f.loss / classes;
            slope -= yes * q * f.slope;
        }
        if (no > 0) {
            const focal f = focal_of(fminf(-z, 0) - rest, p, attr->focal_gamma);
            row.loss += (double)no * (double)f.loss / classes;
            slope += no * p * f.slope;
        }
        if (grad) grad[k] = slope / (float)classes * run->scale;
    }
    return row;
}

static loss_row any_row(const loss_run *run, const float *logits, loss_label is, float *grad) {
    const ls_loss_attr *attr = &run->plan->base.desc.attr.loss;
    const loss_row row = attr->several           ? several_row(run, logits, is, grad)
                         : attr->focal_gamma > 0 ? focal_row(run, logits, is, grad)
                                                 : one_row(run, logits, is, grad);
    for (int k = 0; grad && !isfinite(row.loss) && k < attr->logits.c; k++) grad[k] = NAN;
    return row;
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
            run->rows[n] = any_row(run, run->logits + (size_t)n * (size_t)stride, label_of(run, n), grad);
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
        .sets = attr->several ? ls_buffer_host(args[LS_LOSS_SETS]) : NULL,
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
