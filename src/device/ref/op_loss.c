#include "device/ref/ref.h"

#include <math.h>

typedef struct {
    const ls_loss_attr *attr;
    const void *logits;
    const double *made;   // head: the sample's logits before rounding; else NULL
    const float *weights; // class weights; NULL: all are 1
    const uint8_t *sets;  // rows of labels; NULL: a label is a class
    int label, partner;
    double mix;          // share of the partner's target
    int64_t first;       // index of the sample's first logit
    double max, log_sum; // log(sum(exp(logit))) = max + log_sum
} loss_row;

static double scale_of(const ls_loss_attr *attr) {
    return attr->scale != 0 ? (double)attr->scale : 1;
}

static double logit(const loss_row *row, int k) {
    const double raw =
        row->made ? row->made[k] : (double)ls_load_float(row->logits, row->attr->storage, row->first + k);
    return scale_of(row->attr) * raw;
}

// Whether a picture with this label has class k.
static int has_class(const loss_row *row, int label, int k) {
    return row->sets ? row->sets[(int64_t)label * row->attr->logits.c + k] : k == label;
}

static double target(const loss_row *row, int k) {
    double smoothing = (double)row->attr->smoothing;
    double hard = (1 - row->mix) * has_class(row, row->label, k) + row->mix * has_class(row, row->partner, k);
    double target = (1 - smoothing) * hard + smoothing / (row->sets ? 2 : row->attr->logits.c);
    return row->weights && !row->sets ? target * (double)row->weights[k] : target;
}

// f(p) and s(p) of a probability, whose rest is q = 1 - p.
typedef struct {
    double loss, slope;
} focal;

static focal focal_of(double log_p, double q, double gamma) {
    if (gamma == 0) return (focal){ -log_p, 1 };
    const double factor = pow(q, gamma), ratio = q > 0 ? -log_p / q : 1; // the ratio goes to 1 with q to 0
    return (focal){ factor * -log_p, factor * (1 + gamma * exp(log_p) * ratio) };
}

static double log_p_of(const loss_row *row, int k) {
    return logit(row, k) - row->max - row->log_sum;
}

static focal softmax_focal(const loss_row *row, int k) {
    const double log_p = log_p_of(row, k);
    return focal_of(log_p, -expm1(log_p), (double)row->attr->focal_gamma);
}

// The sum of the targets, each times its slope. Without weights and gamma it is 1.
static double target_sum(const loss_row *row) {
    double sum = 0;
    if (!row->weights && row->attr->focal_gamma == 0) return 1;
    for (int k = 0; k < row->attr->logits.c; k++)
        if (target(row, k) > 0) sum += target(row, k) * softmax_focal(row, k).slope;
    return sum;
}

static int find_maximum(loss_row *row) { // returns the argmax; the lowest index wins a tie
    int best = 0, classes = row->attr->logits.c;
    for (int k = 1; k < classes; k++) {
        if (logit(row, k) > logit(row, best)) best = k;
    }
    row->max = logit(row, best);
    double sum = 0;
    for (int k = 0; k < classes; k++) sum += exp(logit(row, k) - row->max);
    row->log_sum = log(sum);
    return best;
}

static double row_loss(const loss_row *row) {
    double loss = 0;
    for (int k = 0; k < row->attr->logits.c; k++) {
        double t = target(row, k); // skipping a target of 0 avoids 0 * infinity where log p is infinite
        if (t > 0) loss += t * softmax_focal(row, k).loss;
    }
    return loss;
}

static void row_gradient(const loss_row *row, double *grad) {
    const double all = target_sum(row);
    for (int k = 0; k < row->attr->logits.c; k++) {
        const double t = target(row, k);
        grad[k] = exp(log_p_of(row, k)) * all - (t > 0 ? t * softmax_focal(row, k).slope : 0);
    }
}

// --- several labels

// log(sigmoid(z))
static double log_sigmoid(double z) {
    return (z < 0 ? z : 0) - log1p(exp(-fabs(z)));
}

// Returns the loss of one class, and its derivative by the logit.
static focal class_loss(const loss_row *row, int k) {
    const double z = logit(row, k), t = target(row, k), p = exp(log_sigmoid(z)), q = exp(log_sigmoid(-z));
    const double gamma = (double)row->attr->focal_gamma, weight = row->weights ? (double)row->weights[k] : 1;
    const focal yes = focal_of(log_sigmoid(z), q, gamma), no = focal_of(log_sigmoid(-z), p, gamma);
    focal sum = { isnan(z) ? NAN : 0, 0 };
    if (weight * t > 0) sum = (focal){ sum.loss + weight * t * yes.loss, -weight * t * q * yes.slope };
    if (t < 1) sum = (focal){ sum.loss + (1 - t) * no.loss, sum.slope + (1 - t) * p * no.slope };
    return (focal){ sum.loss / row->attr->logits.c, sum.slope / row->attr->logits.c };
}

// Returns whether all labels are right. grad may be NULL.
static int several_labels(const loss_row *row, double *loss, double *grad) {
    int right = 1;
    *loss = 0;
    for (int k = 0; k < row->attr->logits.c; k++) {
        const focal one = class_loss(row, k);
        *loss += one.loss;
        if (grad) grad[k] = one.slope;
        right &= (logit(row, k) > 0) == has_class(row, row->label, k);
    }
    return right;
}

// Arguments that both operators share.
typedef struct {
    const ls_loss_attr *attr;
    const int32_t *labels;
    const ls_augment_sample *samples; // NULL: targets are not mixed
    const float *weights;
    const uint8_t *sets;
    const ls_train_state *state;
    const void *logits;
    int count;
    double loss; // sum over the samples so far
    ls_micro_result *result;
} loss_job;

static loss_job job_of(const ls_plan *plan, const ls_buffer *args) {
    const ls_loss_attr *a = &plan->desc.attr.loss;
    const ls_micro_input *micro = ls_buffer_host(args[LS_LOSS_MICRO]);
    loss_job job = { .attr = a,
        .labels = ls_buffer_host(args[LS_LOSS_LABELS]),
        .samples = a->mixed ? ls_buffer_host(args[LS_LOSS_SAMPLE]) : NULL,
        .weights = a->weighted ? ls_buffer_host(args[LS_LOSS_WEIGHTS]) : NULL,
        .sets = a->several ? ls_buffer_host(args[LS_LOSS_SETS]) : NULL,
        .state = ls_buffer_host(args[LS_LOSS_STATE]),
        .logits = ls_buffer_host(args[LS_LOSS_LOGITS]),
        .count = micro->count,
        .result = ls_buffer_host(args[LS_LOSS_RESULT]) };
    job.result->count += job.count;
    return job;
}

// Adds the loss of sample n to the job and counts it in the results. made: as in loss_row. grad: receives the gradient;
// may be NULL. For a sample that does not count (n >= count), only sets grad to 0.
static void one_row(loss_job *job, int n, const double *made, double *grad) {
    const ls_loss_attr *a = job->attr;
    const int classes = a->logits.c;
    for (int k = 0; grad && k < classes; k++) grad[k] = 0;
    if (n >= job->count) return;
    loss_row row = { .attr = a,
        .logits = job->logits,
        .made = made,
        .weights = job->weights,
        .sets = job->sets,
        .first = (int64_t)n * classes,
        .label = job->labels[n] };
    row.partner = job->samples ? job->labels[a->logits.n - 1 - n] : row.label;
    row.mix = job->samples ? job->samples[n].mix / 65536.0 : 0;
    const double share = 1 - (double)a->teacher_share; // the part without a teacher
    double loss;
    int is_right;
    if (row.sets) {
        is_right = several_labels(&row, &loss, grad);
    } else {
        is_right = find_maximum(&row) == row.label;
        loss = share * row_loss(&row);
        if (grad) row_gradient(&row, grad);
    }
    job->loss += loss;
    job->result->correct += is_right;
    job->result->bad += !isfinite(loss);
    for (int k = 0; grad && k < classes; k++)
        grad[k] =
            isfinite(loss) ? share * grad[k] * (double)LS_GRADIENT_SCALE(job->state, a->mean_of) * scale_of(a) : NAN;
}

static void store_row(void *to, const ls_loss_attr *a, int n, const double *values) {
    const int classes = a->logits.c;
    for (int k = 0; k < classes; k++) ls_store_float(to, a->storage, (int64_t)n * classes + k, (float)values[k]);
}

void ls_ref_loss(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    loss_job job = job_of(plan, args);
    double *grad = job.attr->training ? ls_buffer_host(workspace) : NULL;
    for (int n = 0; n < job.attr->logits.n; n++) {
        one_row(&job, n, NULL, grad);
        if (grad) store_row(ls_buffer_host(args[LS_LOSS_GRAD_LOGITS]), job.attr, n, grad);
    }
    job.result->loss_sum += LS_LOSS_STEP(job.loss);
}

// --- head: pooled channels of a sample with their winners, logits and gradients, as doubles ------------

size_t ls_ref_loss_workspace(const ls_op_desc *desc) {
    const ls_loss_attr *a = &desc->attr.loss;
    const int channels = desc->op == LS_OP_HEAD ? 2 * a->src.c : 0;
    return (size_t)(channels + 2 * a->logits.c) * sizeof(double);
}

// Returns the pooled value. winner: number of the pixel that won.
static double pool_channel(const ls_loss_attr *a, const void *src, int64_t first, int pixels, double *winner) {
    double sum = 0, best = -INFINITY;
    *winner = 0;
    for (int p = 0; p < pixels; p++) {
        const double value = (double)ls_load_float(src, a->storage, first + p);
        sum += value;
        if (!(value > best) && !isnan(value)) continue;
        best = value;
        *winner = p;
    }
    return a->max_pool ? best : sum / pixels;
}

static void head_forward(
    const ls_loss_attr *a, const ls_buffer *args, int n, double *pooled, double *winners, double *logits) {
    const int channels = a->src.c, pixels = a->src.h * a->src.w;
    const void *src = ls_buffer_host(args[LS_HEAD_SRC]), *weight = ls_buffer_host(args[LS_HEAD_WEIGHT]);
    void *out = ls_buffer_host(args[LS_HEAD_POOLED]);
    unsigned rounded[1];
    for (int c = 0; c < channels; c++) {
        const int64_t at = (int64_t)n * channels + c;
        ls_store_float(rounded, a->storage, 0, (float)pool_channel(a, src, at * pixels, pixels, &winners[c]));
        pooled[c] = (double)ls_load_float(rounded, a->storage, 0);
        if (out) ls_store_float(out, a->storage, at, (float)pooled[c]);
    }
    for (int k = 0; k < a->logits.c; k++) {
        logits[k] = a->has_bias ? (double)ls_load_float(ls_buffer_host(args[LS_HEAD_BIAS]), a->storage, k) : 0;
        for (int c = 0; c < channels; c++)
            logits[k] += pooled[c] * (double)ls_load_float(weight, a->storage, (int64_t)k * channels + c);
    }
}

static void head_backward(
    const ls_loss_attr *a, const ls_buffer *args, int n, const double *grad, const double *winners) {
    const int channels = a->src.c, pixels = a->src.h * a->src.w;
    const void *weight = ls_buffer_host(args[LS_HEAD_WEIGHT]);
    void *grad_src = ls_buffer_host(args[LS_HEAD_GRAD_SRC]);
    for (int c = 0; c < channels; c++) {
        double sum = 0;
        for (int k = 0; k < a->logits.c; k++)
            sum += grad[k] * (double)ls_load_float(weight, a->storage, (int64_t)k * channels + c);
        for (int p = 0; p < pixels; p++) {
            const double own = !a->max_pool ? sum / pixels : p == (int)winners[c] ? sum : 0;
            ls_store_float(grad_src, a->storage, ((int64_t)n * channels + c) * pixels + p, (float)own);
        }
    }
}

void ls_ref_head(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    loss_job job = job_of(plan, args);
    const ls_loss_attr *a = job.attr;
    double *pooled = ls_buffer_host(workspace), *winners = pooled + a->src.c, *logits = winners + a->src.c;
    double *grad = logits + a->logits.c;
    for (int n = 0; n < a->logits.n; n++) {
        head_forward(a, args, n, pooled, winners, logits);
        one_row(&job, n, logits, grad);
        store_row(ls_buffer_host(args[LS_LOSS_LOGITS]), a, n, logits);
        store_row(ls_buffer_host(args[LS_LOSS_GRAD_LOGITS]), a, n, grad);
        head_backward(a, args, n, grad, winners);
    }
    job.result->loss_sum += LS_LOSS_STEP(job.loss);
}
