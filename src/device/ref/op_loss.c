#include "device/ref/ref.h"

#include <math.h>

typedef struct {
    const ls_loss_attr *attr;
    const void *logits;
    const float *weights; // of classes; NULL: all are 1
    int label, partner;
    double mix;          // the partner's share
    int64_t first;       // element of the sample's first logit
    double max, log_sum; // log(sum(exp(logit))) = max + log_sum
} loss_row;

static double logit(const loss_row *row, int k) {
    return (double)ls_load_float(row->logits, row->attr->storage, row->first + k);
}

static double target(const loss_row *row, int k) {
    double smoothing = (double)row->attr->smoothing;
    double hard = (k == row->label ? 1 - row->mix : 0) + (k == row->partner ? row->mix : 0);
    double target = (1 - smoothing) * hard + smoothing / row->attr->logits.c;
    return row->weights ? target * (double)row->weights[k] : target;
}

static double target_sum(const loss_row *row) {
    double sum = 0;
    for (int k = 0; row->weights && k < row->attr->logits.c; k++) sum += target(row, k);
    return row->weights ? sum : 1;
}

static int find_maximum(loss_row *row) { // argmax; the lowest index wins a tie
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
        double t = target(row, k); // a target of 0 takes no part, even where log p is infinite
        if (t > 0) loss -= t * (logit(row, k) - row->max - row->log_sum);
    }
    return loss;
}

void ls_ref_loss(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_loss_attr *a = &plan->desc.attr.loss;
    const int32_t *labels = ls_buffer_host(args[LS_LOSS_LABELS]);
    const ls_augment_sample *samples = a->mixed ? ls_buffer_host(args[LS_LOSS_SAMPLE]) : NULL;
    const ls_micro_input *micro = ls_buffer_host(args[LS_LOSS_MICRO]);
    const ls_train_state *state = ls_buffer_host(args[LS_LOSS_STATE]);
    ls_micro_result *result = ls_buffer_host(args[LS_LOSS_RESULT]);
    void *grad = a->training ? ls_buffer_host(args[LS_LOSS_GRAD_LOGITS]) : NULL;
    int classes = a->logits.c;
    for (int n = 0; n < a->logits.n; n++) {
        loss_row row = { .attr = a,
            .logits = ls_buffer_host(args[LS_LOSS_LOGITS]),
            .weights = a->weighted ? ls_buffer_host(args[LS_LOSS_WEIGHTS]) : NULL,
            .first = (int64_t)n * classes };
        if (n >= micro->count) {
            for (int k = 0; grad && k < classes; k++) ls_store_float(grad, a->storage, row.first + k, 0);
            continue;
        }
        row.label = labels[n];
        row.partner = samples ? labels[a->logits.n - 1 - n] : row.label;
        row.mix = samples ? samples[n].mix / 65536.0 : 0;
        int best = find_maximum(&row);
        double loss = row_loss(&row), all = target_sum(&row);
        result->loss_sum += loss;
        result->correct += best == row.label;
        result->bad += !isfinite(loss);
        for (int k = 0; grad && k < classes; k++) {
            double p = exp(logit(&row, k) - row.max - row.log_sum),
                   g = (p * all - target(&row, k)) * (double)LS_GRADIENT_SCALE(state, a->mean_of);
            ls_store_float(grad, a->storage, row.first + k, isfinite(loss) ? (float)g : NAN);
        }
    }
    result->count += micro->count;
}
