#include "deploy/quantise.h"

#include <math.h>
#include "base/memory.h"

enum { WEIGHT_MAX = 127, SHIFT_MAX = 30 };
static const double bias_most = 1 << 30;

// --- scales ----------------------------------------------------------------------------------------

// Widens the range to contain 0 and divides it into 255 steps; `zero` is the integer that stands for 0.
static void set_scale(ls_network_value *v) {
    const double least = fmin(v->least, 0), most = fmax(v->most, 0);
    v->scale = most > least ? (most - least) / 255 : 1;
    v->scale = (double)(float)v->scale; // as the C file has it
    const double zero = round(-128 - least / v->scale);
    v->zero = (int)fmin(fmax(zero, -128), 127);
}

static void set_scales(ls_network *n) {
    for (int i = 0; i < n->step_count; i++) {
        const ls_step *s = &n->steps[i];
        if (s->output < 0) continue;
        ls_network_value *v = &n->values[s->output];
        if (!v->fixed) set_scale(v);
        if (s->kind != LS_STEP_MAX_POOL && s->kind != LS_STEP_SHORTCUT) continue;
        v->scale = n->values[s->inputs[0]].scale;
        v->zero = n->values[s->inputs[0]].zero;
    }
}

// Writes a positive factor as multiplier / 2^31 * 2^shift, with a multiplier from 2^30 on. A factor below 2^-32 is 0.
// Returns 0 if it is too large.
static int split_factor(double factor, int32_t *multiplier, int32_t *shift) {
    int exponent;
    int64_t fraction = (int64_t)round(ldexp(frexp(factor, &exponent), 31));
    if (fraction == (int64_t)1 << 31) {
        fraction /= 2;
        exponent++;
    }
    if (exponent < -31) fraction = exponent = 0;
    *multiplier = (int32_t)fraction;
    *shift = exponent;
    return exponent <= SHIFT_MAX;
}

static int8_t quantised(double real, const ls_network_value *v) {
    return (int8_t)fmin(fmax(round(real / v->scale) + v->zero, -128), 127);
}

static ls_status fail(const ls_network *n, const ls_step *s, const char *what) {
    return ls_fail(LS_USAGE, "%s: layer '%s' has no int8 form: %s", n->info->graph->path, s->name, what);
}

// Sets element `at` of the step's multipliers and shifts.
static ls_status set_factor(const ls_network *n, ls_step *s, double factor, int at) {
    int32_t *numbers = s->numbers + at;
    if (split_factor(factor, &numbers[s->number_count], &numbers[2 * (ptrdiff_t)s->number_count])) return LS_SUCCESS;
    return fail(n, s, "its output is more than 2^30 times finer than its input: is it always 0 in training pictures?");
}

// --- weights ---------------------------------------------------------------------------------------

int64_t ls_step_weight_place(const ls_step *s, int o, int at) {
    const window *w = &s->floats.w;
    const int ins = w->in_c / w->groups, outs = w->out_c / w->groups, kernel = w->kernel_h * w->kernel_w;
    if (s->kind == LS_STEP_DEPTHWISE) return (int64_t)at * w->out_c + o;
    return (((int64_t)(o / outs) * kernel + at / ins) * ins + at % ins) * outs + o % outs;
}

// Returns the place of the same weight in the integers' order.
static int64_t integer_place(const ls_step *s, int o, int at, int each) {
    return s->kind == LS_STEP_DEPTHWISE ? ls_step_weight_place(s, o, at) : (int64_t)o * each + at;
}

// Returns the scale of the weights of output channel o. If the weights are all 0, the scale makes the factor 1; if they
// are so small that the bias would not fit into an int32, the scale is larger.
static double weight_scale(const ls_step *s, int o, int each, double in_scale, double out_scale) {
    double most = 0;
    for (int at = 0; at < each; at++) most = fmax(most, fabs((double)s->weight[ls_step_weight_place(s, o, at)]));
    const double scale = most > 0 ? most / WEIGHT_MAX : out_scale / in_scale;
    return fmax(scale, fabs((double)s->bias[o]) / (in_scale * bias_most));
}

static int is_constant(const ls_step *s, int o, int each) {
    for (int at = 0; at < each; at++)
        if (s->weight[ls_step_weight_place(s, o, at)] != 0) return 0;
    return 1;
}

static ls_status set_channel(const ls_network *n, ls_step *s, int o, int each) {
    const double in_scale = n->values[s->inputs[0]].scale, out_scale = n->values[s->output].scale;
    const double scale = weight_scale(s, o, each, in_scale, out_scale);
    const double bias = round((double)s->bias[o] / (in_scale * scale));
    double largest = fabs(bias);
    for (int at = 0; at < each; at++) {
        const double q = round((double)s->weight[ls_step_weight_place(s, o, at)] / scale);
        s->table[integer_place(s, o, at, each)] = (int8_t)q;
        largest += 255 * fabs(q);
    }
    if (largest > INT32_MAX) return fail(n, s, "its sums do not fit into int32: it has too many inputs");
    s->numbers[o] = (int32_t)bias;
    return set_factor(n, s, in_scale * scale / out_scale, o);
}

static ls_status make_weights(ls_network *n, ls_step *s, ls_quantised *result) {
    const int channels = s->bias_count, each = (int)(s->weight_count / channels);
    for (int o = 0; o < channels; o++) {
        LS_TRY(set_channel(n, s, o, each));
        if (!is_constant(s, o, each)) continue;
        result->constant_channels++;
        result->constant_layer = s->name;
    }
    return LS_SUCCESS;
}

// --- other steps -----------------------------------------------------------------------------------

static ls_status make_normalise(ls_network *n, ls_step *s, ls_quantised *result) {
    (void)result;
    for (int c = 0; c < s->bias_count; c++)
        for (int p = 0; p < 256; p++)
            s->table[c * 256 + p] = quantised(p * (double)s->weight[c] + (double)s->bias[c], &n->values[s->output]);
    return LS_SUCCESS;
}

static ls_status make_table(ls_network *n, ls_step *s, ls_quantised *result) {
    (void)result;
    const ls_network_value *from = &n->values[s->inputs[0]], *to = &n->values[s->output];
    for (int q = -128; q < 128; q++) {
        const double x = (q - from->zero) * from->scale * (double)s->floats.factor;
        const double y = ls_activation_value((ls_activation)s->floats.activation, (double)s->floats.parameter, x);
        s->table[q + 128] = quantised(y, to);
    }
    return LS_SUCCESS;
}

static ls_status make_mean(ls_network *n, ls_step *s, ls_quantised *result) {
    (void)result;
    const double elements = (double)s->floats.w.kernel_h * s->floats.w.kernel_w;
    return set_factor(n, s, n->values[s->inputs[0]].scale / (n->values[s->output].scale * elements), 0);
}

static ls_status make_add(ls_network *n, ls_step *s, ls_quantised *result) {
    (void)result;
    const double a = n->values[s->inputs[0]].scale, b = n->values[s->inputs[1]].scale, twice = 2 * fmax(a, b);
    LS_TRY(set_factor(n, s, a / twice, 0));
    LS_TRY(set_factor(n, s, b / twice, 1));
    return set_factor(n, s, twice / ((1 << 20) * n->values[s->output].scale), 2);
}

static ls_status make_multiply(ls_network *n, ls_step *s, ls_quantised *result) {
    (void)result;
    return set_factor(
        n, s, n->values[s->inputs[0]].scale * n->values[s->inputs[1]].scale / n->values[s->output].scale, 0);
}

// How the integers of a kind of step are made, and how many it has: bytes of table (NORMALISE: for each channel), and
// factors; -1: as many as its weights and its biases.
static const struct {
    ls_status (*make)(ls_network *n, ls_step *s, ls_quantised *result);
    int table, factors;
} kinds[LS_STEP_COUNT] = {
    [LS_STEP_NORMALISE] = { make_normalise, 256, 0 },
    [LS_STEP_CONV] = { make_weights, -1, -1 },
    [LS_STEP_DEPTHWISE] = { make_weights, -1, -1 },
    [LS_STEP_MEAN_POOL] = { make_mean, 0, 1 },
    [LS_STEP_ADD] = { make_add, 0, 3 },
    [LS_STEP_MULTIPLY] = { make_multiply, 0, 1 },
    [LS_STEP_MAP] = { make_table, 256, 0 },
    [LS_STEP_JOIN] = { make_table, 256, 0 },
};

// Makes room for the step's integers, and gives its kernel the places.
static void make_room(ls_step *s) {
    const int table = kinds[s->kind].table, factors = kinds[s->kind].factors;
    s->table_count = table < 0                      ? s->weight_count
                     : s->kind == LS_STEP_NORMALISE ? (int64_t)table * s->bias_count
                                                    : table;
    s->number_count = factors < 0 ? s->bias_count : factors;
    s->table = ls_new(s->table_count + 1, sizeof *s->table, "integers of %s", s->name);
    s->numbers = ls_new(3 * (size_t)s->number_count + 1, sizeof *s->numbers, "integers of %s", s->name);
    s->integers.w = s->floats.w;
    s->integers.first = s->floats.first;
    s->integers.weight = s->table;
    s->integers.bias = s->numbers;
    s->integers.multiplier = s->numbers + s->number_count;
    s->integers.shift = s->numbers + 2 * (ptrdiff_t)s->number_count;
}

ls_status ls_integers_make(ls_network *n, ls_quantised *result) {
    result->constant_channels = 0;
    result->constant_layer = NULL;
    set_scales(n);
    for (int i = 0; i < n->step_count; i++) {
        ls_step *s = &n->steps[i];
        int8_layer *to = &s->integers;
        if (!s->table) make_room(s);
        if (s->input_count > 0) to->a = n->values[s->inputs[0]].zero;
        if (s->input_count > 0) to->scale = (float)n->values[s->inputs[0]].scale;
        if (s->input_count > 1) to->b = n->values[s->inputs[1]].zero;
        if (s->output >= 0) to->out = n->values[s->output].zero;
        to->low = s->floats.activation == LS_ACTIVATION_RELU ? to->out : -128;
        if (kinds[s->kind].make) LS_TRY(kinds[s->kind].make(n, s, result));
    }
    return LS_SUCCESS;
}
