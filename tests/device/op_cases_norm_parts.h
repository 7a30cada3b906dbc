// op_cases_norm_parts.h - cases of batch norm cut in two at its sums (op_norm.h), as over several ranks.
#ifndef TESTS_DEVICE_OP_CASES_NORM_PARTS_H
#define TESTS_DEVICE_OP_CASES_NORM_PARTS_H

#include "op_cases.h"

enum { PARTS_RANKS = 3 }; // the sums that the second halves are given are of so many ranks

// Sums of both kinds are of terms of at most 16 in size (squares about a pixel's value at the other end of the range).
static inline void norm_sums_case(const char *name, ls_norm_attr a, case_visit *visit, void *context) {
    op_case *c = case_new(LS_OP_NORM_SUMS, a.storage, name, "");
    c->desc.attr.norm = a;
    fill_spread(c, case_activation(c, LS_NORM_SUMS_SRC, USE_IN, a.shape, 0));
    case_sums(c, LS_NORM_SUMS_SUMS, USE_OUT, a.shape.c, 16 * sum_tolerance((double)a.shape.n * a.shape.h * a.shape.w));
    visit_and_free(visit, context, c);
}

static inline void norm_apply_case(const char *name, ls_norm_attr a, int again, case_visit *visit, void *context) {
    char variant[64];
    norm_variant(variant, again ? " again" : "", &a);
    op_case *c = case_new(LS_OP_NORM_APPLY, a.storage, name, variant);
    c->desc.attr.norm = a;
    case_activation(c, LS_NORM_FORWARD_SRC, USE_IN, a.shape, 0);
    if (a.residual) case_activation(c, LS_NORM_FORWARD_RESIDUAL, USE_IN, a.shape, 0);
    fill_uniform(c, case_vector(c, LS_NORM_FORWARD_GAMMA, USE_IN, a.shape.c, 0), -1.5F, 1.5F);
    case_vector(c, LS_NORM_FORWARD_BETA, USE_IN, a.shape.c, 0);
    double *sums = case_sums(c, LS_NORM_APPLY_SUMS, USE_IN, a.shape.c, 0)->host;
    double count = PARTS_RANKS * (double)a.shape.n * a.shape.h * a.shape.w;
    for (int k = 0; k < a.shape.c; k++) { // of a mean within 1, a variance around 1
        double mean = (double)case_random(c), var = 1 + 0.5 * (double)case_random(c);
        sums[k] = mean * count;
        sums[a.shape.c + k] = (var + mean * mean) * count;
    }
    sums[2 * a.shape.c] = count;
    double tolerance = norm_tolerance(1);
    case_param(c, LS_NORM_FORWARD_SAVED, ARG_SAVED, USE_OUT, vector_shape(a.shape.c), tolerance);
    if (!again) case_vector(c, LS_NORM_FORWARD_SUM_MEAN, USE_UPDATE, a.shape.c, tolerance);
    if (!again) case_vector(c, LS_NORM_FORWARD_SUM_VAR, USE_UPDATE, a.shape.c, tolerance);
    case_activation(c, LS_NORM_FORWARD_DST, USE_OUT, a.pool_kernel ? a.pooled : a.shape, tolerance);
    if (a.pool_kernel) case_set(c, LS_NORM_FORWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1);
    visit_and_free(visit, context, c);
}

// How many gradients an element can be given.
static inline double norm_windows(const ls_norm_attr *a) {
    double steps = a->pool_kernel ? ceil((double)a->pool_kernel / a->pool_stride) : 1;
    return steps * steps;
}

// Whether y is computed again from src: with relu where nothing was added.
static inline int norm_part_again(const ls_norm_attr *a) {
    return a->activation > LS_ACTIVATION_RELU ||
           (a->activation == LS_ACTIVATION_RELU && !a->residual && !a->pool_kernel);
}

// What both halves read. A pooling's index is made by a
// forward run: op_harness.h.
static inline void norm_backward_inputs(op_case *c) {
    const ls_norm_attr *a = &c->desc.attr.norm;
    ls_nchw dst_shape = a->pool_kernel ? a->pooled : a->shape;
    op_arg *src = case_activation(c, LS_NORM_BACKWARD_SRC, USE_IN, a->shape, 0);
    a->pool_kernel ? fill_steps(c, src) : fill_spread(c, src);
    if (a->activation == LS_ACTIVATION_RELU && !a->pool_kernel) {
        op_arg *dst = case_activation(c, LS_NORM_BACKWARD_DST, USE_IN, a->shape, 0);
        float *values = dst->host; // as a ReLU leaves them: exact zeros and positive values
        for (size_t i = 0; i < dst->count; i++) values[i] = values[i] > 0 ? values[i] : 0;
    }
    case_activation(c, LS_NORM_BACKWARD_GRAD_DST, USE_IN, dst_shape, 0);
    if (a->two_grads) case_activation(c, LS_NORM_BACKWARD_GRAD_DST2, USE_IN, dst_shape, 0);
    if (a->activation > LS_ACTIVATION_RELU) case_vector(c, LS_NORM_BACKWARD_BETA, USE_IN, a->shape.c, 0);
    float *saved = case_param(c, LS_NORM_BACKWARD_SAVED, ARG_SAVED, USE_IN, vector_shape(a->shape.c), 0)->host;
    for (int k = 0; k < a->shape.c; k++) saved[a->shape.c + k] = 0.9F + 0.2F * saved[a->shape.c + k];
    if (norm_part_again(a)) fill_uniform(c, case_vector(c, LS_NORM_BACKWARD_GAMMA, USE_IN, a->shape.c, 0), -1.5F, 1.5F);
    if (norm_part_again(a) && a->activation == LS_ACTIVATION_RELU) norm_relu_of_src(c, a, 1.5 * 1.1);
    if (!a->pool_kernel) return;
    case_set(c, LS_NORM_BACKWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1);
    c->pool_src = case_memory(src->count * sizeof(float));
    for (size_t i = 0; i < src->count; i++) c->pool_src[i] = floorf(4 * case_random(c)) / 4;
}
static inline void norm_backward_sums_case(const char *name, ls_norm_attr a, case_visit *visit, void *context) {
    char variant[64];
    norm_variant(variant, "", &a);
    op_case *c = case_new(LS_OP_NORM_BACKWARD_SUMS, a.storage, name, variant);
    c->desc.attr.norm = a;
    norm_backward_inputs(c);
    // terms are up to 2 (two gradients) times 2.9 (normalised values)
    double terms = (double)a.shape.n * a.shape.h * a.shape.w + 1, windows = norm_windows(&a);
    case_vector(c, LS_NORM_BACKWARD_GRAD_GAMMA, USE_UPDATE, a.shape.c, 6 * windows * sum_tolerance(terms));
    case_vector(c, LS_NORM_BACKWARD_GRAD_BETA, USE_UPDATE, a.shape.c, 2 * windows * sum_tolerance(terms));
    case_sums(c, LS_NORM_BACKWARD_SUMS_SUMS, USE_OUT, a.shape.c, 6 * windows * sum_tolerance(terms));
    visit_and_free(visit, context, c);
}

static inline void norm_backward_apply_case(const char *name, ls_norm_attr a, case_visit *visit, void *context) {
    char variant[64];
    norm_variant(variant, "", &a);
    op_case *c = case_new(LS_OP_NORM_BACKWARD_APPLY, a.storage, name, variant);
    c->desc.attr.norm = a;
    norm_backward_inputs(c);
    if (!norm_part_again(&a))
        fill_uniform(c, case_vector(c, LS_NORM_BACKWARD_GAMMA, USE_IN, a.shape.c, 0), -1.5F, 1.5F);
    double *sums = case_sums(c, LS_NORM_BACKWARD_APPLY_SUMS, USE_IN, a.shape.c, 0)->host;
    double count = PARTS_RANKS * (double)a.shape.n * a.shape.h * a.shape.w;
    for (int k = 0; k < 2 * a.shape.c; k++) sums[k] = (double)case_random(c) * count;
    sums[2 * a.shape.c] = count;
    case_activation(c, LS_NORM_BACKWARD_GRAD_SRC, USE_OUT, a.shape, 2 * norm_windows(&a) * norm_tolerance(1));
    if (a.residual) case_activation(c, LS_NORM_BACKWARD_GRAD_RESIDUAL, USE_OUT, a.shape, norm_windows(&a) * EPS32);
    visit_and_free(visit, context, c);
}

static inline void norm_part_cases_of(const char *name, ls_norm_attr a, case_visit *visit, void *context) {
    if (!a.two_grads && !a.residual && !a.activation) norm_sums_case(name, a, visit, context);
    if (!a.two_grads) norm_apply_case(name, a, 0, visit, context);
    if (!a.two_grads && a.activation) norm_apply_case(name, a, 1, visit, context);
    if (!a.residual) norm_backward_sums_case(name, a, visit, context); // it does not look at residual
    norm_backward_apply_case(name, a, visit, context);
}

// The halves run the kernels of the whole, which every shape has been through: a row of each kind.
static inline void norm_part_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof norm_rows / sizeof *norm_rows; i++) {
        if (!strncmp(norm_rows[i].name, "resnet", 6)) continue;
        for (int flags = 0; flags < NORM_FLAGS; flags++) {
            ls_norm_attr a = norm_attr(i, flags, storage);
            norm_part_cases_of(norm_rows[i].name, a, visit, context);
            if (flags != 3) continue; // relu and residual
            a.adds_last = 1;
            norm_apply_case(norm_rows[i].name, a, 0, visit, context);
        }
    }
    for (size_t i = 0; i < sizeof norm_pool_rows / sizeof *norm_pool_rows; i++) {
        for (int flags = 0; flags < 4; flags++) {
            ls_norm_attr a = norm_pool_attr(i, flags, storage);
            if (a.shape.c < 128) norm_part_cases_of(norm_pool_rows[i].name, a, visit, context);
        }
    }
}

#endif
