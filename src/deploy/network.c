#include "deploy/network.h"

#include <math.h>
#include "base/memory.h"
#include "formats/weights.h"

typedef struct {
    ls_network *network;
    const ls_graph *graph;
    const float **params; // by parameter: its values
    int *value_of;        // by layer: the value that it computes
    int *readers;         // by layer: number of layers that read it; the last layer has one more
} builder;

// --- steps and values ------------------------------------------------------------------------------

static int new_value(builder *b, int channels, int area) {
    ls_network *n = b->network;
    n->values = ls_grow(n->values, n->value_count, sizeof *n->values, "values of %s", b->graph->path);
    n->values[n->value_count] = (ls_network_value){ .channels = channels, .area = area };
    return n->value_count++;
}

// output: a value, or -1 for a new one (LOGITS: for no value).
static ls_step *new_step(builder *b, ls_step_kind kind, const char *name, ls_chw in, ls_chw out, int output) {
    ls_network *n = b->network;
    n->steps = ls_grow(n->steps, n->step_count, sizeof *n->steps, "steps of %s", b->graph->path);
    ls_step *s = &n->steps[n->step_count++];
    *s = (ls_step){ .kind = kind, .name = name, .output = output, .first = -1, .last = -1 };
    s->floats.factor = 1;
    s->floats.w = (window){ in.h, in.w, in.c, out.h, out.w, out.c, 1, 1, 1, 1, 0, 0, 1, 1 };
    if (kind != LS_STEP_LOGITS && output < 0) s->output = new_value(b, out.c, out.h * out.w);
    return s;
}

static int value_of(const builder *b, int layer) {
    return layer < 0 ? 0 : b->value_of[layer];
}

static ls_step *step_of_value(const builder *b, int value) {
    for (int i = 0; i < b->network->step_count; i++)
        if (b->network->steps[i].output == value) return &b->network->steps[i];
    return NULL;
}

// Makes a step for layer `index`. The step reads the layer's inputs.
static ls_step *add_step(builder *b, ls_step_kind kind, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    ls_step *s = new_step(b, kind, layer->name, ls_graph_physical(b->graph, layer->inputs[0]), layer->physical, -1);
    for (int i = 0; i < layer->input_count && i < 2; i++) s->inputs[i] = value_of(b, layer->inputs[i]);
    s->input_count = layer->input_count;
    s->first = s->last = index;
    b->value_of[index] = s->output;
    return s;
}

// Returns the step that computes the layer's input number `at`, if the layer may join it: no other layer reads the
// value, no activation and no rounding follows yet, and the step is no NORMALISE or JOIN. NULL: it may not.
static ls_step *joinable(const builder *b, const ls_layer *layer, int at) {
    const int from = layer->inputs[at];
    if (from < 0 || b->readers[from] != 1) return NULL;
    ls_step *s = step_of_value(b, b->value_of[from]);
    const int closed = s->floats.activation || b->network->values[s->output].fixed;
    return s->kind == LS_STEP_NORMALISE || s->kind == LS_STEP_JOIN || closed ? NULL : s;
}

static int has_weights(const ls_step *s) {
    return s->kind == LS_STEP_CONV || s->kind == LS_STEP_DEPTHWISE;
}

static void join(builder *b, ls_step *s, int index) {
    s->name = b->graph->layers[index].name;
    s->last = index;
    b->value_of[index] = s->output;
}

// --- weights ---------------------------------------------------------------------------------------

static void new_weights(ls_step *s, int64_t weights, int biases) {
    s->weight = ls_new(weights, sizeof *s->weight, "weights of %s", s->name);
    s->bias = ls_new(biases, sizeof *s->bias, "biases of %s", s->name);
    s->floats.weight = s->weight;
    s->floats.bias = s->bias;
    s->weight_count = weights;
    s->bias_count = biases;
}

static int channel_of(const ls_step *s, int64_t weight) {
    const int outs = s->floats.w.out_c / s->floats.w.groups;
    if (s->kind == LS_STEP_DEPTHWISE) return (int)(weight % s->floats.w.out_c);
    return (int)(weight / (s->weight_count / s->floats.w.groups)) * outs + (int)(weight % outs);
}

// Multiplies each output channel by factor[c] and then adds shift[c].
static void fold(ls_step *s, const double *factor, const double *shift) {
    for (int64_t i = 0; i < s->weight_count; i++)
        s->weight[i] = (float)((double)s->weight[i] * factor[channel_of(s, i)]);
    for (int c = 0; c < s->bias_count; c++) s->bias[c] = (float)((double)s->bias[c] * factor[c] + shift[c]);
}

// Copies canonical weights (out_c, in_c / groups, kernel_h, kernel_w) into the order of the step's kernel.
static void copy_weights(ls_step *s, const float *from) {
    const window *w = &s->floats.w;
    const int ins = w->in_c / w->groups, outs = w->out_c / w->groups, kernel = w->kernel_h * w->kernel_w;
    for (int o = 0; o < w->out_c; o++)
        for (int i = 0; i < ins; i++)
            for (int k = 0; k < kernel; k++) {
                const int64_t conv = (((int64_t)(o / outs) * kernel + k) * ins + i) * outs + o % outs;
                const int64_t to = s->kind == LS_STEP_DEPTHWISE ? (int64_t)k * w->out_c + o : conv;
                s->weight[to] = *from++;
            }
}

static void take_weights(builder *b, ls_step *s, const ls_layer *layer) {
    const window *w = &s->floats.w;
    const int64_t each = (int64_t)(w->in_c / w->groups) * w->kernel_h * w->kernel_w;
    new_weights(s, each * w->out_c, w->out_c);
    copy_weights(s, b->params[layer->first_param]);
    if (layer->param_count > 1) memcpy(s->bias, b->params[layer->first_param + 1], (size_t)w->out_c * sizeof *s->bias);
    s->multiplications = each * w->out_c * w->out_h * w->out_w;
}

// --- layers: each computes value_of[index] by a step of its own, or joins an earlier step ------------

static void lower_conv2d(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    const ls_layer_conv2d *c = &layer->attr.conv2d;
    const int alone = c->groups == layer->in.c && c->groups == c->out_channels;
    ls_step *s = add_step(b, alone ? LS_STEP_DEPTHWISE : LS_STEP_CONV, index);
    window *w = &s->floats.w;
    w->kernel_h = c->kernel.h, w->kernel_w = c->kernel.w, w->stride_h = c->stride.h, w->stride_w = c->stride.w;
    w->pad_h = c->padding.h, w->pad_w = c->padding.w, w->dilation = c->dilation, w->groups = c->groups;
    take_weights(b, s, layer);
}

static void lower_linear(builder *b, int index) {
    ls_step *s = add_step(b, LS_STEP_CONV, index);
    s->floats.w.kernel_h = s->floats.w.in_h, s->floats.w.kernel_w = s->floats.w.in_w;
    take_weights(b, s, &b->graph->layers[index]);
}

static void lower_activation(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    double parameter;
    const ls_activation activation = ls_layer_applies(layer, &parameter);
    ls_step *s = joinable(b, layer, 0);
    if (s && b->network->integer && activation != LS_ACTIVATION_RELU && s->kind != LS_STEP_MAP) s = NULL;
    if (s)
        join(b, s, index);
    else
        s = add_step(b, LS_STEP_MAP, index);
    s->floats.activation = (int)activation;
    s->floats.parameter = (float)parameter;
}

// Computes a layer that multiplies each channel by factor[c] and then adds shift[c].
static void lower_channels(builder *b, int index, const double *factor, const double *shift) {
    const ls_layer *layer = &b->graph->layers[index];
    const int channels = layer->in.c;
    ls_step *s = joinable(b, layer, 0);
    if (s && has_weights(s) && s->input_count == 1) {
        join(b, s, index);
    } else {
        s = add_step(b, LS_STEP_DEPTHWISE, index);
        s->floats.w.groups = channels;
        new_weights(s, channels, channels);
        for (int c = 0; c < channels; c++) s->weight[c] = 1;
    }
    fold(s, factor, shift);
}

static void lower_batchnorm2d(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    const float *const *p = b->params + layer->first_param; // weight, bias, mean, variance
    const int channels = layer->in.c;
    double *factor = ls_new(channels, sizeof *factor, "factors of %s", layer->name);
    double *shift = ls_new(channels, sizeof *shift, "factors of %s", layer->name);
    for (int c = 0; c < channels; c++) {
        factor[c] = (double)p[0][c] / sqrt((double)p[3][c] + layer->attr.batchnorm2d.eps);
        shift[c] = (double)p[1][c] - (double)p[2][c] * factor[c];
    }
    lower_channels(b, index, factor, shift);
    free(factor);
    free(shift);
}

static void lower_layerscale(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    double *factor = ls_new(2 * layer->in.c, sizeof *factor, "factors of %s", layer->name); // the second half is 0
    for (int c = 0; c < layer->in.c; c++) factor[c] = (double)b->params[layer->first_param][c];
    lower_channels(b, index, factor, factor + layer->in.c);
    free(factor);
}

static void lower_scale(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    ls_step *s = joinable(b, layer, 0);
    if (!s || !has_weights(s) || s->input_count > 1) {
        add_step(b, LS_STEP_MAP, index)->floats.factor = (float)layer->attr.scale.factor;
        return;
    }
    join(b, s, index);
    for (int64_t i = 0; i < s->weight_count; i++)
        s->weight[i] = (float)((double)s->weight[i] * layer->attr.scale.factor);
    for (int c = 0; c < s->bias_count; c++) s->bias[c] = (float)((double)s->bias[c] * layer->attr.scale.factor);
}

static void lower_pool(builder *b, int index, ls_step_kind kind, const ls_layer_pool *p) {
    window *w = &add_step(b, kind, index)->floats.w;
    w->kernel_h = p ? p->kernel.h : w->in_h, w->kernel_w = p ? p->kernel.w : w->in_w;
    if (!p) return; // a global pool
    w->stride_h = p->stride.h, w->stride_w = p->stride.w, w->pad_h = p->padding.h, w->pad_w = p->padding.w;
}

static void lower_maxpool2d(builder *b, int index) {
    lower_pool(b, index, LS_STEP_MAX_POOL, &b->graph->layers[index].attr.maxpool2d);
}

static void lower_avgpool2d(builder *b, int index) {
    lower_pool(b, index, LS_STEP_MEAN_POOL, &b->graph->layers[index].attr.avgpool2d);
}

static void lower_globalavgpool(builder *b, int index) {
    lower_pool(b, index, LS_STEP_MEAN_POOL, NULL);
}

static void lower_globalmaxpool(builder *b, int index) {
    lower_pool(b, index, LS_STEP_MAX_POOL, NULL);
}

// The layer is another name of its input, so the input's other readers count as readers of the layer, too.
static void lower_nothing(builder *b, int index) {
    const int from = b->graph->layers[index].inputs[0];
    b->value_of[index] = value_of(b, from);
    if (from >= 0) b->readers[index] += b->readers[from] - 1;
}

// In floats, joins an add to the later of the two steps that it reads, if that is a convolution without an activation
// which only the add reads. Else the add is a step.
static void lower_add(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    const int one = value_of(b, layer->inputs[0]), other = value_of(b, layer->inputs[1]);
    ls_step *s = b->network->integer || one == other ? NULL : joinable(b, layer, one > other ? 0 : 1);
    if (!s || !has_weights(s) || s->input_count > 1) {
        add_step(b, LS_STEP_ADD, index);
        return;
    }
    s->inputs[s->input_count++] = one > other ? other : one;
    join(b, s, index);
}

// The first input of the step has the output's shape; the second may have one number for each channel.
static void lower_multiply(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    const int swaps = !ls_chw_equal(ls_graph_out(b->graph, layer->inputs[0]), layer->out);
    const ls_chw second = ls_graph_physical(b->graph, layer->inputs[!swaps]);
    ls_step *s = add_step(b, LS_STEP_MULTIPLY, index);
    s->floats.w.in_h = second.h, s->floats.w.in_w = second.w;
    if (swaps) s->inputs[0] = value_of(b, layer->inputs[1]), s->inputs[1] = value_of(b, layer->inputs[0]);
}

// A JOIN for each input, all with one output.
static void lower_concat(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    int output = -1, first = 0;
    for (int i = 0; i < layer->input_count; i++) {
        const ls_chw in = ls_graph_physical(b->graph, layer->inputs[i]);
        ls_step *s = new_step(b, LS_STEP_JOIN, layer->name, in, layer->physical, output);
        s->inputs[0] = value_of(b, layer->inputs[i]);
        s->input_count = 1;
        s->floats.first = first;
        s->first = s->last = index;
        if (layer->attr.concat.interleave) s->floats.w.groups = 2;
        output = s->output;
        first += layer->attr.concat.interleave ? 1 : in.c;
    }
    b->value_of[index] = output;
}

static void lower_slice(builder *b, int index) {
    add_step(b, LS_STEP_JOIN, index)->floats.first = -b->graph->layers[index].attr.slice.from;
}

static void lower_shortcut(builder *b, int index) {
    window *w = &add_step(b, LS_STEP_SHORTCUT, index)->floats.w;
    w->stride_h = w->stride_w = b->graph->layers[index].attr.shortcut.stride;
}

// Gives the grid to the value before the layer. If other layers read that value, or it has a grid already (max pooling
// and shortcuts: their input's), the grid goes to a new value, which a table makes of it.
static void lower_quantise(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    const int from = layer->inputs[0];
    const ls_step *s = step_of_value(b, value_of(b, from));
    if (s->kind == LS_STEP_MAX_POOL || s->kind == LS_STEP_SHORTCUT || b->network->values[s->output].fixed ||
        (from >= 0 && b->readers[from] > 1))
        add_step(b, LS_STEP_MAP, index);
    else
        b->value_of[index] = s->output;
    ls_network_value *value = &b->network->values[b->value_of[index]];
    value->scale = (double)b->params[layer->first_param][0];
    const float zero = b->params[layer->first_param + 1][0];
    value->zero = zero >= -128 && zero <= 127 && zero == floorf(zero) ? (int)zero : 128; // check_grids refuses 128
    value->fixed = 1;
}

static void lower_flatten(builder *b, int index) {
    lower_nothing(b, index);
}

static void lower_dropout(builder *b, int index) {
    lower_nothing(b, index);
}
#define lower_dropout2d lower_dropout
#define lower_droppath lower_dropout

static void lower_groupnorm(builder *b, int index) {
    const ls_layer *layer = &b->graph->layers[index];
    ls_step *s = add_step(b, LS_STEP_GROUP_NORM, index);
    const size_t bytes = (size_t)layer->in.c * sizeof *s->weight;
    s->floats.w.groups = layer->attr.groupnorm.groups;
    if (layer->kind == LS_LAYER_GROUPNORM) s->floats.w.kernel_h = layer->in.h, s->floats.w.kernel_w = layer->in.w;
    s->floats.factor = (float)layer->attr.groupnorm.eps;
    new_weights(s, layer->in.c, layer->in.c);
    for (int c = 0; c < layer->in.c; c++) s->weight[c] = 1;
    if (!layer->attr.groupnorm.affine) return;
    memcpy(s->weight, b->params[layer->first_param], bytes);
    memcpy(s->bias, b->params[layer->first_param + 1], bytes);
}

static void lower_layernorm(builder *b, int index) { // a group norm of one pixel
    lower_groupnorm(b, index);
}

static void lower_relu(builder *b, int index) {
    lower_activation(b, index);
}
#define ACTIVATION(NAME, name, zero, text) \
    static void lower_##name(builder *b, int index) { \
        lower_activation(b, index); \
    }
#include "config/activations.def"

static void (*const lower_layer[LS_LAYER_COUNT])(builder *b, int index) = {
#define X(NAME, name, type, field) lower_##name,
#include "model/layers.def"
#undef X
};

// --- the whole -------------------------------------------------------------------------------------

static void lower_normalisation(builder *b) {
    const ls_weights_info *info = b->network->info;
    const ls_chw in = b->graph->input;
    ls_step *s = new_step(b, LS_STEP_NORMALISE, "input", in, in, -1);
    new_weights(s, in.c, in.c);
    for (int c = 0; c < in.c; c++) {
        s->weight[c] = (float)(1 / (255 * (double)info->std[c]));
        s->bias[c] = (float)(-(double)info->mean[c] / (double)info->std[c]);
    }
}

static void lower_all(builder *b) {
    const ls_graph *g = b->graph;
    for (int l = 0; l < g->layer_count; l++)
        for (int i = 0; i < g->layers[l].input_count; i++)
            if (g->layers[l].inputs[i] >= 0) b->readers[g->layers[l].inputs[i]]++;
    b->readers[g->layer_count - 1]++;
    lower_normalisation(b);
    for (int l = 0; l < g->layer_count; l++) lower_layer[g->layers[l].kind](b, l);
    const ls_layer *last = &g->layers[g->layer_count - 1];
    ls_step *s = new_step(b, LS_STEP_LOGITS, "logits", last->physical, last->physical, -1);
    s->inputs[0] = value_of(b, g->layer_count - 1);
    s->input_count = 1;
}

static ls_status check_layers(const ls_graph *g, int integer) {
    for (int l = 0; l < g->layer_count; l++) {
        const ls_layer *layer = &g->layers[l];
        const int64_t elements = ls_chw_count(layer->out);
        if (integer && (layer->kind == LS_LAYER_GROUPNORM || layer->kind == LS_LAYER_LAYERNORM))
            return ls_fail(LS_USAGE,
                "%s:%d: layer '%s' (%s) has no integer form: leave out --int8 or train.quantise, or train with "
                "batchnorm2d",
                g->path, layer->line, layer->name, ls_layer_kind_name(layer->kind));
        if (integer && layer->kind == LS_LAYER_AVGPOOL2D && layer->attr.avgpool2d.stride.h == 0)
            return ls_fail(LS_USAGE,
                "%s:%d: layer '%s' (avgpool2d) has no integer form, because its output does not divide its input: "
                "leave out --int8 or train.quantise, or train with an output that does",
                g->path, layer->line, layer->name);
        if (!integer && layer->kind == LS_LAYER_QUANTISE)
            return ls_fail(LS_USAGE, "%s:%d: the network is trained for integers (it has quantise layers): add --int8",
                g->path, layer->line);
        int64_t weights = 0;
        for (int p = 0; p < layer->param_count; p++)
            weights += ls_param_count(&g->params[layer->first_param + p].shape);
        if (elements > INT32_MAX / 8 || weights > INT32_MAX / 8)
            return ls_fail(LS_USAGE,
                "%s:%d: layer '%s' has %lld weights and an output of %lld numbers: in C, sizes must fit into 32 bits "
                "(at most %d of each)",
                g->path, layer->line, layer->name, (long long)weights, (long long)elements, INT32_MAX / 8);
    }
    return LS_SUCCESS;
}

// In a quantised network, every value needs a grid; max pooling and a shortcut have that of their input.
static ls_status check_grids(const ls_network *n) {
    for (int i = 0; ls_graph_is_quantised(n->info->graph) && i < n->step_count; i++) {
        const ls_step *s = &n->steps[i];
        if (s->output < 0 || s->kind == LS_STEP_MAX_POOL || s->kind == LS_STEP_SHORTCUT) continue;
        const ls_network_value *v = &n->values[s->output];
        if (!v->fixed)
            return ls_fail(LS_USAGE,
                "%s: no quantise layer follows '%s', but others have one: train.quantise = int8 inserts them",
                n->info->graph->path, s->name);
        if (!(v->scale > 0 && isfinite(v->scale)) || v->zero < -128 || v->zero > 127)
            return ls_fail(LS_STORAGE, "%s: the scale or zero point after '%s' is impossible: the weights are damaged",
                n->info->graph->path, s->name);
    }
    return LS_SUCCESS;
}

static ls_status check_finite(const char *path, const ls_network *n) {
    for (int i = 0; i < n->step_count; i++) {
        const ls_step *s = &n->steps[i];
        for (int64_t k = 0; k < s->weight_count + s->bias_count; k++)
            if (!isfinite(k < s->weight_count ? s->weight[k] : s->bias[k - s->weight_count]))
                return ls_fail(
                    LS_STORAGE, "%s: layer '%s' has weights that are not finite: did its run diverge?", path, s->name);
    }
    return LS_SUCCESS;
}

static ls_status find_weights(const ls_safetensors *weights, const ls_graph *g, const float **params, float **zeros) {
    int64_t most = 1;
    *zeros = NULL;
    if (weights) return ls_weights_find(weights, g, params);
    for (int p = 0; p < g->param_count; p++)
        if (ls_param_count(&g->params[p].shape) > most) most = ls_param_count(&g->params[p].shape);
    LS_TRY(ls_try_new(zeros, most, sizeof **zeros, "weights of %s", g->path));
    for (int p = 0; p < g->param_count; p++) params[p] = *zeros;
    return LS_SUCCESS;
}

ls_status ls_network_new(const ls_weights_info *info, const ls_safetensors *weights, int integer, ls_network **out) {
    const ls_graph *g = info->graph;
    LS_TRY(check_layers(g, integer));
    builder b = { .graph = g };
    b.network = ls_new(1, sizeof *b.network, "network for C");
    *b.network = (ls_network){ .info = info, .integer = integer };
    b.params = ls_new(g->param_count + 1, sizeof *b.params, "list of weights");
    b.value_of = ls_new(g->layer_count, sizeof *b.value_of, "values of layers");
    b.readers = ls_new(g->layer_count, sizeof *b.readers, "readers of layers");
    float *zeros;
    ls_status status = find_weights(weights, g, b.params, &zeros);
    if (!ls_failed(status)) lower_all(&b);
    LS_THEN(status, check_grids(b.network));
    if (weights) LS_THEN(status, check_finite(ls_safetensors_path(weights), b.network));
    LS_THEN(status, ls_network_place(b.network));
    free(zeros);
    free(b.params);
    free(b.value_of);
    free(b.readers);
    return LS_GIVE_OR_FREE(status, b.network, out, ls_network_free);
}

void ls_network_free(ls_network *n) {
    if (!n) return;
    for (int i = 0; i < n->step_count; i++) {
        ls_step *s = &n->steps[i];
        void *arrays[] = { s->weight, s->bias, s->table, s->numbers };
        for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) free(arrays[k]);
    }
    free(n->steps);
    free(n->values);
    free(n);
}

int64_t ls_network_elements(const ls_network *n, int value) {
    return (int64_t)n->values[value].channels * n->values[value].area;
}

int64_t ls_network_multiplications(const ls_network *n) {
    int64_t sum = 0;
    for (int i = 0; i < n->step_count; i++) sum += n->steps[i].multiplications;
    return sum;
}
