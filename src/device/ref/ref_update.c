#include "device/ref/ref.h"

#include <math.h>

static double fixed_scale(const ls_plan *plan, const ls_train_state *state) {
    return plan->desc.attr.flat.unscaled ? 1 : (double)state->loss_scale;
}

void ls_ref_grad_fix(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const float *grad = ls_buffer_host(args[LS_GRAD_FIX_GRAD]);
    ls_train_state *state = ls_buffer_host(args[LS_GRAD_FIX_STATE]);
    int64_t *fixed = ls_buffer_host(args[LS_GRAD_FIX_FIXED]);
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

void ls_ref_grad_unfix(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const int64_t *fixed = ls_buffer_host(args[LS_GRAD_UNFIX_FIXED]);
    double scale = fixed_scale(plan, ls_buffer_host(args[LS_GRAD_UNFIX_STATE]));
    float *grad = ls_buffer_host(args[LS_GRAD_UNFIX_GRAD]);
    for (int64_t i = 0; i < a->count; i++) grad[i] = (float)(ldexp((double)fixed[i], -a->fraction_bits) * scale);
}

void ls_ref_grad_stats(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const float *grad = ls_buffer_host(args[LS_GRAD_STATS_GRAD]);
    double *partial = (double *)ls_buffer_host(args[LS_GRAD_STATS_PARTIALS]) + LS_PARTIALS * a->slot;
    double squares = 0, bad = 0, last = -1;
    for (int64_t i = 0; i < a->count; i++) {
        squares += (double)grad[i] * (double)grad[i];
        if (isfinite(grad[i])) continue;
        bad++;
        last = (double)(a->first + i);
    }
    partial[0] = squares;
    partial[1] = bad;
    partial[2] = last;
}

// What no later update can mend: every skip where no loss scale moves; else too many, or one more at the floor.
static int is_lost(const ls_control_attr *a, const ls_train_state *state, int at_floor) {
    if (!state->skip) return 0;
    if (!a->dynamic || state->skipped_in_row >= a->max_skips) return 1;
    return state->skipped_in_row > 1 && at_floor;
}

static void move_loss_scale(const ls_control_attr *a, ls_train_state *state) {
    if (state->skip) {
        state->finite_in_row = 0;
        if (a->dynamic) state->loss_scale = fmaxf(state->loss_scale * a->backoff, a->minimum);
    } else if (a->dynamic && ++state->finite_in_row >= a->growth_interval) {
        state->loss_scale = fminf(state->loss_scale * a->growth, a->maximum);
        state->finite_in_row = 0;
    }
}

void ls_ref_control(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_control_attr *a = &plan->desc.attr.control;
    const ls_window_input *window = ls_buffer_host(args[LS_CONTROL_WINDOW]);
    const double *partials = ls_buffer_host(args[LS_CONTROL_PARTIALS]);
    ls_train_state *state = ls_buffer_host(args[LS_CONTROL_STATE]);
    if (state->halted) return; // with skip = 1
    double squares = 0, bad = 0, last = state->bad_gradient - 1;
    for (int i = 0; i < a->slots; i++) {
        const double *partial = partials + LS_PARTIALS * i;
        squares += partial[0];
        bad += partial[1];
        last = fmax(last, partial[2]);
    }
    double multiplier = 1 / ((double)state->loss_scale * window->samples), norm = sqrt(squares) * multiplier;
    if (a->clip_norm > 0) multiplier *= fmin(1, (double)a->clip_norm / (norm + 1e-6));
    state->skip = bad > 0 || state->bad_gradient;
    state->bad_gradient = 0;
    state->bad_element = (int64_t)last;
    state->lr = window->lr;
    state->multiplier = (float)multiplier;
    state->grad_norm = (float)norm;
    state->applied += !state->skip;
    state->skipped += state->skip;
    state->skipped_in_row = state->skip ? state->skipped_in_row + 1 : 0;
    int at_floor = state->loss_scale <= a->minimum;
    move_loss_scale(a, state);
    state->halted = is_lost(a, state, at_floor);
}

void ls_ref_sgd(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_optimizer_attr *a = &plan->desc.attr.optimizer;
    const ls_train_state *state = ls_buffer_host(args[LS_SGD_STATE]);
    const float *grad = ls_buffer_host(args[LS_SGD_GRAD]);
    float *velocity = ls_buffer_host(args[LS_SGD_MOMENTUM]), *weight = ls_buffer_host(args[LS_SGD_WEIGHT]);
    void *copy = a->storage == LS_F32 ? NULL : ls_buffer_host(args[LS_SGD_COPY]);
    double momentum = (double)a->momentum;
    if (state->skip) return;
    const ls_step_segment *segment = a->segments;
    for (int64_t i = 0, end = segment->count; i < a->count; i++) {
        if (i == end) end += (++segment)->count;
        double lr = (double)state->lr * (double)segment->lr_factor;
        double w = (double)weight[i], g = (double)grad[i] * (double)state->multiplier + (double)segment->decay * w;
        double v = state->applied == 1 ? g : momentum * (double)velocity[i] + g;
        velocity[i] = (float)v;
        weight[i] = (float)(w - lr * (a->nesterov ? g + momentum * v : v));
        if (copy) ls_store_float(copy, a->storage, i, weight[i]);
    }
}

void ls_ref_adamw(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_optimizer_attr *a = &plan->desc.attr.optimizer;
    const ls_train_state *state = ls_buffer_host(args[LS_ADAMW_STATE]);
    const float *grad = ls_buffer_host(args[LS_ADAMW_GRAD]);
    float *moment1 = ls_buffer_host(args[LS_ADAMW_MOMENT1]), *moment2 = ls_buffer_host(args[LS_ADAMW_MOMENT2]);
    float *weight = ls_buffer_host(args[LS_ADAMW_WEIGHT]);
    void *copy = a->storage == LS_F32 ? NULL : ls_buffer_host(args[LS_ADAMW_COPY]);
    double beta1 = (double)a->beta1, beta2 = (double)a->beta2;
    double correction1 = 1 - pow(beta1, (double)state->applied), correction2 = 1 - pow(beta2, (double)state->applied);
    if (state->skip) return;
    const ls_step_segment *segment = a->segments;
    for (int64_t i = 0, end = segment->count; i < a->count; i++) {
        if (i == end) end += (++segment)->count;
        double lr = (double)state->lr * (double)segment->lr_factor;
        double g = (double)grad[i] * (double)state->multiplier;
        double w = (double)weight[i] * (1 - lr * (double)segment->decay);
        double m = beta1 * (double)moment1[i] + (1 - beta1) * g, s = beta2 * (double)moment2[i] + (1 - beta2) * g * g;
        moment1[i] = (float)m;
        moment2[i] = (float)s;
        weight[i] = (float)(w - lr * (m / correction1) / (sqrt(s / correction2) + (double)a->eps));
        if (copy) ls_store_float(copy, a->storage, i, weight[i]);
    }
}

void ls_ref_running_stats(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const ls_window_input *window = ls_buffer_host(args[LS_RUNNING_STATS_WINDOW]);
    const ls_train_state *state = ls_buffer_host(args[LS_RUNNING_STATS_STATE]);
    const float *sum = ls_buffer_host(args[LS_RUNNING_STATS_SUM]);
    float *running = ls_buffer_host(args[LS_RUNNING_STATS_RUNNING]);
    double share = (double)a->share;
    if (state->skip) return;
    for (int64_t i = 0; i < a->count; i++) {
        running[i] = (float)((1 - share) * (double)running[i] + share * ((double)sum[i] / window->micro_batches));
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

void ls_ref_widen(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace_buffer, ls_queue *queue) {
    (void)workspace_buffer;
    (void)queue;
    const ls_flat_attr *a = &plan->desc.attr.flat;
    const void *src = ls_buffer_host(args[LS_WIDEN_SRC]);
    float *dst = ls_buffer_host(args[LS_WIDEN_DST]);
    for (int64_t i = 0; i < a->count; i++) dst[i] = ls_load_float(src, a->storage, i);
}
