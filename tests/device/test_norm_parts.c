// Batch norm over several ranks, by its halves (op_norm.h), on every device there is: the parts of a batch, whose sums
// are added in between, give what the whole operator gives on the joined batch; and finite differences on ref.
//
// Tolerances are those of the operator suite for the joined batch (op_cases.h):
// both ways round the same values in another order.
#include "cuda_device.h"
#include "op_harness.h"
#include "widths.h"
#include "support/cmocka.h"

enum { PARTS_MAX = 3, DEVICES_MAX = 5 };

static ls_device *devices[DEVICES_MAX]; // the first one is ref
static int device_count;

static const struct {
    const char *name;
    int channels, h, w, part_count, samples[PARTS_MAX];
    ls_activation activation;
    int residual, two_grads;
} rows[] = {
    { "one rank", 17, 5, 7, 1, { 4 }, LS_ACTIVATION_NONE, 0, 0 },
    { "one rank, all that follows", 20, 6, 5, 1, { 3 }, LS_ACTIVATION_RELU, 1, 1 },
    { "two ranks", 12, 5, 7, 2, { 3, 3 }, LS_ACTIVATION_NONE, 0, 0 },
    { "two ranks, relu", 8, 4, 4, 2, { 4, 4 }, LS_ACTIVATION_RELU, 0, 0 },
    { "two ranks, all that follows", 9, 6, 5, 2, { 2, 2 }, LS_ACTIVATION_RELU, 1, 1 },
    { "a smaller micro-batch", 16, 8, 8, 2, { 7, 2 }, LS_ACTIVATION_RELU, 0, 1 },
    { "three ranks", 33, 3, 3, 3, { 5, 1, 2 }, LS_ACTIVATION_NONE, 1, 0 },
    { "few channels", 3, 9, 9, 2, { 2, 3 }, LS_ACTIVATION_RELU, 1, 0 },
    { "two ranks, gelu", 12, 5, 7, 2, { 4, 3 }, LS_ACTIVATION_GELU, 0, 1 },
    { "few channels, gelu", 3, 4, 4, 3, { 2, 3, 1 }, LS_ACTIVATION_GELU, 0, 0 },
    { "few channels, silu", 3, 4, 4, 3, { 2, 3, 1 }, LS_ACTIVATION_SILU, 0, 1 },
    { "vectors", 40, 1, 1, 2, { 9, 8 }, LS_ACTIVATION_NONE, 0, 0 },
};
enum { ROWS = sizeof rows / sizeof *rows };

// The same batch as one, and in parts. Values per part: of activations the part's own, of channels all.
typedef struct {
    const char *row;
    ls_device *device;
    ls_norm_attr attr; // of the whole
    int part_count, samples[PARTS_MAX];
    op_case *random;
    float *src, *residual, *grad, *grad2, *gamma, *beta; // of the whole; canonical
} batch;

static ls_norm_attr attr_of(const batch *b, int part) { // -1: the whole
    ls_norm_attr a = b->attr;
    if (part >= 0) a.shape.n = b->samples[part];
    return a;
}

// Where the part begins among the elements of an activation.
static size_t start_of(const batch *b, int part) {
    size_t sample = (size_t)(ls_nchw_count(b->attr.shape) / b->attr.shape.n), samples = 0;
    for (int p = 0; p < part; p++) samples += (size_t)b->samples[p];
    return samples * sample;
}

static void give(op_case *c, int at, const float *values) {
    memcpy(c->args[at].host, values, c->args[at].count * sizeof *values);
}

static void give_activation(const batch *b, op_case *c, int at, int part, const float *whole) {
    case_activation(c, at, USE_IN, c->desc.attr.norm.shape, 0);
    give(c, at, whole + start_of(b, part));
}

static void give_vector(op_case *c, int at, const float *values) {
    case_vector(c, at, USE_IN, c->desc.attr.norm.shape.c, 0);
    give(c, at, values);
}

static void give_zeros(op_case *c, int at) {
    op_arg *arg = case_vector(c, at, USE_UPDATE, c->desc.attr.norm.shape.c, 0);
    memset(arg->host, 0, arg->count * sizeof(float));
}

static void give_saved(op_case *c, int at, const double *saved) {
    op_arg *arg = case_param(c, at, ARG_SAVED, USE_IN, vector_shape(c->desc.attr.norm.shape.c), 0);
    for (size_t i = 0; i < arg->count; i++) ((float *)arg->host)[i] = (float)saved[i];
}

static void give_sums(op_case *c, int at, const double *sums) {
    op_arg *arg = case_sums(c, at, USE_IN, c->desc.attr.norm.shape.c, 0);
    memcpy(arg->host, sums, arg->count * sizeof *sums);
}

static op_case *new_case(const batch *b, ls_op op, int part) {
    op_case *c = case_new(op, LS_F32, b->row, "");
    c->desc.attr.norm = attr_of(b, part);
    return c;
}

typedef struct {
    double *value[LS_OP_ARGS_MAX]; // of what the operator writes
} results;

static results run_and_free(const batch *b, op_case *c) {
    results r = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    ls_status status = case_run(b->device, c, r.value, counts);
    if (ls_failed(status)) fail_msg("%s on %s: %s", c->name, b->device->api->name, status.text);
    case_free(c);
    return r;
}

static void results_free(results *r, int count) {
    for (int k = 0; k < count; k++)
        for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(r[k].value[i]);
}

// --- the whole operators, and their halves -------------------------------------------------------

static results whole_forward(const batch *b) {
    op_case *c = new_case(b, LS_OP_NORM_FORWARD, -1);
    give_activation(b, c, LS_NORM_FORWARD_SRC, 0, b->src);
    if (b->attr.residual) give_activation(b, c, LS_NORM_FORWARD_RESIDUAL, 0, b->residual);
    give_vector(c, LS_NORM_FORWARD_GAMMA, b->gamma);
    give_vector(c, LS_NORM_FORWARD_BETA, b->beta);
    case_param(c, LS_NORM_FORWARD_SAVED, ARG_SAVED, USE_OUT, vector_shape(b->attr.shape.c), 0);
    give_zeros(c, LS_NORM_FORWARD_SUM_MEAN);
    give_zeros(c, LS_NORM_FORWARD_SUM_VAR);
    case_activation(c, LS_NORM_FORWARD_DST, USE_OUT, b->attr.shape, 0);
    return run_and_free(b, c);
}

static results whole_backward(const batch *b, const float *dst, const double *saved) {
    op_case *c = new_case(b, LS_OP_NORM_BACKWARD, -1);
    give_activation(b, c, LS_NORM_BACKWARD_SRC, 0, b->src);
    if (b->attr.activation == LS_ACTIVATION_RELU) give_activation(b, c, LS_NORM_BACKWARD_DST, 0, dst);
    give_activation(b, c, LS_NORM_BACKWARD_GRAD_DST, 0, b->grad);
    if (b->attr.two_grads) give_activation(b, c, LS_NORM_BACKWARD_GRAD_DST2, 0, b->grad2);
    give_vector(c, LS_NORM_BACKWARD_GAMMA, b->gamma);
    if (b->attr.activation > LS_ACTIVATION_RELU) give_vector(c, LS_NORM_BACKWARD_BETA, b->beta);
    give_saved(c, LS_NORM_BACKWARD_SAVED, saved);
    case_activation(c, LS_NORM_BACKWARD_GRAD_SRC, USE_OUT, b->attr.shape, 0);
    if (b->attr.residual) case_activation(c, LS_NORM_BACKWARD_GRAD_RESIDUAL, USE_OUT, b->attr.shape, 0);
    give_zeros(c, LS_NORM_BACKWARD_GRAD_GAMMA);
    give_zeros(c, LS_NORM_BACKWARD_GRAD_BETA);
    return run_and_free(b, c);
}

static results sums_of(const batch *b, int part) {
    op_case *c = new_case(b, LS_OP_NORM_SUMS, part);
    give_activation(b, c, LS_NORM_SUMS_SRC, part, b->src);
    case_sums(c, LS_NORM_SUMS_SUMS, USE_OUT, b->attr.shape.c, 0);
    return run_and_free(b, c);
}

static results apply(const batch *b, int part, const double *sums) {
    op_case *c = new_case(b, LS_OP_NORM_APPLY, part);
    give_activation(b, c, LS_NORM_FORWARD_SRC, part, b->src);
    if (b->attr.residual) give_activation(b, c, LS_NORM_FORWARD_RESIDUAL, part, b->residual);
    give_vector(c, LS_NORM_FORWARD_GAMMA, b->gamma);
    give_vector(c, LS_NORM_FORWARD_BETA, b->beta);
    give_sums(c, LS_NORM_APPLY_SUMS, sums);
    case_param(c, LS_NORM_FORWARD_SAVED, ARG_SAVED, USE_OUT, vector_shape(b->attr.shape.c), 0);
    give_zeros(c, LS_NORM_FORWARD_SUM_MEAN);
    give_zeros(c, LS_NORM_FORWARD_SUM_VAR);
    case_activation(c, LS_NORM_FORWARD_DST, USE_OUT, c->desc.attr.norm.shape, 0);
    return run_and_free(b, c);
}

static results backward_sums(const batch *b, int part, const float *dst, const double *saved) {
    op_case *c = new_case(b, LS_OP_NORM_BACKWARD_SUMS, part);
    give_activation(b, c, LS_NORM_BACKWARD_SRC, part, b->src);
    if (b->attr.activation == LS_ACTIVATION_RELU) give_activation(b, c, LS_NORM_BACKWARD_DST, part, dst);
    give_activation(b, c, LS_NORM_BACKWARD_GRAD_DST, part, b->grad);
    if (b->attr.two_grads) give_activation(b, c, LS_NORM_BACKWARD_GRAD_DST2, part, b->grad2);
    if (b->attr.activation > LS_ACTIVATION_RELU) {
        give_vector(c, LS_NORM_BACKWARD_GAMMA, b->gamma);
        give_vector(c, LS_NORM_BACKWARD_BETA, b->beta);
    }
    give_saved(c, LS_NORM_BACKWARD_SAVED, saved);
    give_zeros(c, LS_NORM_BACKWARD_GRAD_GAMMA);
    give_zeros(c, LS_NORM_BACKWARD_GRAD_BETA);
    case_sums(c, LS_NORM_BACKWARD_SUMS_SUMS, USE_OUT, b->attr.shape.c, 0);
    return run_and_free(b, c);
}

static results backward_apply(const batch *b, int part, const float *dst, const double *saved, const double *sums) {
    op_case *c = new_case(b, LS_OP_NORM_BACKWARD_APPLY, part);
    give_activation(b, c, LS_NORM_BACKWARD_SRC, part, b->src);
    if (b->attr.activation == LS_ACTIVATION_RELU) give_activation(b, c, LS_NORM_BACKWARD_DST, part, dst);
    give_activation(b, c, LS_NORM_BACKWARD_GRAD_DST, part, b->grad);
    if (b->attr.two_grads) give_activation(b, c, LS_NORM_BACKWARD_GRAD_DST2, part, b->grad2);
    give_vector(c, LS_NORM_BACKWARD_GAMMA, b->gamma);
    if (b->attr.activation > LS_ACTIVATION_RELU) give_vector(c, LS_NORM_BACKWARD_BETA, b->beta);
    give_saved(c, LS_NORM_BACKWARD_SAVED, saved);
    give_sums(c, LS_NORM_BACKWARD_APPLY_SUMS, sums);
    case_activation(c, LS_NORM_BACKWARD_GRAD_SRC, USE_OUT, c->desc.attr.norm.shape, 0);
    if (b->attr.residual) case_activation(c, LS_NORM_BACKWARD_GRAD_RESIDUAL, USE_OUT, c->desc.attr.norm.shape, 0);
    return run_and_free(b, c);
}

// What an all-reduce does: argument `at` of every part, added.
static double *added(const batch *b, const results *parts, int at) {
    size_t count = 2 * (size_t)b->attr.shape.c + 1;
    double *sum = case_memory(count * sizeof *sum);
    for (int p = 0; p < b->part_count; p++)
        for (size_t i = 0; i < count; i++) sum[i] += parts[p].value[at][i];
    return sum;
}

static void forward_in_parts(const batch *b, results *out) {
    results sums[PARTS_MAX] = { 0 };
    for (int p = 0; p < b->part_count; p++) sums[p] = sums_of(b, p);
    double *all = added(b, sums, LS_NORM_SUMS_SUMS);
    for (int p = 0; p < b->part_count; p++) out[p] = apply(b, p, all);
    free(all);
    results_free(sums, b->part_count);
}

// dst: of the whole, canonical; its ReLU pattern
static void backward_in_parts(const batch *b, const float *dst, const double *saved, results *sums, results *out) {
    for (int p = 0; p < b->part_count; p++) sums[p] = backward_sums(b, p, dst, saved);
    double *all = added(b, sums, LS_NORM_BACKWARD_SUMS_SUMS);
    for (int p = 0; p < b->part_count; p++) out[p] = backward_apply(b, p, dst, saved, all);
    free(all);
}

// --- batches -------------------------------------------------------------------------------------

static float *floats(batch *b, size_t count, float low, float high) {
    float *values = case_memory(count * sizeof *values);
    for (size_t i = 0; i < count; i++) values[i] = low + (high - low) * (case_random(b->random) + 1) / 2;
    return values;
}

static void batch_make(batch *b, int row, ls_device *device) {
    *b = (batch){ .row = rows[row].name, .device = device, .part_count = rows[row].part_count };
    b->attr = (ls_norm_attr){ .shape = { 0, rows[row].channels, rows[row].h, rows[row].w },
        .eps = 1e-5F,
        .activation = rows[row].activation,
        .residual = rows[row].residual,
        .two_grads = rows[row].two_grads,
        .storage = LS_F32 };
    for (int p = 0; p < b->part_count; p++) {
        b->samples[p] = rows[row].samples[p];
        b->attr.shape.n += b->samples[p];
    }
    b->random = case_new(LS_OP_NORM_SUMS, LS_F32, b->row, "");
    size_t count = (size_t)ls_nchw_count(b->attr.shape), channels = (size_t)b->attr.shape.c;
    b->src = floats(b, count, -1, 1);
    // every part has a mean and a spread of its own: statistics of one part are not those of all
    for (int p = 0; p < b->part_count; p++)
        for (size_t i = start_of(b, p); i < start_of(b, p + 1); i++)
            b->src[i] = rintf(((float)(1 + p) * b->src[i] + (float)p) * 1024) / 1024;
    b->residual = floats(b, count, -1, 1);
    b->grad = floats(b, count, -1, 1);
    b->grad2 = floats(b, count, -1, 1);
    b->gamma = floats(b, channels, 0.5F, 1.5F);
    b->beta = floats(b, channels, -1, 1);
}

static void batch_free(batch *b) {
    float *all[] = { b->src, b->residual, b->grad, b->grad2, b->gamma, b->beta };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    case_free(b->random);
}

static void near(
    const batch *b, const char *what, const double *got, const double *expected, size_t count, double tolerance) {
    for (size_t i = 0; i < count; i++) {
        double allowed = tolerance + EPS32 * fabs(expected[i]);
        if (!(fabs(got[i] - expected[i]) <= allowed))
            fail_msg("%s on %s: %s, element %zu: %.9g in parts, %.9g as one (allowed %.3g)", b->row,
                b->device->api->name, what, i, got[i], expected[i], allowed);
    }
}

static void compare_forward(const batch *b, const results *whole, const results *parts) {
    size_t channels = (size_t)b->attr.shape.c;
    double tolerance = norm_tolerance((double)b->attr.shape.n * b->attr.shape.h * b->attr.shape.w);
    for (int p = 0; p < b->part_count; p++) {
        near(b, "saved", parts[p].value[LS_NORM_FORWARD_SAVED], whole->value[LS_NORM_FORWARD_SAVED], 2 * channels,
            tolerance);
        near(b, "sum_mean", parts[p].value[LS_NORM_FORWARD_SUM_MEAN], whole->value[LS_NORM_FORWARD_SUM_MEAN], channels,
            tolerance);
        near(b, "sum_var", parts[p].value[LS_NORM_FORWARD_SUM_VAR], whole->value[LS_NORM_FORWARD_SUM_VAR], channels,
            4 * tolerance);
        near(b, "dst", parts[p].value[LS_NORM_FORWARD_DST], whole->value[LS_NORM_FORWARD_DST] + start_of(b, p),
            start_of(b, p + 1) - start_of(b, p), tolerance);
    }
}

// The gradients of gamma and beta are the parts' own: their sum is the whole's.
static void compare_param(
    const batch *b, const char *what, const results *sums, int at, const double *expected, double tolerance) {
    size_t channels = (size_t)b->attr.shape.c;
    double *all = case_memory(channels * sizeof *all);
    for (int p = 0; p < b->part_count; p++)
        for (size_t i = 0; i < channels; i++) all[i] += sums[p].value[at][i];
    near(b, what, all, expected, channels, tolerance);
    free(all);
}

static void compare_backward(const batch *b, const results *whole, const results *sums, const results *parts) {
    double count = (double)b->attr.shape.n * b->attr.shape.h * b->attr.shape.w;
    for (int p = 0; p < b->part_count; p++) {
        size_t from = start_of(b, p), elements = start_of(b, p + 1) - from;
        near(b, "grad_src", parts[p].value[LS_NORM_BACKWARD_GRAD_SRC], whole->value[LS_NORM_BACKWARD_GRAD_SRC] + from,
            elements, 2 * norm_tolerance(count));
        if (b->attr.residual)
            near(b, "grad_residual", parts[p].value[LS_NORM_BACKWARD_GRAD_RESIDUAL],
                whole->value[LS_NORM_BACKWARD_GRAD_RESIDUAL] + from, elements, 0);
    }
    compare_param(b, "grad_gamma", sums, LS_NORM_BACKWARD_GRAD_GAMMA, whole->value[LS_NORM_BACKWARD_GRAD_GAMMA],
        6 * sum_tolerance(count + 1));
    compare_param(b, "grad_beta", sums, LS_NORM_BACKWARD_GRAD_BETA, whole->value[LS_NORM_BACKWARD_GRAD_BETA],
        2 * sum_tolerance(count + 1));
}

static float *as_floats(const double *values, size_t count) {
    float *out = case_memory(count * sizeof *out);
    for (size_t i = 0; i < count; i++) out[i] = (float)values[i];
    return out;
}

static void parts_are_the_whole(void **unused) {
    (void)unused;
    for (int d = 0; d < device_count; d++) {
        for (int row = 0; row < ROWS; row++) {
            batch b;
            batch_make(&b, row, devices[d]);
            results whole[2] = { whole_forward(&b) }, forward[PARTS_MAX] = { 0 }, sums[PARTS_MAX] = { 0 },
                    backward[PARTS_MAX] = { 0 };
            forward_in_parts(&b, forward);
            compare_forward(&b, &whole[0], forward);
            const double *saved = whole[0].value[LS_NORM_FORWARD_SAVED];
            float *dst = as_floats(whole[0].value[LS_NORM_FORWARD_DST], (size_t)ls_nchw_count(b.attr.shape));
            whole[1] = whole_backward(&b, dst, saved);
            backward_in_parts(&b, dst, saved, sums, backward);
            compare_backward(&b, &whole[1], sums, backward);
            free(dst);
            results_free(whole, 2);
            results_free(forward, b.part_count);
            results_free(sums, b.part_count);
            results_free(backward, b.part_count);
            batch_free(&b);
        }
    }
}

// --- finite differences, with the step and the tolerance of test_gradients.c ---------------------

static const double STEP = 0x1p-6, TOLERANCE = 2e-4;
enum { CHECKED = 12 }; // elements

// Sum over all parts of dst * (grad + grad2), and a hash of which elements of dst are positive.
static double functional(const batch *b, uint64_t *pattern) {
    results parts[PARTS_MAX] = { 0 };
    double sum = 0;
    forward_in_parts(b, parts);
    *pattern = 0;
    for (int p = 0; p < b->part_count; p++) {
        size_t from = start_of(b, p), end = start_of(b, p + 1);
        for (size_t i = from; i < end; i++) {
            double value = parts[p].value[LS_NORM_FORWARD_DST][i - from];
            sum += value * ((double)b->grad[i] + (b->attr.two_grads ? (double)b->grad2[i] : 0));
            *pattern = *pattern * 31 + (value > 0);
        }
    }
    results_free(parts, b->part_count);
    return sum;
}

// The four-point difference quotient along one element; 0 with *kink where a ReLU opens or closes in between.
static double quotient(const batch *b, float *element, int *kink) {
    float start = *element;
    uint64_t pattern[4];
    double value[4];
    const double steps[4] = { STEP, -STEP, 2 * STEP, -2 * STEP };
    for (int i = 0; i < 4; i++) {
        *element = start + (float)steps[i];
        value[i] = functional(b, &pattern[i]);
        *kink |= b->attr.activation == LS_ACTIVATION_RELU && pattern[i] != pattern[0];
    }
    *element = start;
    return (8 * (value[0] - value[1]) - (value[2] - value[3])) / (12 * STEP);
}

typedef struct {
    int checked, kinks;
} tally;

static void check_input(
    const batch *b, const char *what, float *input, const double *gradient, size_t count, tally *done) {
    for (size_t k = 0; k < CHECKED && k < count; k++) {
        size_t i = count <= CHECKED ? k : k * (count - 1) / (CHECKED - 1);
        int kink = 0;
        double q = quotient(b, &input[i], &kink), allowed = TOLERANCE * fmax(1, fabs(gradient[i]));
        done->checked++;
        done->kinks += kink;
        if (!kink && !(fabs(q - gradient[i]) <= allowed))
            fail_msg("%s: %s, element %zu: gradient %.9g, difference quotient %.9g (allowed %.3g)", b->row, what, i,
                gradient[i], q, allowed);
    }
}

// The gradients of all parts as one array.
static double *joined(const batch *b, const results *parts, int at) {
    double *all = case_memory((size_t)ls_nchw_count(b->attr.shape) * sizeof *all);
    for (int p = 0; p < b->part_count; p++)
        memcpy(all + start_of(b, p), parts[p].value[at], (start_of(b, p + 1) - start_of(b, p)) * sizeof *all);
    return all;
}

static void check_row(int row, tally *done) {
    batch b;
    batch_make(&b, row, devices[0]);
    size_t count = (size_t)ls_nchw_count(b.attr.shape), channels = (size_t)b.attr.shape.c;
    results forward[PARTS_MAX] = { 0 }, sums[PARTS_MAX] = { 0 }, backward[PARTS_MAX] = { 0 };
    forward_in_parts(&b, forward);
    double *dst = joined(&b, forward, LS_NORM_FORWARD_DST);
    float *pattern = as_floats(dst, count);
    backward_in_parts(&b, pattern, forward[0].value[LS_NORM_FORWARD_SAVED], sums, backward);
    double *grad_src = joined(&b, backward, LS_NORM_BACKWARD_GRAD_SRC);
    double *grad_gamma = case_memory(channels * sizeof *grad_gamma);
    for (int p = 0; p < b.part_count; p++)
        for (size_t i = 0; i < channels; i++) grad_gamma[i] += sums[p].value[LS_NORM_BACKWARD_GRAD_GAMMA][i];
    check_input(&b, "src", b.src, grad_src, count, done);
    check_input(&b, "gamma", b.gamma, grad_gamma, channels, done);
    free(dst);
    free(pattern);
    free(grad_src);
    free(grad_gamma);
    results_free(forward, b.part_count);
    results_free(sums, b.part_count);
    results_free(backward, b.part_count);
    batch_free(&b);
}

static void gradients_are_difference_quotients(void **unused) {
    (void)unused;
    tally done = { 0 };
    for (int row = 0; row < ROWS; row++)
        if (rows[row].part_count > 1) check_row(row, &done);
    print_message("%d differences, %d left out at a kink of the ReLU\n", done.checked, done.kinks);
    assert_true(done.checked >= 100);
    assert_true(done.kinks * 3 < done.checked);
}

// --- accuracy: a mean far from zero, as fp32 can just tell its values apart ----------------------

// Values around 4096 in steps of 2^-11: sums of squares are 2^24 times the variance,
// and in fp32 nothing of it would be left.
static void variance_survives_a_large_mean(void **unused) {
    (void)unused;
    for (int d = 0; d < device_count; d++) {
        batch b;
        batch_make(&b, 2, devices[d]);
        size_t count = (size_t)ls_nchw_count(b.attr.shape);
        for (size_t i = 0; i < count; i++) b.src[i] = 4096 + rintf(b.src[i] * 1024) / 2048;
        results whole = whole_forward(&b), parts[PARTS_MAX] = { 0 };
        forward_in_parts(&b, parts);
        const double *r = whole.value[LS_NORM_FORWARD_SAVED] + b.attr.shape.c;
        for (int c = 0; c < b.attr.shape.c; c++) {
            double got = parts[0].value[LS_NORM_FORWARD_SAVED][b.attr.shape.c + c];
            if (!(fabs(got - r[c]) <= 1e-5 * r[c]))
                fail_msg(
                    "%s: 1/sqrt(var) of channel %d: %.9g in parts, %.9g as one", devices[d]->api->name, c, got, r[c]);
        }
        results_free(&whole, 1);
        results_free(parts, b.part_count);
        batch_free(&b);
    }
}

static void open_device(const char *type, ls_device_options options) {
    ls_status status = ls_device_open(type, &options, &devices[device_count], NULL);
    if (ls_failed(status)) fail_msg("%s", status.text);
    device_count++;
}

static int open_devices(void **unused) {
    (void)unused;
    open_device("ref", (ls_device_options){ .threads = 1 });
    for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2)
        open_device("cpu", (ls_device_options){ .threads = width == 8 ? 2 : 1, .vector_width = width });
    if (cuda_choose() == 0) devices[device_count++] = cuda_open();
    return 0;
}

static int close_devices(void **unused) {
    (void)unused;
    for (int d = 0; d < device_count; d++) ls_device_close(devices[d]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(gradients_are_difference_quotients),
        cmocka_unit_test(variance_survives_a_large_mean),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
