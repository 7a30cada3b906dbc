// GELU, SiLU and the sigmoid over all of their range against double: every device, on values that random cases do not meet.
#include "op_harness.h"
#include "device/widths.h"
#include "support/cmocka.h"

enum { STEP = 997, COUNT = 1 << 22 };

static double gelu(double x) {
    return x * erfc(-x / sqrt(2)) / 2;
}

static double gelu_slope(double x) {
    return erfc(-x / sqrt(2)) / 2 + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double sigmoid_slope(double x) {
    return sigmoid(x) * sigmoid(-x);
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

static double silu_slope(double x) {
    return (1 + x / (1 + exp(x))) / (1 + exp(-x));
}

// activations.h's promise for fp32. Relative: of values, as far down as they are ordinary numbers. The derivative crosses
// 0, so its error is absolute.
typedef struct {
    const char *name;
    ls_op forward, backward;
    double (*value)(double), (*slope)(double);
    float range;
    double value_error, slope_error;
    int keeps_sign; // as x times something; else from 0 to 1
} activation;

static const activation activations[] = {
    { "gelu", LS_OP_GELU_FORWARD, LS_OP_GELU_BACKWARD, gelu, gelu_slope, 12.5F, 5e-7, 3e-7, 1 },
    { "silu", LS_OP_SILU_FORWARD, LS_OP_SILU_BACKWARD, silu, silu_slope, 80, 5e-7, 3e-7, 1 },
    { "sigmoid", LS_OP_SIGMOID_FORWARD, LS_OP_SIGMOID_BACKWARD, sigmoid, sigmoid_slope, 80, 5e-7, 3e-7, 0 },
};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

// Runs the operator on `count` values of src, with gradients of 1.
static double *run_on(ls_device *device, ls_op op, const float *src, int count) {
    op_case *c = case_new(op, LS_F32, "activation", "");
    ls_nchw shape = { 1, count, 1, 1 };
    c->desc.attr.elementwise = (ls_elementwise_attr){ .shape = shape, .storage = LS_F32 };
    int dst = ls_op_args(op) - 1;
    memcpy(case_activation(c, 0, USE_IN, shape, 0)->host, src, (size_t)count * sizeof *src);
    if (dst == LS_GELU_BACKWARD_GRAD_SRC)
        fill_uniform(c, case_activation(c, LS_GELU_BACKWARD_GRAD_DST, USE_IN, shape, 0), 1, 1);
    case_activation(c, dst, USE_OUT, shape, 0);
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    ls_status status = case_run(device, c, values, counts);
    if (ls_failed(status)) fail_msg("%s: %s", c->name, status.text);
    case_free(c);
    return values[dst];
}

static ls_device *device_open(const char *type, int width) {
    ls_device *device = NULL;
    ls_status status = ls_device_open(type, &(ls_device_options){ .threads = 1, .vector_width = width }, &device, NULL);
    if (ls_failed(status)) fail_msg("%s", status.text);
    return device;
}

typedef struct {
    double value, slope;       // largest error
    double value_at, slope_at; // where
} errors;

static void note(double error, double x, double *worst, double *at) {
    if (error <= *worst) return;
    *worst = error;
    *at = x;
}

static void sweep(const activation *a, const char *type, int width) {
    ls_device *device = device_open(type, width);
    errors e = { 0 };
    float *src = case_memory(COUNT * sizeof *src);
    for (int sign = -1; sign <= 1; sign += 2) {
        uint32_t bits = 0;
        for (float x = 0; x <= a->range;) {
            int count = 0;
            for (; count < COUNT && x <= a->range; bits += STEP) {
                src[count++] = (float)sign * x;
                memcpy(&x, &bits, sizeof x);
            }
            double *y = run_on(device, a->forward, src, count);
            double *s = run_on(device, a->backward, src, count);
            for (int i = 0; i < count; i++) {
                double at = (double)src[i], exact = a->value(at);
                if (fabs(exact) > 1.2e-38) note(fabs(y[i] - exact) / fabs(exact), at, &e.value, &e.value_at);
                note(fabs(s[i] - a->slope(at)), at, &e.slope, &e.slope_at);
            }
            free(y);
            free(s);
        }
    }
    print_message("%s, width %d: %s %.2g of its value (at %.8g), derivative %.2g (at %.8g)\n", type, width, a->name,
        e.value, e.value_at, e.slope, e.slope_at);
    if (!(e.value <= a->value_error) || !(e.slope <= a->slope_error))
        fail_msg("%s, %s, width %d: errors %.3g at %.9g and %.3g at %.9g, allowed %.3g and %.3g", a->name, type, width,
            e.value, e.value_at, e.slope, e.slope_at, a->value_error, a->slope_error);
    free(src);
    ls_device_close(device);
}

static void against_double_over_the_whole_range(void **unused) {
    (void)unused;
    for (int a = 0; a < ACTIVATIONS; a++) {
        for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2) sweep(&activations[a], "cpu", width);
    }
}

// What no range holds, of gelu and silu, and of the sigmoid. A value of 9 stands for NaN.
static const struct {
    float x, value, slope, sigmoid, sigmoid_slope;
} specials[] = {
    { 0.0F, 0, 0.5F, 0.5F, 0.25F },
    { 40.0F, 40, 1, 1, 4.2483543e-18F },
    { 1e30F, 1e30F, 1, 1, 0 },
    { -1e3F, 0, 0, 0, 0 },
    { -1e30F, 0, 0, 0, 0 },
    { 1e-40F, 5e-41F, 0.5F, 0.5F, 0.25F },
    { INFINITY, INFINITY, 9, 1, 0 },
    { -INFINITY, 9, 9, 0, 0 },
    { NAN, 9, 9, 9, 9 },
};
enum { SPECIALS = sizeof specials / sizeof *specials };

static void check_special(const char *what, const char *type, float x, double got, float expected) {
    int same = expected == 9 ? isnan(got)
                             : fabs(got - (double)expected) <= 1e-6 * fabs((double)expected) || got == (double)expected;
    if (!same) fail_msg("%s: %s of %g is %g, expected %g (9: NaN)", type, what, (double)x, got, (double)expected);
}

static void check_specials(const activation *a, const char *type, int width) {
    ls_device *device = device_open(type, width);
    for (int first = 0; first < SPECIALS; first++) { // each of them in each place of a vector
        float src[SPECIALS + 8] = { 0 };
        for (int i = 0; i < SPECIALS; i++) src[first + i < SPECIALS + 8 ? first + i : i] = specials[i].x;
        double *y = run_on(device, a->forward, src, SPECIALS + 8);
        double *s = run_on(device, a->backward, src, SPECIALS + 8);
        for (int i = 0; i < SPECIALS && first + i < SPECIALS + 8; i++) {
            check_special(
                a->name, type, specials[i].x, y[first + i], a->keeps_sign ? specials[i].value : specials[i].sigmoid);
            check_special("derivative", type, specials[i].x, s[first + i],
                a->keeps_sign ? specials[i].slope : specials[i].sigmoid_slope);
        }
        free(y);
        free(s);
    }
    ls_device_close(device);
}

static void infinities_and_what_is_no_number(void **unused) {
    (void)unused;
    for (int a = 0; a < ACTIVATIONS; a++) {
        check_specials(&activations[a], "ref", 0);
        for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2)
            check_specials(&activations[a], "cpu", width);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_double_over_the_whole_range),
        cmocka_unit_test(infinities_and_what_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
