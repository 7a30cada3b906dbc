#include "device/ref/ref.h"

#include <math.h>
#include <string.h>

static double fixed_scale(const ls_plan *plan, const ls_train_state *state) {
    const ls_flat_attr *a = &plan->desc.attr.flat;
    return a->unscaled ? 1 : (double)LS_GRADIENT_SCALE(state, a->mean_of);
}

void ls_ref_take_window(const ls_buffer *args) {
    const ls_train_state *state = ls_buffer_host(args[LS_UPDATE_BEGIN_STATE]);
    const char *windows = ls_buffer_host(args[LS_UPDATE_BEGIN_WINDOWS]);
    memcpy(ls_buffer_host(args[LS_UPDATE_BEGIN_WINDOW]), windows + (ptrdiff_t)state->record * LS_RECORD_BYTES,
        sizeof(ls_update_input));
    memset(ls_buffer_host(args[LS_UPDATE_BEGIN_RESULT]), 0, sizeof(ls_micro_result));
}

void ls_ref_update_begin(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    ls_ref_take_window(args);
    memset(ls_buffer_host(args[LS_UPDATE_BEGIN_SUMS]), 0, (size_t)plan->desc.attr.flat.count * sizeof(float));
}

void ls_ref_to_fixed_point(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const float *grad = ls_buffer_host(args[LS_TO_FIXED_POINT_GRAD]);
    ls_train_state *state = ls_buffer_host(args[LS_TO_FIXED_POINT_STATE]);
    int64_t *fixed = ls_buffer_host(args[LS_TO_FIXED_POINT_FIXED]);
    double scale = fixed_scale(plan, state), limit = ldexp(1, 62 - LS_FIXED_RANK_BITS);
    for (int64_t i = 0; i < a->count; i++) {
        double term = nearbyint(ldexp((double)grad[i], a->fraction_bits) / scale);
        if (fabs(term) < limit) { // false for NaN
            fixed[i] += (int64_t)term;
        } else {
            int32_t number = (int32_t)(a->first + i) + 1;
            if (number > state->bad_gradient) state->bad_gradient = number;
        }
    }
}

void ls_ref_from_fixed_point(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const int64_t *fixed = ls_buffer_host(args[LS_FROM_FIXED_POINT_FIXED]);
    double scale = fixed_scale(plan, ls_buffer_host(args[LS_FROM_FIXED_POINT_STATE]));
    float *grad = ls_buffer_host(args[LS_FROM_FIXED_POINT_GRAD]);
    for (int64_t i = 0; i < a->count; i++) grad[i] = (float)(ldexp((double)fixed[i], -a->fraction_bits) * scale);
}

void ls_ref_add_rounded(void *rounded, ls_dtype storage, int64_t count, float *grad) {
    for (int64_t i = 0; i < count; i++) grad[i] += ls_load_float(rounded, storage, i);
    memset(rounded, 0, (size_t)count * ls_dtype_bytes(storage));
}

static ls_ref_gradient gradient_of(const float *grad, int64_t count) {
    ls_ref_gradient all = { 0, 0, -1 };
    for (int64_t i = 0; i < count; i++) {
        all.squares += (double)grad[i] * (double)grad[i];
        if (isfinite(grad[i])) continue;
        all.bad++;
        all.last = i;
    }
    return all;
}

// Whether no later update can help. Without a dynamic loss scale, every skip is such a case. With one: too many skips
// in a row, or a skip at the minimum scale (at_floor) after another skip.
static int is_lost(const ls_step_control_attr *a, const ls_train_state *state, int at_floor) {
    if (!state->skip) return 0;
    if (!a->dynamic || state->skipped_in_row >= a->max_skips) return 1;
    return state->skipped_in_row > 1 && at_floor;
}

static void move_loss_scale(const ls_step_control_attr *a, ls_train_state *state) {
    if (state->skip) {
        state->finite_in_row = 0;
        if (a->dynamic) state->loss_scale = fmaxf(state->loss_scale * a->backoff, a->minimum);
    } else if (a->dynamic && ++state->finite_in_row >= a->growth_interval) {
        state->loss_scale = fminf(state->loss_scale * a->growth, a->maximum);
        state->finite_in_row = 0;
    }
}

static void decide(
    const ls_step_control_attr *a, const ls_update_input *window, ls_ref_gradient gradient, ls_train_state *state) {
    if (state->halted) return; // skip stays 1
    const int64_t last = state->bad_gradient - 1;
    double multiplier = 1 / ((double)LS_GRADIENT_SCALE(state, a->mean_of) * window->samples);
    double norm = sqrt(gradient.squares) * multiplier;
    if (a->clip_norm > 0) multiplier *= fmin(1, (double)a->clip_norm / (norm + 1e-6));
    state->skip = gradient.bad > 0 || state->bad_gradient;
    state->bad_gradient = 0;
    state->bad_element = last > gradient.last ? last : gradient.last;
    memcpy(state->lr, window->lr, sizeof state->lr);
    state->renormalise = window->renormalise;
    state->micro_batches = (float)window->micro_batches;
    state->rates_over = window->rates_over;
    state->multiplier = (float)multiplier;
    state->grad_norm = (float)norm;
    state->applied += !state->skip;
    state->skipped += state->skip;
    state->skipped_in_row = state->skip ? state->skipped_in_row + 1 : 0;
    int at_floor = state->loss_scale <= a->minimum;
    move_loss_scale(a, state);
    state->halted = is_lost(a, state, at_floor);
}

void ls_ref_control(const ls_plan *plan, const ls_buffer *args, ls_ref_gradient gradient) {
    const ls_step_control_attr *a = &plan->desc.attr.step_control;
    ls_train_state *state = ls_buffer_host(args[LS_STEP_CONTROL_STATE]);
    decide(a, ls_buffer_host(args[LS_STEP_CONTROL_WINDOW]), gradient, state);
    if (!a->records) return;
    char *reports = ls_buffer_host(args[LS_STEP_CONTROL_REPORTS]);
    memcpy(reports + (ptrdiff_t)state->record * LS_REPORT_BYTES, state, LS_REPORT_BYTES);
    state->record = (state->record + 1) % a->records;
}

void ls_ref_step_control(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_step_control_attr *a = &plan->desc.attr.step_control;
    float *grad = ls_buffer_host(args[LS_STEP_CONTROL_GRAD]);
    if (a->storage != LS_F32)
        ls_ref_add_rounded(ls_buffer_host(args[LS_STEP_CONTROL_ROUNDED]), a->storage, a->count, grad);
    ls_ref_control(plan, args, gradient_of(grad, a->count));
}

// --- optimizers ----------------------------------------------------------------------------------

typedef struct {
    double lr, decay, momentum, beta1, beta2, eps;
    double correction1, correction2; // 1 - beta1^t, 1 - beta2^t
    int nesterov, first;
} step_constants;

// Returns the new weight of one element. kept: values that the optimizer keeps for it; updated. g: the mean's gradient.
typedef double step_formula(const step_constants *c, double g, double w, double *kept);

static double sgd(const step_constants *c, double g, double w, double *kept) {
    g += c->decay * w;
    kept[0] = c->first ? g : c->momentum * kept[0] + g;
    return w - c->lr * (c->nesterov ? g + c->momentum * kept[0] : kept[0]);
}

static double adamw(const step_constants *c, double g, double w, double *kept) {
    kept[0] = c->beta1 * kept[0] + (1 - c->beta1) * g;
    kept[1] = c->beta2 * kept[1] + (1 - c->beta2) * g * g;
    return w * (1 - c->lr * c->decay) - c->lr * (kept[0] / c->correction1) / (sqrt(kept[1] / c->correction2) + c->eps);
}

static double rmsprop(const step_constants *c, double g, double w, double *kept) {
    g += c->decay * w;
    kept[0] = c->beta2 * kept[0] + (1 - c->beta2) * g * g;
    kept[1] = c->momentum * kept[1] + g / (sqrt(kept[0]) + c->eps);
    return w - c->lr * kept[1];
}

static double lion(const step_constants *c, double g, double w, double *kept) {
    const double direction = c->beta1 * kept[0] + (1 - c->beta1) * g;
    kept[0] = c->beta2 * kept[0] + (1 - c->beta2) * g;
    return w * (1 - c->lr * c->decay) - c->lr * ((direction > 0) - (direction < 0));
}

static step_constants constants_of(
    const ls_optimizer_attr *a, const ls_step_segment *segment, const ls_train_state *state) {
    return (step_constants){ .lr = (double)state->lr[segment->rate] * (double)segment->lr_factor,
        .decay = (double)segment->decay,
        .momentum = (double)segment->momentum,
        .beta1 = a->beta1,
        .beta2 = a->beta2,
        .eps = (double)a->eps,
        .correction1 = 1 - pow(a->beta1, (double)state->applied),
        .correction2 = 1 - pow(a->beta2, (double)state->applied),
        .nesterov = a->nesterov,
        .first = state->applied == 1 };
}

// LARS: the trust ratio of one tensor.
static double trust_of(const ls_optimizer_attr *a, const ls_step_segment *segment, const ls_train_state *state,
    const float *grad, const float *weight) {
    double grads = 0, weights = 0;
    for (int64_t i = 0; i < segment->count; i++) {
        grads += (double)grad[i] * (double)grad[i];
        weights += (double)weight[i] * (double)weight[i];
    }
    if (grads == 0 || weights == 0) return 1;
    const double norm = sqrt(weights), grad_norm = sqrt(grads) * (double)state->multiplier;
    return (double)a->trust * norm / (grad_norm + (double)segment->decay * norm + (double)a->eps);
}

void ls_ref_move_statistics(
    const ls_step_segment *segment, const ls_train_state *state, const float *sum, float *running) {
    const double share = (double)segment->momentum, micro_batches = (double)state->micro_batches;
    if (micro_batches == 0 || LS_STATISTICS_REST(segment->rests_with, state)) return;
    for (int64_t i = 0; i < segment->count; i++)
        running[i] = (float)((1 - share) * (double)running[i] + share * ((double)sum[i] / micro_batches));
}

static void run_step(const ls_plan *plan, const ls_buffer *args, step_formula *formula) {
    const ls_optimizer_attr *a = &plan->desc.attr.optimizer;
    const ls_train_state *state = ls_buffer_host(args[LS_STEP_STATE]);
    const int kept_count = ls_op_args(plan->desc.op) - LS_STEP_OTHER_ARGS;
    const float *grad = ls_buffer_host(args[LS_STEP_GRAD]);
    float *weight = ls_buffer_host(args[LS_STEP_KEPT + kept_count]), *kept[LS_STEP_KEPT_MAX];
    void *copy = a->storage == LS_F32 ? NULL : ls_buffer_host(args[LS_STEP_KEPT + kept_count + 1]);
    for (int k = 0; k < kept_count; k++) kept[k] = ls_buffer_host(args[LS_STEP_KEPT + k]);
    if (state->skip) return;
    int64_t i = 0, end = 0;
    for (int s = 0; s < a->segment_count; s++) {
        end += a->segments[s].count;
        if (a->segments[s].rate == LS_SEGMENT_STATISTICS)
            ls_ref_move_statistics(&a->segments[s], state, grad + i, weight + i);
        if (a->segments[s].rate < 0) {
            i = end;
            continue;
        }
        const double trust =
            plan->desc.op == LS_OP_LARS ? trust_of(a, &a->segments[s], state, grad + i, weight + i) : 1;
        step_constants constants = constants_of(a, &a->segments[s], state);
        constants.decay *= trust;
        for (; i < end; i++) {
            double values[LS_STEP_KEPT_MAX];
            for (int k = 0; k < kept_count; k++) values[k] = (double)kept[k][i];
            weight[i] = (float)formula(
                &constants, (double)grad[i] * (double)state->multiplier * trust, (double)weight[i], values);
            for (int k = 0; k < kept_count; k++) kept[k][i] = (float)values[k];
            if (copy) ls_store_float(copy, a->storage, i, weight[i]);
        }
    }
}

#define STEP(NAME, name, text, flops) \
    void ls_ref_##name(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) { \
        (void)workspace_buffer; \
        (void)queue; \
        run_step(plan, args, name); \
    }
#include "device/ops.def"

void ls_ref_lars(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    run_step(plan, args, sgd);
}

// --- other operators -----------------------------------------------------------------------------

void ls_ref_average(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const ls_train_state *state = ls_buffer_host(args[LS_AVERAGE_STATE]);
    const double decay = ((const ls_update_input *)ls_buffer_host(args[LS_AVERAGE_WINDOW]))->average_decay;
    float *average = ls_buffer_host(args[LS_AVERAGE_AVERAGE]), *weight = ls_buffer_host(args[LS_AVERAGE_WEIGHT]);
    if (state->halted) return;
    for (int64_t i = 0; i < a->count; i++) {
        average[i] = (float)(decay * (double)average[i] + (1 - decay) * (double)weight[i]);
        if (a->write_back) weight[i] = average[i];
    }
}

void ls_ref_cast(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const float *src = ls_buffer_host(args[LS_CAST_SRC]);
    void *dst = ls_buffer_host(args[LS_CAST_DST]);
    for (int64_t i = 0; i < a->count; i++) ls_store_float(dst, a->storage, i, src[i]);
}

void ls_ref_cast_to_f32(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const void *src = ls_buffer_host(args[LS_CAST_TO_F32_SRC]);
    float *dst = ls_buffer_host(args[LS_CAST_TO_F32_DST]);
    for (int64_t i = 0; i < a->count; i++) dst[i] = ls_load_float(src, a->storage, i);
}

void ls_ref_widen(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    ls_ref_add_rounded(
        ls_buffer_host(args[LS_WIDEN_ROUNDED]), a->storage, a->count, ls_buffer_host(args[LS_WIDEN_GRAD]));
}
