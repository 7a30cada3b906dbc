// Gradients of every layer on the reference device against finite differences in double.
//
// The functional is L = sum over dst of dst * weight, in double, with random weights, which are then what backward gets
// as grad_dst. An input x is moved by a step h, one element at a time (a sample of them) and all at once along a random
// direction of +1, 0 and -1, which covers the rest.
//
// The device stores fp32, so steps and values are chosen such that rounding does not blur the difference:
// - linear operators (convolution, linear, scale, dropout with p = 1/2, average pooling over 2^k elements):
//   all values are multiples of 1/8 of at most 1 in size, and h = 1. Every product and sum is a multiple of 1/64
//   below 2^18, which fp32 holds exactly: the difference must EQUAL the gradient.
// - max pooling and ReLU: linear between their kinks. Values are different odd multiples of 1/32, 1/16 apart and none
//   nearer to 0 than 1/32; h = 1/64 crosses no kink, and again everything is exact.
// - gate and multiply are linear in each of their inputs: exact, too. Group norm is as batch norm.
// - batch norm: four-point differences, h = 2^-6: truncation h^4/30 * (fifth derivative, about 100) is below 1e-6.
//   dst, up to 4 in size, is rounded by up to 2^-23 in each of n elements: the difference is off by about
//   2^-24 * sqrt(n) * 1.5/h, which is 1e-4 for n = 255. Where a ReLU's pattern changes within the four points,
//   the element is left out (and counted).
// - activations: four-point differences, h = 2^-4: truncation h^4/30 * (fifth derivative, below 12) is 6e-6; dst, below
//   8, is rounded by up to 2^-22: the difference is off by up to 1.5 * 2^-22/h = 6e-6.
// - loss: loss_sum is rounded to 2^-24 so that sums are exact in any order; four-point differences, h = 2^-6: each loss is off by up
//   to 2^-25, so the difference is off by up to 1.5 * 2^-25/h = 3e-6. Truncation is below 2e-7.
#include "device/op_harness.h"
#include "device/ref_device.h"
#include "support/cmocka.h"

typedef struct {
    op_case *forward, *backward;
    int dst, grad_dst, grad_dst2; // arguments of forward and backward; grad_dst2 -1: none
    double step,
        tolerance; // tolerance: on the difference of gradient and difference quotient, relative to max(1, |gradient|)
    int four_points;
    int has_kinks; // differences across which an element of dst changes its sign do not count
    int checked, kinks;
} gradient_test;

static void quantise(op_arg *arg) {
    float *values = arg->host;
    for (size_t i = 0; values && i < arg->count; i++) values[i] = rintf(values[i] * 8) / 8;
}

static void quantise_all(op_case *c) {
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        arg_kind kind = c->args[i].kind;
        if (kind == ARG_ACTIVATION || kind == ARG_PARAM || kind == ARG_WORKING) quantise(&c->args[i]);
    }
}

static void copy_values(op_arg *to, const op_arg *from) {
    assert_int_equal(to->count, from->count);
    memcpy(to->host, from->host, to->count * sizeof(float));
}

// The functional, and a hash of which elements of dst are positive.
static double functional(const gradient_test *t, uint64_t *pattern) {
    double *values[LS_OP_ARGS_MAX] = { 0 }, sum = 0;
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    ls_status status = case_run(ref, t->forward, values, counts);
    if (ls_failed(status)) fail_msg("%s: %s", t->forward->name, status.text);
    const float *weight = t->grad_dst < 0 ? NULL : t->backward->args[t->grad_dst].host;
    const float *weight2 = t->grad_dst2 < 0 ? NULL : t->backward->args[t->grad_dst2].host;
    *pattern = 0;
    if (!weight) { // loss: the sum itself
        sum = values[t->dst][0];
    }
    for (size_t i = 0; weight && i < counts[t->dst]; i++) {
        double value = values[t->dst][i];
        sum += value * ((double)weight[i] + (weight2 ? (double)weight2[i] : 0));
        *pattern = *pattern * 31 + (value > 0);
    }
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
    return sum;
}

static double moved(
    gradient_test *t, op_arg *input, const float *start, const float *direction, double step, uint64_t *pattern) {
    float *values = input->host;
    for (size_t i = 0; i < input->count; i++) values[i] = start[i] + (float)step * direction[i];
    return functional(t, pattern);
}

// One difference along `direction` against `expected`, the gradient's component along it.
static void check_direction(gradient_test *t, int at, const float *start, const float *direction, double expected,
    const char *what, size_t element) {
    op_arg *input = &t->forward->args[at];
    uint64_t p[4];
    double h = t->step,
           quotient = moved(t, input, start, direction, h, &p[0]) - moved(t, input, start, direction, -h, &p[1]);
    p[2] = p[3] = p[0];
    if (t->four_points) {
        double wide =
            moved(t, input, start, direction, 2 * h, &p[2]) - moved(t, input, start, direction, -2 * h, &p[3]);
        quotient = (8 * quotient - wide) / (12 * h);
    } else {
        quotient /= 2 * h;
    }
    memcpy(input->host, start, input->count * sizeof(float));
    t->checked++;
    if (t->has_kinks && (p[0] != p[1] || p[0] != p[2] || p[0] != p[3])) {
        t->kinks++;
        return;
    }
    double allowed = t->tolerance * fmax(1, fabs(expected));
    if (!(fabs(quotient - expected) <= allowed)) {
        fail_msg("%s: argument %d, %s %zu: gradient %.9g, difference quotient %.9g (allowed %.3g)", t->backward->name,
            at, what, element, expected, quotient, allowed);
    }
}

enum { ELEMENTS_CHECKED = 12 };

static void check_input(gradient_test *t, int at, const double *gradient) {
    op_arg *input = &t->forward->args[at];
    size_t count = input->count;
    float *start = case_memory(count * sizeof *start), *direction = case_memory(count * sizeof *direction);
    memcpy(start, input->host, count * sizeof *start);
    for (size_t k = 0; k < ELEMENTS_CHECKED && k < count; k++) {
        size_t i = count <= ELEMENTS_CHECKED ? k : (size_t)((case_random(t->forward) + 1) / 2 * (float)(count - 1));
        direction[i] = 1;
        check_direction(t, at, start, direction, gradient[i], "element", i);
        direction[i] = 0;
    }
    double along = 0;
    for (size_t i = 0; i < count; i++) {
        direction[i] = rintf(case_random(t->forward) * 1.49F);
        along += gradient[i] * (double)direction[i];
    }
    if (!t->four_points || t->grad_dst < 0) check_direction(t, at, start, direction, along, "direction", 0);
    free(start);
    free(direction);
}

// Runs backward and compares the gradients of `pairs` of (input of forward, its gradient in backward).
static void check_pairs(gradient_test *t, const int pairs[][2], int count) {
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    ls_status status = case_run(ref, t->backward, values, counts);
    if (ls_failed(status)) fail_msg("%s: %s", t->backward->name, status.text);
    for (int k = 0; k < count; k++) {
        const op_arg *grad = &t->backward->args[pairs[k][1]];
        if (grad->kind == ARG_ABSENT) continue;
        double *gradient = values[pairs[k][1]];
        for (size_t i = 0; grad->use == USE_UPDATE && i < grad->count; i++)
            gradient[i] -= (double)((float *)grad->host)[i];
        check_input(t, pairs[k][0], gradient);
    }
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
}

// --- cases ---------------------------------------------------------------------------------------
// They come from op_cases.h in the order forward, backward...; a forward one is kept until its backward ones arrive.

typedef struct {
    op_case *forward;
    int pairs_checked, kinks, checked;
} collector;

static op_case *keep(op_case *c) { // moves the contents out of what the visitor frees
    op_case *kept = case_memory(sizeof *kept);
    *kept = *c;
    memset(c->args, 0, sizeof c->args);
    c->pool_src = NULL;
    return kept;
}

static void set_forward(collector *all, op_case *c) {
    if (all->forward) case_free(all->forward);
    all->forward = keep(c);
}

static void check_linear_operator(collector *all, op_case *c, int weight_gradient, double tolerance) {
    gradient_test t = { .forward = all->forward, .backward = c, .grad_dst2 = -1, .step = 1, .tolerance = tolerance };
    t.dst = LS_CONV_FORWARD_DST;
    t.grad_dst = weight_gradient ? LS_CONV_BACKWARD_WEIGHT_GRAD_DST : LS_CONV_BACKWARD_DATA_GRAD_DST;
    quantise_all(t.forward);
    quantise_all(c);
    if (weight_gradient) {
        copy_values(&c->args[LS_CONV_BACKWARD_WEIGHT_SRC], &t.forward->args[LS_CONV_FORWARD_SRC]);
        check_pairs(&t,
            (const int[][2]){ { LS_CONV_FORWARD_WEIGHT, LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT },
                { LS_CONV_FORWARD_BIAS, LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS } },
            2);
    } else {
        copy_values(&c->args[LS_CONV_BACKWARD_DATA_WEIGHT], &t.forward->args[LS_CONV_FORWARD_WEIGHT]);
        check_pairs(&t, (const int[][2]){ { LS_CONV_FORWARD_SRC, LS_CONV_BACKWARD_DATA_GRAD_SRC } }, 1);
    }
    all->pairs_checked++;
}

// Convolution and linear layers have the same arguments in the same order.
_Static_assert((int)LS_LINEAR_FORWARD_DST == (int)LS_CONV_FORWARD_DST &&
                   (int)LS_LINEAR_FORWARD_BIAS == (int)LS_CONV_FORWARD_BIAS &&
                   (int)LS_LINEAR_BACKWARD_DATA_GRAD_SRC == (int)LS_CONV_BACKWARD_DATA_GRAD_SRC &&
                   (int)LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS == (int)LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS,
    "check_linear_operator reads both");

static void visit_linear_operators(void *context, op_case *c) {
    collector *all = context;
    if (ls_op_flops(&c->desc) > 2e6 || strstr(c->name, "bias only")) return; // that is a part of the whole
    switch (c->desc.op) {
    case LS_OP_CONV_FORWARD:
    case LS_OP_LINEAR_FORWARD:
        if (c->desc.op == LS_OP_CONV_FORWARD || !c->desc.attr.linear.relu) set_forward(all, c); // that has a kink
        break;
    case LS_OP_CONV_BACKWARD_DATA:
    case LS_OP_LINEAR_BACKWARD_DATA:
        check_linear_operator(all, c, 0, 0);
        break;
    case LS_OP_CONV_BACKWARD_WEIGHT:
    case LS_OP_LINEAR_BACKWARD_WEIGHT:
        check_linear_operator(all, c, 1, 0);
        break;
    default:
        fail();
    }
}

static void convolution_and_linear_gradients_are_exact(void **unused) {
    (void)unused;
    collector all = { 0 };
    conv_cases(LS_F32, visit_linear_operators, &all);
    linear_cases(LS_F32, visit_linear_operators, &all);
    assert_true(all.pairs_checked >= 50);
    case_free(all.forward);
}

// Different values 1/16 apart in random order, none nearer to 0 than 1/32.
static void fill_away_from_kinks(op_case *c, float *values, size_t count) {
    for (size_t i = 0; i < count; i++) values[i] = ((float)i - (float)(count / 2) + 0.5F) / 16;
    for (size_t i = count; i-- > 1;) {
        size_t j = (size_t)((case_random(c) + 1) / 2 * (float)i);
        float swap = values[i];
        values[i] = values[j];
        values[j] = swap;
    }
}

static void visit_pools(void *context, op_case *c) {
    collector *all = context;
    const ls_pool_attr *a = &c->desc.attr.pool;
    if (!a->training || ls_nchw_count(a->src) > 6000) return;
    if (c->desc.op == LS_OP_POOL_FORWARD) {
        set_forward(all, c);
        return;
    }
    int window = a->kernel_h * a->kernel_w, is_max = a->kind == LS_POOL_MAX,
        exact = is_max || (a->stride_h && !(window & (window - 1)));
    gradient_test t = { .forward = all->forward,
        .backward = c,
        .dst = LS_POOL_FORWARD_DST,
        .grad_dst = LS_POOL_BACKWARD_GRAD_DST,
        .grad_dst2 = -1 };
    t.step = is_max ? 1.0 / 64 : 1;
    t.has_kinks = is_max;
    // division by the window: dst, at most 1, and grad_src, at most 1 (25 windows of 1/25), are rounded to 2^-24 of
    // themselves, in the direction over all elements a few hundred times
    t.tolerance = exact ? 0 : 300 * 0x1p-24;
    quantise_all(t.forward);
    quantise_all(c);
    op_arg *src = &t.forward->args[LS_POOL_FORWARD_SRC];
    if (is_max) {
        fill_away_from_kinks(c, src->host, src->count);
        memcpy(c->pool_src, src->host, src->count * sizeof(float));
    }
    check_pairs(&t, (const int[][2]){ { LS_POOL_FORWARD_SRC, LS_POOL_BACKWARD_GRAD_SRC } }, 1);
    assert_int_equal(t.kinks, 0);
    all->pairs_checked++;
}

static void pooling_gradients(void **unused) {
    (void)unused;
    collector all = { 0 };
    pool_cases(LS_F32, visit_pools, &all);
    assert_true(all.pairs_checked >= 25);
    case_free(all.forward);
}

// The activations besides relu: src in [-7, 7], where both passes read it, at least 1/4 from all kinks.
static void check_activation(collector *all, op_case *c) {
    op_arg *src = &c->args[LS_ACTIVATION_BACKWARD_SRC];
    for (size_t i = 0; i < src->count; i++) ((float *)src->host)[i] = rintf(case_random(c) * 14) / 2 + 0.25F;
    copy_values(&all->forward->args[LS_ACTIVATION_FORWARD_SRC], src);
    gradient_test t = { .forward = all->forward,
        .backward = c,
        .dst = LS_ACTIVATION_FORWARD_DST,
        .grad_dst = LS_ACTIVATION_BACKWARD_GRAD_DST,
        .grad_dst2 = -1,
        .step = 1.0 / 16,
        .tolerance = 1.5e-5,
        .four_points = 1 };
    check_pairs(&t, (const int[][2]){ { LS_ACTIVATION_FORWARD_SRC, LS_ACTIVATION_BACKWARD_GRAD_SRC } }, 1);
    all->pairs_checked++;
}

// The backward of scale and dropout is the operator itself; of relu, relu backward
// with dst; of add, the gradient itself.
static void visit_maps(void *context, op_case *c) {
    collector *all = context;
    ls_op op = c->desc.op;
    if (ls_nchw_count(c->desc.attr.elementwise.shape) > 6000 || op == LS_OP_ADD || op == LS_OP_MULTIPLY ||
        c->args[ls_op_args(op) - 1].alias)
        return;
    c->desc.attr.elementwise.p = 0.5F;
    c->desc.attr.elementwise.factor = 0.125F;
    if (op == LS_OP_RELU_FORWARD) {
        fill_away_from_kinks(c, c->args[0].host, c->args[0].count);
        set_forward(all, c);
        return;
    }
    if (op == LS_OP_ACTIVATION_FORWARD) {
        set_forward(all, c);
        return;
    }
    if (op == LS_OP_ACTIVATION_BACKWARD) {
        check_activation(all, c);
        return;
    }
    int dst = ls_op_args(op) - 1, gradient_in = op == LS_OP_RELU_BACKWARD ? LS_RELU_BACKWARD_GRAD_DST : 0;
    gradient_test t = { .forward = all->forward,
        .backward = c,
        .dst = LS_RELU_FORWARD_DST,
        .grad_dst = gradient_in,
        .grad_dst2 = -1,
        .step = 1.0 / 64,
        .has_kinks = op == LS_OP_RELU_BACKWARD };
    op_case *self = NULL;
    quantise_all(c);
    if (op == LS_OP_RELU_BACKWARD) {
        const float *src = t.forward->args[0].host;
        float *stored = c->args[LS_RELU_BACKWARD_DST].host;
        for (size_t i = 0; i < c->args[0].count; i++) stored[i] = fmaxf(src[i], 0);
    } else { // forward: the same operator on other values
        self = case_new(op, c->storage, "forward", "");
        self->desc = c->desc;
        self->next_random = 12345;
        case_activation(self, 0, USE_IN, c->args[0].shape, 0);
        if (op == LS_OP_DROPOUT) case_micro(self, LS_DROPOUT_MICRO, c->args[0].shape.n);
        case_activation(self, dst, USE_OUT, c->args[0].shape, 0);
        quantise_all(self);
        t.forward = self;
        t.dst = dst;
        t.step = 1;
    }
    check_pairs(&t, (const int[][2]){ { 0, dst } }, 1);
    assert_int_equal(t.kinks, 0);
    all->pairs_checked++;
    if (self) case_free(self);
}

static void elementwise_gradients(void **unused) {
    (void)unused;
    collector all = { 0 };
    map_cases(LS_F32, visit_maps, &all);
    assert_true(all.pairs_checked >= 60);
    case_free(all.forward);
}

// --- products: gate with its own backward, and multiply, whose gradients are itself with the other input ---

static void check_product(op_case *forward, op_case *backward, int input, int grad_dst, int grad) {
    gradient_test t = {
        .forward = forward, .backward = backward, .dst = LS_GATE_DST, .grad_dst = grad_dst, .grad_dst2 = -1, .step = 1
    };
    check_pairs(&t, (const int[][2]){ { input, grad } }, 1);
}

// A run of `op` on these shapes with values in eighths, the output last.
static op_case *product_case(ls_op op, ls_nchw shape, ls_nchw second, ls_nchw out, uint32_t seed) {
    op_case *c = case_new(op, LS_F32, "product", "");
    if (op == LS_OP_MULTIPLY)
        c->desc.attr.elementwise = (ls_elementwise_attr){ .shape = shape, .storage = LS_F32 };
    else
        c->desc.attr.gate = (ls_gate_attr){ .shape = shape, .storage = LS_F32 };
    c->next_random = seed;
    case_activation(c, 0, USE_IN, shape, 0);
    case_activation(c, 1, USE_IN, second, 0);
    case_activation(c, 2, USE_OUT, out, 0);
    quantise_all(c);
    return c;
}

static void gradients_of_products_are_exact(void **unused) {
    (void)unused;
    const ls_nchw map = { 2, 5, 3, 4 }, gate = { 2, 5, 1, 1 };
    op_case *forward = product_case(LS_OP_GATE, map, gate, map, 1), *back = product_case(LS_OP_GATE, map, gate, map, 2);
    copy_values(&back->args[LS_GATE_GATE], &forward->args[LS_GATE_GATE]);
    check_product(forward, back, LS_GATE_SRC, LS_GATE_SRC, LS_GATE_DST);
    case_free(back);
    back = product_case(LS_OP_GATE_BACKWARD, map, map, gate, 3);
    copy_values(&back->args[LS_GATE_BACKWARD_SRC], &forward->args[LS_GATE_SRC]);
    check_product(forward, back, LS_GATE_GATE, LS_GATE_BACKWARD_GRAD_DST, LS_GATE_BACKWARD_GRAD_GATE);
    case_free(back);
    case_free(forward);
    forward = product_case(LS_OP_MULTIPLY, map, map, map, 4);
    back = product_case(LS_OP_MULTIPLY, map, map, map, 5);
    copy_values(&back->args[LS_MULTIPLY_B], &forward->args[LS_MULTIPLY_B]);
    check_product(forward, back, LS_MULTIPLY_A, LS_MULTIPLY_A, LS_MULTIPLY_DST);
    case_free(back);
    case_free(forward);
}

// Copies of channels, forward and spread, are each other's transpose: <copy(x), y> = <x, spread(y)>, exactly.
typedef struct {
    op_case *forward;
    double product;
    int checked;
} transposition;

static double product_with(const op_case *c, op_case *other) { // of c's dst with the other's src
    double *values[LS_OP_ARGS_MAX] = { 0 }, sum = 0;
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    const float *y = other->args[LS_COPY_CHANNELS_SRC].host;
    for (size_t i = 0; i < counts[LS_COPY_CHANNELS_DST]; i++) sum += values[LS_COPY_CHANNELS_DST][i] * (double)y[i];
    free(values[LS_COPY_CHANNELS_DST]);
    return sum;
}

// Every second channel of two interleaved sources is one of them again.
static void check_shuffle(transposition *all, op_case *c) {
    const ls_channels_attr *a = &c->desc.attr.channels;
    if (a->interleave) {
        if (all->forward) case_free(all->forward);
        all->forward = keep(c);
        return;
    }
    double *made[LS_OP_ARGS_MAX] = { 0 }, *back[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    assert_int_equal(case_run(ref, all->forward, made, counts).code, LS_OK);
    const int second = (a->from - all->forward->desc.attr.channels.to) % 2;
    op_arg *src = &c->args[LS_COPY_CHANNELS_SRC],
           *was = &all->forward->args[second ? LS_COPY_CHANNELS_SRC2 : LS_COPY_CHANNELS_SRC];
    for (size_t i = 0; i < src->count; i++) ((float *)src->host)[i] = (float)made[LS_COPY_CHANNELS_DST][i];
    assert_int_equal(case_run(ref, c, back, counts).code, LS_OK);
    const size_t plane = (size_t)a->dst.h * (size_t)a->dst.w, channels = (size_t)a->dst.c;
    for (size_t i = 0; i < counts[LS_COPY_CHANNELS_DST]; i++) {
        const int at = (int)(i / plane % channels) - a->to, copied = at >= 0 && at < a->count;
        const double expected = copied ? (double)((const float *)was->host)[i] : 0;
        if (back[LS_COPY_CHANNELS_DST][i] != expected)
            fail_msg("%s: element %zu is %g, the source's %g", c->name, i, back[LS_COPY_CHANNELS_DST][i], expected);
    }
    free(made[LS_COPY_CHANNELS_DST]);
    free(back[LS_COPY_CHANNELS_DST]);
    all->checked++;
}

static void visit_copies(void *context, op_case *c) {
    transposition *all = context;
    quantise_all(c);
    if (!c->desc.attr.channels.keep && !c->desc.attr.channels.two_sources &&
        (c->desc.attr.channels.interleave || c->desc.attr.channels.alternate)) {
        check_shuffle(all, c);
        return;
    }
    if (c->desc.attr.channels.interleave || c->desc.attr.channels.alternate) return;
    if (c->desc.attr.channels.keep || c->desc.attr.channels.two_sources) return;
    if (!c->desc.attr.channels.spread) {
        if (all->forward) case_free(all->forward);
        all->forward = keep(c);
        return;
    }
    const double a = product_with(all->forward, c), b = product_with(c, all->forward);
    if (a != b || a == 0) fail_msg("%s: %.17g, transposed %.17g", c->name, a, b);
    all->checked++;
}

static void copies_of_channels_are_transposed(void **unused) {
    (void)unused;
    transposition all = { 0 };
    channels_cases(LS_F32, visit_copies, &all);
    assert_true(all.checked >= 14);
    case_free(all.forward);
}

// --- group norm ----------------------------------------------------------------------------------

static void visit_group_norms(void *context, op_case *c) {
    collector *all = context;
    const ls_group_norm_attr *a = &c->desc.attr.group_norm;
    if (ls_nchw_count(a->shape) > 1500) return;
    // Three numbers can be nearly equal; the output then bends too much for difference quotients.
    if (a->over == LS_NORM_OVER_PIXELS && a->shape.c < 16) return;
    if (c->desc.op == LS_OP_GROUP_NORM_FORWARD) {
        quantise(&c->args[LS_GROUP_NORM_FORWARD_SRC]);
        if (a->affine) quantise(&c->args[LS_GROUP_NORM_FORWARD_GAMMA]);
        set_forward(all, c);
        return;
    }
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    assert_int_equal(case_run(ref, all->forward, values, counts).code, LS_OK);
    copy_values(&c->args[LS_GROUP_NORM_BACKWARD_SRC], &all->forward->args[LS_GROUP_NORM_FORWARD_SRC]);
    if (a->affine)
        copy_values(&c->args[LS_GROUP_NORM_BACKWARD_GAMMA], &all->forward->args[LS_GROUP_NORM_FORWARD_GAMMA]);
    for (size_t i = 0; i < counts[LS_GROUP_NORM_FORWARD_SAVED]; i++)
        ((float *)c->args[LS_GROUP_NORM_BACKWARD_SAVED].host)[i] = (float)values[LS_GROUP_NORM_FORWARD_SAVED][i];
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
    gradient_test t = { .forward = all->forward,
        .backward = c,
        .dst = LS_GROUP_NORM_FORWARD_DST,
        .grad_dst = LS_GROUP_NORM_BACKWARD_GRAD_DST,
        .grad_dst2 = -1,
        .step = 0x1p-6,
        .tolerance = 5e-4,
        .four_points = 1 };
    check_pairs(&t,
        (const int[][2]){ { LS_GROUP_NORM_FORWARD_SRC, LS_GROUP_NORM_BACKWARD_GRAD_SRC },
            { LS_GROUP_NORM_FORWARD_GAMMA, LS_GROUP_NORM_BACKWARD_GRAD_GAMMA },
            { LS_GROUP_NORM_FORWARD_BETA, LS_GROUP_NORM_BACKWARD_GRAD_BETA } },
        !a->affine                        ? 1
        : a->over == LS_NORM_OVER_NOTHING ? 2
                                          : 3);
    all->pairs_checked++;
}

static void group_norm_gradients(void **unused) {
    (void)unused;
    collector all = { 0 };
    group_norm_cases(LS_F32, visit_group_norms, &all);
    assert_true(all.pairs_checked >= 30);
    case_free(all.forward);
}

// --- batch norm ----------------------------------------------------------------------------------

// The forward run that `backward` with stored statistics belongs to, of what `forward` reads; that is freed. DST of
// `backward` becomes what it writes.
static op_case *inference_of(op_case *forward, op_case *backward) {
    const ls_norm_attr *a = &backward->desc.attr.norm;
    op_case *c = case_new(LS_OP_NORM_INFERENCE, LS_F32, "inference", "");
    c->desc.attr.norm = *a;
    c->desc.attr.norm.stored = 0;
    copy_values(case_activation(c, LS_NORM_INFERENCE_SRC, USE_IN, a->shape, 0), &forward->args[LS_NORM_FORWARD_SRC]);
    if (a->residual)
        copy_values(case_activation(c, LS_NORM_INFERENCE_RESIDUAL, USE_IN, a->shape, 0),
            &forward->args[LS_NORM_FORWARD_RESIDUAL]);
    copy_values(case_vector(c, LS_NORM_INFERENCE_GAMMA, USE_IN, a->shape.c, 0), &forward->args[LS_NORM_FORWARD_GAMMA]);
    copy_values(case_vector(c, LS_NORM_INFERENCE_BETA, USE_IN, a->shape.c, 0), &forward->args[LS_NORM_FORWARD_BETA]);
    copy_values(case_vector(c, LS_NORM_INFERENCE_MEAN, USE_IN, a->shape.c, 0), &backward->args[LS_NORM_BACKWARD_MEAN]);
    copy_values(case_vector(c, LS_NORM_INFERENCE_VAR, USE_IN, a->shape.c, 0), &backward->args[LS_NORM_BACKWARD_VAR]);
    case_activation(c, LS_NORM_INFERENCE_DST, USE_OUT, a->shape, 0);
    case_free(forward);
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    for (size_t i = 0; backward->args[LS_NORM_BACKWARD_DST].kind != ARG_ABSENT && i < counts[LS_NORM_INFERENCE_DST];
         i++)
        ((float *)backward->args[LS_NORM_BACKWARD_DST].host)[i] = (float)values[LS_NORM_INFERENCE_DST][i];
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
    return c;
}

static void visit_norms(void *context, op_case *c) {
    collector *all = context;
    ls_norm_attr *a = &c->desc.attr.norm;
    if (ls_nchw_count(a->shape) > 255 || (int64_t)a->shape.n * a->shape.h * a->shape.w < 4) return;
    if (c->desc.op != LS_OP_NORM_BACKWARD) return;
    // the forward run of the same attributes, whose dst and saved statistics backward reads
    op_case *forward = case_new(LS_OP_NORM_FORWARD, LS_F32, "forward", "");
    forward->desc.attr.norm = *a;
    forward->desc.attr.norm.stored = 0;
    forward->next_random = 777;
    op_arg *src = case_activation(forward, LS_NORM_FORWARD_SRC, USE_IN, a->shape, 0);
    fill_spread(forward, src);
    for (size_t i = 0; i < src->count; i++) ((float *)src->host)[i] = rintf(((float *)src->host)[i] * 1024) / 1024;
    if (a->residual) quantise(case_activation(forward, LS_NORM_FORWARD_RESIDUAL, USE_IN, a->shape, 0));
    fill_uniform(forward, case_vector(forward, LS_NORM_FORWARD_GAMMA, USE_IN, a->shape.c, 0), 0.5F, 1.5F);
    quantise(&forward->args[LS_NORM_FORWARD_GAMMA]);
    quantise(case_vector(forward, LS_NORM_FORWARD_BETA, USE_IN, a->shape.c, 0));
    case_param(forward, LS_NORM_FORWARD_SAVED, ARG_SAVED, USE_OUT, vector_shape(a->shape.c), 0);
    case_vector(forward, LS_NORM_FORWARD_SUM_MEAN, USE_UPDATE, a->shape.c, 0);
    case_vector(forward, LS_NORM_FORWARD_SUM_VAR, USE_UPDATE, a->shape.c, 0);
    case_activation(forward, LS_NORM_FORWARD_DST, USE_OUT, a->shape, 0);

    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    assert_int_equal(case_run(ref, forward, values, counts).code, LS_OK);
    copy_values(&c->args[LS_NORM_BACKWARD_SRC], src);
    copy_values(&c->args[LS_NORM_BACKWARD_GAMMA], &forward->args[LS_NORM_FORWARD_GAMMA]);
    if (c->args[LS_NORM_BACKWARD_BETA].kind != ARG_ABSENT)
        copy_values(&c->args[LS_NORM_BACKWARD_BETA], &forward->args[LS_NORM_FORWARD_BETA]);
    for (size_t i = 0; !a->stored && i < counts[LS_NORM_FORWARD_SAVED]; i++) {
        ((float *)c->args[LS_NORM_BACKWARD_SAVED].host)[i] = (float)values[LS_NORM_FORWARD_SAVED][i];
    }
    for (size_t i = 0; c->args[LS_NORM_BACKWARD_DST].kind != ARG_ABSENT && i < counts[LS_NORM_FORWARD_DST]; i++) {
        ((float *)c->args[LS_NORM_BACKWARD_DST].host)[i] = (float)values[LS_NORM_FORWARD_DST][i];
    }
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
    if (a->stored) forward = inference_of(forward, c);

    gradient_test t = { .forward = forward,
        .backward = c,
        .dst = a->stored ? (int)LS_NORM_INFERENCE_DST : (int)LS_NORM_FORWARD_DST,
        .grad_dst = LS_NORM_BACKWARD_GRAD_DST,
        .grad_dst2 = a->two_grads ? LS_NORM_BACKWARD_GRAD_DST2 : -1,
        .step = 0x1p-6,
        .tolerance = 2e-4,
        .four_points = 1,
        .has_kinks = a->activation == LS_ACTIVATION_RELU };
    check_pairs(&t,
        (const int[][2]){ { LS_NORM_FORWARD_SRC, LS_NORM_BACKWARD_GRAD_SRC },
            { LS_NORM_FORWARD_RESIDUAL, LS_NORM_BACKWARD_GRAD_RESIDUAL },
            { LS_NORM_FORWARD_GAMMA, LS_NORM_BACKWARD_GRAD_GAMMA },
            { LS_NORM_FORWARD_BETA, LS_NORM_BACKWARD_GRAD_BETA } }, // inference has the same places
        4);
    all->checked += t.checked;
    all->kinks += t.kinks;
    all->pairs_checked++;
    case_free(forward);
}

_Static_assert((int)LS_NORM_FORWARD_SRC == (int)LS_NORM_INFERENCE_SRC &&
                   (int)LS_NORM_FORWARD_RESIDUAL == (int)LS_NORM_INFERENCE_RESIDUAL &&
                   (int)LS_NORM_FORWARD_GAMMA == (int)LS_NORM_INFERENCE_GAMMA &&
                   (int)LS_NORM_FORWARD_BETA == (int)LS_NORM_INFERENCE_BETA,
    "visit_norms has one list for both");

static void batch_norm_gradients(void **unused) {
    (void)unused;
    collector all = { 0 };
    norm_cases(LS_F32, visit_norms, &all);
    assert_true(all.pairs_checked >= 24);
    print_message("batch norm: %d differences, %d left out at a kink of the ReLU\n", all.checked, all.kinks);
    assert_true(all.kinks * 5 < all.checked);
}

// --- loss: one operator is both; L = result.loss_sum ---------------------------------------------

static void visit_losses(void *context, op_case *c) {
    collector *all = context;
    if (!c->desc.attr.loss.training || c->desc.attr.loss.logits.c == 1000) return;
    const ls_train_state *state = c->args[LS_LOSS_STATE].host;
    float *logits = c->args[LS_LOSS_LOGITS].host;
    for (size_t i = 0; i < c->args[LS_LOSS_LOGITS].count; i++) logits[i] = rintf(logits[i] * 16) / 16;
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    if (!isfinite(values[LS_LOSS_RESULT][0])) { // it has no difference quotient
        for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
        return;
    }
    const double scale = (double)LS_GRADIENT_SCALE(state, c->desc.attr.loss.mean_of);
    for (size_t i = 0; i < counts[LS_LOSS_GRAD_LOGITS]; i++) values[LS_LOSS_GRAD_LOGITS][i] /= scale;
    // fp32 gradients of at most 1, up to 160 of them along a direction
    gradient_test t = { .forward = c,
        .backward = c,
        .dst = LS_LOSS_RESULT,
        .grad_dst = -1,
        .grad_dst2 = -1,
        .step = 0x1p-6,
        .tolerance = 4e-6,
        .four_points = 1 };
    check_input(&t, LS_LOSS_LOGITS, values[LS_LOSS_GRAD_LOGITS]);
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
    all->pairs_checked++;
}

// Also the gradient of the teacher's part; what the loss has written before is 0 here.
static void visit_distill(void *context, op_case *c) {
    collector *all = context;
    const ls_distill_attr *a = &c->desc.attr.distill;
    float *logits = c->args[LS_DISTILL_LOGITS].host;
    if (a->logits.c == 1000 || a->temperature < 1) return; // sums of more than 2^-24 of rounding; steep
    for (size_t i = 0; i < c->args[LS_DISTILL_LOGITS].count; i++) logits[i] = rintf(logits[i] * 16) / 16;
    memset(c->args[LS_DISTILL_GRAD_LOGITS].host, 0, c->args[LS_DISTILL_GRAD_LOGITS].count * sizeof(float));
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX] = { 0 };
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    const double scale = (double)LS_GRADIENT_SCALE((ls_train_state *)c->args[LS_DISTILL_STATE].host, a->mean_of);
    double *gradient = values[LS_DISTILL_GRAD_LOGITS];
    for (size_t i = 0; i < counts[LS_DISTILL_GRAD_LOGITS]; i++) gradient[i] /= scale;
    gradient_test t = { .forward = c,
        .backward = c,
        .dst = LS_DISTILL_RESULT,
        .grad_dst = -1,
        .grad_dst2 = -1,
        .step = 0x1p-6,
        .tolerance = 4e-6 * (double)a->temperature,
        .four_points = 1 };
    const int is_finite =
        isfinite(values[LS_DISTILL_RESULT][0]) && isfinite(logits[a->logits.n > 1 ? 1 + a->logits.c : 0]);
    if (is_finite) check_input(&t, LS_DISTILL_LOGITS, gradient);
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(values[i]);
    all->pairs_checked += is_finite;
}

static void loss_gradient(void **unused) {
    (void)unused;
    collector all = { 0 };
    loss_cases(LS_F32, visit_losses, &all);
    assert_true(all.pairs_checked >= 5);
    all = (collector){ 0 };
    distill_cases(LS_F32, visit_distill, &all);
    assert_true(all.pairs_checked >= 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_and_linear_gradients_are_exact),
        cmocka_unit_test(pooling_gradients),
        cmocka_unit_test(elementwise_gradients),
        cmocka_unit_test(gradients_of_products_are_exact),
        cmocka_unit_test(copies_of_channels_are_transposed),
        cmocka_unit_test(group_norm_gradients),
        cmocka_unit_test(batch_norm_gradients),
        cmocka_unit_test(loss_gradient),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
