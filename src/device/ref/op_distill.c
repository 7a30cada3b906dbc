#include "device/ref/ref.h"

#include <math.h>

typedef struct {
    const ls_distill_attr *attr;
    const void *values; // logits of all samples
    int64_t first;      // index of the sample's first logit
    double max, log_sum;
} soft_row;

// Returns the logarithm of the softened probability of class k.
static double log_of(const soft_row *row, int k) {
    const double z = (double)ls_load_float(row->values, row->attr->storage, row->first + k);
    return (z - row->max) / (double)row->attr->temperature - row->log_sum;
}

static soft_row row_of(const ls_distill_attr *a, const void *values, int n) {
    soft_row row = { .attr = a, .values = values, .first = (int64_t)n * a->logits.c, .max = -INFINITY };
    double max = -INFINITY, sum = 0;
    for (int k = 0; k < a->logits.c; k++) max = fmax(max, (double)ls_load_float(values, a->storage, row.first + k));
    row.max = max;
    for (int k = 0; k < a->logits.c; k++) sum += exp(log_of(&row, k));
    row.log_sum = log(sum);
    return row;
}

static double divergence(const soft_row *p, const soft_row *q) {
    double sum = 0;
    for (int k = 0; k < p->attr->logits.c; k++) {
        const double of_teacher = exp(log_of(q, k)); // skipping 0 avoids 0 * infinity
        if (of_teacher != 0) sum += of_teacher * (log_of(q, k) - log_of(p, k));
    }
    return sum;
}

void ls_ref_distill(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace, (void)queue;
    const ls_distill_attr *a = &plan->desc.attr.distill;
    const ls_micro_input *micro = ls_buffer_host(args[LS_DISTILL_MICRO]);
    const ls_train_state *state = ls_buffer_host(args[LS_DISTILL_STATE]);
    ls_micro_result *result = ls_buffer_host(args[LS_DISTILL_RESULT]);
    void *grad = ls_buffer_host(args[LS_DISTILL_GRAD_LOGITS]);
    const double share = (double)a->share, t = (double)a->temperature;
    double all = 0;
    for (int n = 0; n < micro->count; n++) {
        const soft_row p = row_of(a, ls_buffer_host(args[LS_DISTILL_LOGITS]), n),
                       q = row_of(a, ls_buffer_host(args[LS_DISTILL_TEACHER]), n);
        const double loss = share * t * t * divergence(&p, &q);
        all += loss;
        result->bad += !isfinite(loss) && !isnan(ls_load_float(grad, a->storage, p.first));
        for (int k = 0; k < a->logits.c; k++) {
            const double more =
                share * t * (exp(log_of(&p, k)) - exp(log_of(&q, k))) * (double)LS_GRADIENT_SCALE(state, a->mean_of);
            const double sum = isfinite(loss) ? (double)ls_load_float(grad, a->storage, p.first + k) + more : NAN;
            ls_store_float(grad, a->storage, p.first + k, (float)sum);
        }
    }
    result->loss_sum += LS_LOSS_STEP(all);
}
