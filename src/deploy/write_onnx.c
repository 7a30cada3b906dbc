#include "deploy/write_onnx.h"

#include "formats/onnx.h"

#ifdef LOCKSTEP_WITHOUT_ONNX

ls_status ls_write_onnx(const char *path, const ls_network *network, int *operator_set) {
    (void)network;
    return ls_onnx_write(path, NULL, NULL, operator_set);
}

#else

#include <math.h>
#include "base/memory.h"
#include "formats/onnx_graph.h"

typedef struct {
    const ls_network *network;
    ls_onnx_graph *onnx;
    const char **names; // by value: the node that dequantises it; NULL: not computed yet
} builder;

static const char *input_of(const builder *b, const ls_step *s, int number) {
    return b->names[s->inputs[number]];
}

// Adds a node that makes real numbers of integers. axis: dimension that has a scale for each index; -1: one scale.
static const char *dequantise(
    builder *b, const ls_step *s, const char *what, const char *from, const char *scale, const char *zero, int axis) {
    const char *name = ls_onnx_node(b->onnx, LS_ONNX_DequantizeLinear, from, "%s/%s", s->name, what);
    ls_onnx_input(b->onnx, scale);
    ls_onnx_input(b->onnx, zero);
    if (axis >= 0) ls_onnx_int(b->onnx, "axis", axis);
    return name;
}

// Adds the nodes that quantise and dequantise the step's output, which node `from` computes.
static void quantise(builder *b, const ls_step *s, const char *from) {
    const ls_network_value *v = &b->network->values[s->output];
    const uint8_t point = (uint8_t)(v->zero + 128);
    const char *scale = ls_onnx_number(b->onnx, (float)v->scale, s->name, "scale");
    const char *zero = ls_onnx_tensor(b->onnx, LS_ONNX_UINT8, 0, NULL, &point, "%s/zero", s->name);
    const char *integers = ls_onnx_node(b->onnx, LS_ONNX_QuantizeLinear, from, "%s/uint8", s->name);
    ls_onnx_input(b->onnx, scale);
    ls_onnx_input(b->onnx, zero);
    b->names[s->output] = dequantise(b, s, "value", integers, scale, zero, -1);
}

// --- normalisation ---------------------------------------------------------------------------------

// Returns how many pixels get another integer by the nodes, in floats, than by the step's table, in double.
static int count_others(const builder *b, int channel, float mean, float std) {
    const ls_step *s = &b->network->steps[0];
    const ls_network_value *v = &b->network->values[s->output];
    const float shift = (float)(255.0 * (double)mean), divisor = (float)(255.0 * (double)std);
    int others = 0;
    for (int p = 0; p < 256; p++) {
        const float q = rintf(((float)p - shift) / divisor / (float)v->scale) + (float)v->zero;
        others += (int)fminf(fmaxf(q, -128), 127) != s->table[channel * 256 + p];
    }
    return others;
}

// With a mean of 0.5 each pixel lies halfway between two integers, and floats round some up and others down. So mean
// and std are moved by up to 2^-16 of themselves, if that gives more pixels the table's integers.
static void fit_normalisation(const builder *b, int channel, float *mean, float *std) {
    const float given_mean = *mean, given_std = *std;
    int least = count_others(b, channel, given_mean, given_std);
    for (int i = 0; i < 9 && least > 0; i++) {
        const float m = given_mean * (1 + ldexpf((float)(i % 3 - 1), -16)),
                    d = given_std * (1 + ldexpf((float)(i / 3 - 1), -16));
        const int others = count_others(b, channel, m, d);
        if (others >= least) continue;
        least = others;
        *mean = m;
        *std = d;
    }
}

static void put_normalisation(builder *b) {
    ls_weights_info own = *b->network->info;
    for (int c = 0; c < own.graph->input.c; c++) fit_normalisation(b, c, &own.mean[c], &own.std[c]);
    quantise(b, b->network->steps, ls_onnx_normalisation(b->onnx, &own));
}

// --- weights ---------------------------------------------------------------------------------------

// Returns the scale of the weights of output channel o, which follows from the factor that the integers have. A factor
// of 0 stands for all factors below 2^-32: no sum is then more than half a step of the output.
static double weight_scale(const ls_network *n, const ls_step *s, int o) {
    const int32_t multiplier = s->integers.multiplier[o];
    const double factor = multiplier ? ldexp(multiplier, s->integers.shift[o] - 31) : ldexp(1, -33);
    return factor * n->values[s->output].scale / n->values[s->inputs[0]].scale;
}

// Adds the weights in ONNX's order, (out_c, in_c / groups, kernel_h, kernel_w).
static const char *put_weights(builder *b, const ls_step *s) {
    const window *w = &s->floats.w;
    const int ins = w->in_c / w->groups, kernel = w->kernel_h * w->kernel_w;
    int8_t *weights = ls_new(s->table_count, sizeof *weights, "weights of %s", s->name), *to = weights;
    for (int o = 0; o < w->out_c; o++)
        for (int i = 0; i < ins; i++)
            for (int k = 0; k < kernel; k++)
                *to++ = s->table[s->kind == LS_STEP_DEPTHWISE ? (ptrdiff_t)k * w->out_c + o
                                                              : ((ptrdiff_t)o * kernel + k) * ins + i];
    const char *name = ls_onnx_tensor(b->onnx, LS_ONNX_INT8, 4,
        (const int[]){ w->out_c, ins, w->kernel_h, w->kernel_w }, weights, "%s/weight/int8", s->name);
    free(weights);
    return name;
}

// Adds the nodes that give weights and biases. Sets *weight and *bias to their names.
static void put_parameters(builder *b, const ls_step *s, const char **weight, const char **bias) {
    const ls_network *n = b->network;
    const int channels = s->number_count;
    float *scales = ls_new(2 * (size_t)channels, sizeof *scales, "scales of %s", s->name);
    int32_t *zeros = ls_new(channels, sizeof *zeros, "zero points of %s", s->name); // as bytes, too
    for (int o = 0; o < channels; o++) {
        scales[o] = (float)weight_scale(n, s, o);
        scales[channels + o] = (float)(n->values[s->inputs[0]].scale * (double)scales[o]);
    }
    const char *scale = ls_onnx_tensor(b->onnx, LS_ONNX_FLOAT, 1, &channels, scales, "%s/weight/scale", s->name);
    const char *zero = ls_onnx_tensor(b->onnx, LS_ONNX_INT8, 1, &channels, zeros, "%s/weight/zero", s->name);
    *weight = dequantise(b, s, "weight", put_weights(b, s), scale, zero, 0);
    const char *integers =
        ls_onnx_tensor(b->onnx, LS_ONNX_INT32, 1, &channels, s->integers.bias, "%s/bias/int32", s->name);
    scale = ls_onnx_tensor(b->onnx, LS_ONNX_FLOAT, 1, &channels, scales + channels, "%s/bias/scale", s->name);
    zero = ls_onnx_tensor(b->onnx, LS_ONNX_INT32, 1, &channels, zeros, "%s/bias/zero", s->name);
    *bias = dequantise(b, s, "bias", integers, scale, zero, 0);
    free(scales);
    free(zeros);
}

// --- steps: each adds a node that is called `name` ---------------------------------------------------

// Returns the padding after the input with which a window of this extent ends at the last output. ONNX then needs no
// ceil_mode.
static int pad_after(int in, int out, int extent, int stride, int pad) {
    const int needed = (out - 1) * stride + extent - in - pad;
    return needed > 0 ? needed : 0;
}

static void put_window(builder *b, const window *w) {
    const int extent_h = (w->kernel_h - 1) * w->dilation + 1, extent_w = (w->kernel_w - 1) * w->dilation + 1;
    const ls_pair after = { pad_after(w->in_h, w->out_h, extent_h, w->stride_h, w->pad_h),
        pad_after(w->in_w, w->out_w, extent_w, w->stride_w, w->pad_w) };
    ls_onnx_window(b->onnx, (ls_pair){ w->kernel_h, w->kernel_w }, (ls_pair){ w->stride_h, w->stride_w },
        (ls_pair){ w->pad_h, w->pad_w }, after);
}

static void put_conv(builder *b, const ls_step *s, const char *name) {
    const window *w = &s->floats.w;
    const char *weight, *bias;
    put_parameters(b, s, &weight, &bias);
    ls_onnx_node(b->onnx, LS_ONNX_Conv, input_of(b, s, 0), "%s", name);
    ls_onnx_input(b->onnx, weight);
    ls_onnx_input(b->onnx, bias);
    put_window(b, w);
    ls_onnx_ints(b->onnx, "dilations", 2, (const int64_t[]){ w->dilation, w->dilation });
    ls_onnx_int(b->onnx, "group", w->groups);
}

static void put_max_pool(builder *b, const ls_step *s, const char *name) {
    ls_onnx_node(b->onnx, LS_ONNX_MaxPool, input_of(b, s, 0), "%s", name);
    put_window(b, &s->floats.w);
}

static void put_mean_pool(builder *b, const ls_step *s, const char *name) {
    ls_onnx_node(b->onnx, LS_ONNX_AveragePool, input_of(b, s, 0), "%s", name);
    put_window(b, &s->floats.w);
    ls_onnx_int(b->onnx, "count_include_pad", 1);
}

static void put_add(builder *b, const ls_step *s, const char *name) {
    ls_onnx_node(b->onnx, s->kind == LS_STEP_ADD ? LS_ONNX_Add : LS_ONNX_Mul, input_of(b, s, 0), "%s", name);
    ls_onnx_input(b->onnx, input_of(b, s, 1));
}

static void put_map(builder *b, const ls_step *s, const char *name) {
    ls_onnx_node(b->onnx, LS_ONNX_Mul, input_of(b, s, 0), "%s", name);
    ls_onnx_input(b->onnx, ls_onnx_number(b->onnx, s->floats.factor, s->name, "factor"));
}

static void put_shortcut(builder *b, const ls_step *s, const char *name) {
    const window *w = &s->floats.w;
    ls_onnx_shortcut(b->onnx, w->stride_h, w->in_c, w->out_c, input_of(b, s, 0), name);
}

static void (*const put_step[LS_STEP_COUNT])(builder *b, const ls_step *s, const char *name) = {
    [LS_STEP_CONV] = put_conv,
    [LS_STEP_DEPTHWISE] = put_conv,
    [LS_STEP_MAX_POOL] = put_max_pool,
    [LS_STEP_MEAN_POOL] = put_mean_pool,
    [LS_STEP_ADD] = put_add,
    [LS_STEP_MULTIPLY] = put_add,
    [LS_STEP_MAP] = put_map,
    [LS_STEP_SHORTCUT] = put_shortcut, // ls_network_new has refused a group norm
};

// Adds a slice, or the inputs of a concat, which are steps with one output. Returns the last of these steps.
static const ls_step *put_join(builder *b, const ls_step *s) {
    const int output = s->output, shuffles = s->floats.w.groups == 2;
    const window *w = &s->floats.w;
    if (w->out_c < w->in_c) {
        quantise(b, s, ls_onnx_slice(b->onnx, -s->floats.first, w->out_c, input_of(b, s, 0), s->name));
        return s;
    }
    const char *joined =
        ls_onnx_node(b->onnx, LS_ONNX_Concat, input_of(b, s, 0), shuffles ? "%s/joined" : "%s", s->name);
    for (; s[1].output == output; s++) ls_onnx_input(b->onnx, input_of(b, s + 1, 0));
    ls_onnx_int(b->onnx, "axis", 1);
    const ls_chw out = { w->out_c, w->out_h, w->out_w };
    quantise(b, s, shuffles ? ls_onnx_interleave(b->onnx, out, 4, joined, s->name) : joined);
    return s;
}

static void put_activated(builder *b, const ls_step *s) {
    const ls_activation activation = (ls_activation)s->floats.activation;
    char name[2 * LS_NAME_BYTES];
    const char *from = name;
    snprintf(name, sizeof name, activation ? "%s/linear" : "%s", s->name);
    if (s->kind == LS_STEP_MAP && s->floats.factor == 1)
        from = input_of(b, s, 0);
    else
        put_step[s->kind](b, s, name);
    if (activation) from = ls_onnx_activation(b->onnx, activation, (double)s->floats.parameter, from, s->name);
    quantise(b, s, from);
}

static ls_status write_model(const char *path, builder *b, int *operator_set) {
    const ls_network *n = b->network;
    const ls_step *const logits = &n->steps[n->step_count - 1];
    put_normalisation(b);
    for (const ls_step *s = n->steps + 1; s < logits; s++)
        if (s->kind == LS_STEP_JOIN)
            s = put_join(b, s);
        else
            put_activated(b, s);
    const char *output = ls_onnx_node(b->onnx, LS_ONNX_Flatten, input_of(b, logits, 0), "%s/logits", logits[-1].name);
    ls_onnx_int(b->onnx, "axis", 1);
    return ls_onnx_graph_write(b->onnx, path, n->info, output, operator_set);
}

ls_status ls_write_onnx(const char *path, const ls_network *network, int *operator_set) {
    builder b = { .network = network };
    b.names = ls_new(network->value_count, sizeof *b.names, "names of ONNX values");
    b.onnx = ls_onnx_graph_new();
    const ls_status status = write_model(path, &b, operator_set);
    free(b.names);
    ls_onnx_graph_free(b.onnx);
    return status;
}

#endif
