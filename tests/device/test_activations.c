// The activations over all of their range against double: every device, on values that random cases do not meet.
#include "op_harness.h"
#include "device/widths.h"
#include "support/cmocka.h"

enum { STEP = 997, COUNT = 1 << 22 };

// The formulas as PyTorch has them. p: the parameter, PARAMETER where there is one.
#define PARAMETER 0.3
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

static double leaky_relu(double x) {
    return x > 0 ? x : x * (double)(float)PARAMETER;
}

static double leaky_relu_slope(double x) {
    return x > 0 ? 1 : (double)(float)PARAMETER;
}

static double relu6(double x) {
    return fmin(fmax(x, 0), 6);
}

static double relu6_slope(double x) {
    return x <= 0 || x >= 6 ? 0 : 1;
}

static double elu(double x) {
    return x > 0 ? x : (double)(float)PARAMETER * expm1(x);
}

static double elu_slope(double x) {
    return x > 0 ? 1 : (double)(float)PARAMETER * exp(x);
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double gelu_tanh_slope(double x) {
    const double k = sqrt(2 / acos(-1)), t = tanh(k * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
}

static double hardsigmoid(double x) {
    return relu6(x + 3) / 6;
}

static double hardsigmoid_slope(double x) {
    return x > -3 && x < 3 ? 1.0 / 6 : 0;
}

static double hardswish(double x) {
    return x * relu6(x + 3) / 6;
}

static double hardswish_slope(double x) {
    return x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1;
}

static double softplus(double x) {
    return x > 20 ? x : log1p(exp(x));
}

static double mish(double x) {
    return x * tanh(softplus(x));
}

static double mish_slope(double x) {
    const double t = tanh(softplus(x));
    return t + x * sigmoid(x) * (1 - t * t);
}

static double tanh_slope(double x) {
    return 1 - tanh(x) * tanh(x);
}

// activations.h's promise for fp32. Relative: of values, as far down as they are ordinary numbers. The derivative may
// cross 0, so its error is absolute. Beyond the range the formulas above lose digits.
typedef struct {
    ls_activation kind;
    double (*value)(double), (*slope)(double);
    float range;
    double value_error, slope_error;
} activation;

static const activation activations[] = {
    { LS_ACTIVATION_GELU, gelu, gelu_slope, 12.5F, 5e-7, 3e-7 },
    { LS_ACTIVATION_SILU, silu, silu_slope, 80, 5e-7, 3e-7 },
    { LS_ACTIVATION_SIGMOID, sigmoid, sigmoid_slope, 80, 5e-7, 3e-7 },
    { LS_ACTIVATION_LEAKY_RELU, leaky_relu, leaky_relu_slope, 80, 1e-7, 0 },
    { LS_ACTIVATION_RELU6, relu6, relu6_slope, 80, 0, 0 },
    { LS_ACTIVATION_ELU, elu, elu_slope, 80, 5e-7, 3e-7 },
    { LS_ACTIVATION_GELU_TANH, gelu_tanh, gelu_tanh_slope, 4, 5e-6, 5e-7 },
    { LS_ACTIVATION_HARDSIGMOID, hardsigmoid, hardsigmoid_slope, 80, 2e-7, 1e-7 },
    { LS_ACTIVATION_HARDSWISH, hardswish, hardswish_slope, 80, 3e-7, 3e-7 },
    { LS_ACTIVATION_MISH, mish, mish_slope, 80, 5e-7, 5e-7 },
    { LS_ACTIVATION_TANH, tanh, tanh_slope, 80, 5e-7, 3e-7 },
    { LS_ACTIVATION_SOFTPLUS, softplus, sigmoid, 80, 5e-7, 3e-7 },
};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

static const char *name_of(ls_activation kind) {
    static const char *const names[LS_ACTIVATION_COUNT] = {
#define ACTIVATION(NAME, name, zero, text) [LS_ACTIVATION_##NAME] = #name,
#include "config/activations.def"
    };
    return names[kind];
}

// Runs the operator on `count` values of src, with gradients of 1.
static double *run_on(ls_device *device, ls_op op, ls_activation kind, const float *src, int count) {
    op_case *c = case_new(op, LS_F32, "activation", "");
    ls_nchw shape = { 1, count, 1, 1 };
    c->desc.attr.elementwise =
        (ls_elementwise_attr){ .shape = shape, .storage = LS_F32, .activation = kind, .parameter = (float)PARAMETER };
    int dst = ls_op_args(op) - 1;
    memcpy(case_activation(c, 0, USE_IN, shape, 0)->host, src, (size_t)count * sizeof *src);
    if (dst == LS_ACTIVATION_BACKWARD_GRAD_SRC)
        fill_uniform(c, case_activation(c, LS_ACTIVATION_BACKWARD_GRAD_DST, USE_IN, shape, 0), 1, 1);
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
            double *y = run_on(device, LS_OP_ACTIVATION_FORWARD, a->kind, src, count);
            double *s = run_on(device, LS_OP_ACTIVATION_BACKWARD, a->kind, src, count);
            for (int i = 0; i < count; i++) {
                double at = (double)src[i], exact = a->value(at);
                if (fabs(exact) > 1.2e-38) note(fabs(y[i] - exact) / fabs(exact), at, &e.value, &e.value_at);
                note(fabs(s[i] - a->slope(at)), at, &e.slope, &e.slope_at);
            }
            free(y);
            free(s);
        }
    }
    print_message("%s, width %d: %s %.2g of its value (at %.8g), derivative %.2g (at %.8g)\n", type, width,
        name_of(a->kind), e.value, e.value_at, e.slope, e.slope_at);
    if (!(e.value <= a->value_error) || !(e.slope <= a->slope_error))
        fail_msg("%s, %s, width %d: errors %.3g at %.9g and %.3g at %.9g, allowed %.3g and %.3g", name_of(a->kind),
            type, width, e.value, e.value_at, e.slope, e.slope_at, a->value_error, a->slope_error);
    free(src);
    ls_device_close(device);
}

static void against_double_over_the_whole_range(void **unused) {
    (void)unused;
    for (int a = 0; a < ACTIVATIONS; a++) {
        for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2) sweep(&activations[a], "cpu", width);
    }
}

// Values that no range holds, and kinks: x, f(x) and f'(x). 9 stands for NaN.
#define INF INFINITY
#define FLAT \
    { -1e3F, 0, 0 }, { \
        -1e30F, 0, 0 \
    }
#define LINEAR \
    { 40, 40, 1 }, { \
        1e30F, 1e30F, 1 \
    }
enum { SPECIALS = 12 };
static const struct {
    ls_activation kind;
    struct {
        float x, value, slope;
    } at[SPECIALS];
} specials[] = {
    { LS_ACTIVATION_GELU,
        { { 0, 0, 0.5F }, LINEAR, FLAT, { 1e-40F, 5e-41F, 0.5F }, { INF, INF, 9 }, { -INF, 9, 9 }, { NAN, 9, 9 } } },
    { LS_ACTIVATION_SILU,
        { { 0, 0, 0.5F }, LINEAR, FLAT, { 1e-40F, 5e-41F, 0.5F }, { INF, INF, 9 }, { -INF, 9, 9 }, { NAN, 9, 9 } } },
    { LS_ACTIVATION_GELU_TANH,
        { { 0, 0, 0.5F }, LINEAR, FLAT, { 1e-40F, 5e-41F, 0.5F }, { INF, INF, 1 }, { -INF, 9, 0 }, { NAN, 9, 9 } } },
    { LS_ACTIVATION_MISH,
        { { 0, 0, 0.6F }, LINEAR, FLAT, { 1e-40F, 6e-41F, 0.6F }, { INF, INF, 9 }, { -INF, 9, 9 }, { NAN, 9, 9 } } },
    { LS_ACTIVATION_SIGMOID, { { 0, 0.5F, 0.25F }, { 40, 1, 4.2483543e-18F }, { 1e30F, 1, 0 }, FLAT,
                                 { 1e-40F, 0.5F, 0.25F }, { INF, 1, 0 }, { -INF, 0, 0 }, { NAN, 9, 9 } } },
    { LS_ACTIVATION_TANH, { { 0, 0, 1 }, { 1e30F, 1, 0 }, { -1e30F, -1, 0 }, { 1e-40F, 1e-40F, 1 }, { INF, 1, 0 },
                              { -INF, -1, 0 }, { NAN, 9, 9 } } },
    { LS_ACTIVATION_SOFTPLUS,
        { { 0, 0.693147181F, 0.5F }, LINEAR, FLAT, { INF, INF, 1 }, { -INF, 0, 0 }, { NAN, 9, 9 } } },
    { LS_ACTIVATION_LEAKY_RELU,
        { { 0, 0, 0.3F }, LINEAR, { -1e30F, -3e29F, 0.3F }, { INF, INF, 1 }, { -INF, -INF, 0.3F }, { NAN, 9, 0.3F } } },
    { LS_ACTIVATION_ELU,
        { { 0, 0, 0.3F }, LINEAR, { -1e3F, -0.3F, 0 }, { INF, INF, 1 }, { -INF, -0.3F, 0 }, { NAN, 9, 1 } } },
    { LS_ACTIVATION_RELU6, { { 0, 0, 0 }, { 6, 6, 0 }, { 5.5F, 5.5F, 1 }, { 1e30F, 6, 0 }, FLAT, { INF, 6, 0 },
                               { -INF, 0, 0 }, { NAN, 9, 1 } } },
    { LS_ACTIVATION_HARDSIGMOID, { { 0, 0.5F, 1 / 6.0F }, { 3, 1, 0 }, { -3, 0, 0 }, { 1e30F, 1, 0 }, FLAT,
                                     { INF, 1, 0 }, { -INF, 0, 0 }, { NAN, 9, 0 } } },
    { LS_ACTIVATION_HARDSWISH,
        { { 0, 0, 0.5F }, { 3, 3, 1 }, { -3, 0, 0 }, LINEAR, FLAT, { INF, INF, 1 }, { -INF, 9, 0 }, { NAN, 9, 9 } } },
};
_Static_assert(sizeof specials / sizeof *specials == ACTIVATIONS, "a row for each activation");

static void check_special(const char *name, const char *what, const char *type, float x, double got, float expected) {
    int same = expected == 9 ? isnan(got)
                             : fabs(got - (double)expected) <= 1e-6 * fabs((double)expected) || got == (double)expected;
    if (!same)
        fail_msg("%s: %s, %s at %g is %g, expected %g (9: NaN)", type, name, what, (double)x, got, (double)expected);
}

static void check_specials(const char *type, int width) {
    ls_device *device = device_open(type, width);
    for (int a = 0; a < ACTIVATIONS; a++)
        for (int first = 0; first < SPECIALS; first++) { // each of them in each place of a vector
            float src[2 * SPECIALS] = { 0 };
            for (int i = 0; i < SPECIALS; i++) src[first + i] = specials[a].at[i].x;
            double *y = run_on(device, LS_OP_ACTIVATION_FORWARD, specials[a].kind, src, 2 * SPECIALS);
            double *s = run_on(device, LS_OP_ACTIVATION_BACKWARD, specials[a].kind, src, 2 * SPECIALS);
            for (int i = 0; i < SPECIALS && (i == 0 || specials[a].at[i].x != 0); i++) {
                const float x = specials[a].at[i].x;
                check_special(name_of(specials[a].kind), "value", type, x, y[first + i], specials[a].at[i].value);
                check_special(name_of(specials[a].kind), "slope", type, x, s[first + i], specials[a].at[i].slope);
            }
            free(y);
            free(s);
        }
    ls_device_close(device);
}

static void infinities_and_what_is_no_number(void **unused) {
    (void)unused;
    check_specials("ref", 0);
    for (int width = LS_TEST_NARROWEST; width <= widest(); width *= 2) check_specials("cpu", width);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_double_over_the_whole_range),
        cmocka_unit_test(infinities_and_what_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
