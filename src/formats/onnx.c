#include "formats/onnx.h"

#ifdef LOCKSTEP_WITHOUT_ONNX

ls_status ls_onnx_write(
    const char *path, const ls_weights_info *info, const ls_safetensors *weights, int *operator_set) {
    (void)info;
    (void)weights;
    (void)operator_set;
    return ls_fail(LS_USAGE,
        "%s: this program was built without protobuf-c, which writes ONNX files: install it (Debian: libprotobuf-c-dev "
        "and protobuf-c-compiler, as scripts/install-packages.sh does), configure anew and build",
        path);
}

#else

#include <string.h>
#include "base/memory.h"
#include "formats/onnx_graph.h"
#include "formats/weights.h"

typedef struct {
    const ls_weights_info *info;
    const ls_graph *graph;
    const float **weights; // by parameter: its values
    ls_onnx_graph *onnx;
} builder;

// Returns the name of the output of layer `index` (-1: the normalised input). as_vector: if the output is a map, a node
// is added that flattens it for `reader`, and its name is returned.
static const char *value_of(builder *b, int index, int as_vector, const char *reader) {
    const char *name = index < 0 ? "input/normalised" : b->graph->layers[index].name;
    if (!as_vector || (index >= 0 && b->graph->layers[index].flat)) return name;
    const char *flat = ls_onnx_node(b->onnx, LS_ONNX_Flatten, name, "%s/flat", reader);
    ls_onnx_int(b->onnx, "axis", 1);
    return flat;
}

static const char *input_of(builder *b, const ls_layer *layer) {
    return value_of(b, layer->inputs[0], 0, layer->name);
}

static void add_params(const builder *b, const ls_layer *layer) {
    for (int p = layer->first_param; p < layer->first_param + layer->param_count; p++)
        ls_onnx_input(b->onnx, b->graph->params[p].name);
}

static void add_plain(builder *b, const ls_layer *layer, ls_onnx_operator op) {
    ls_onnx_node(b->onnx, op, input_of(b, layer), "%s", layer->name);
}

static void put_conv2d(builder *b, const ls_layer *layer) {
    const ls_layer_conv2d *c = &layer->attr.conv2d;
    add_plain(b, layer, LS_ONNX_Conv);
    add_params(b, layer);
    ls_onnx_window(b->onnx, c->kernel, c->stride, c->padding, c->padding);
    ls_onnx_ints(b->onnx, "dilations", 2, (const int64_t[]){ c->dilation, c->dilation });
    ls_onnx_int(b->onnx, "group", c->groups);
}

static void put_linear(builder *b, const ls_layer *layer) {
    ls_onnx_node(b->onnx, LS_ONNX_Gemm, value_of(b, layer->inputs[0], 1, layer->name), "%s", layer->name);
    add_params(b, layer);
    ls_onnx_int(b->onnx, "transB", 1);
}

static void put_relu(builder *b, const ls_layer *layer) {
    double parameter;
    const ls_activation kind = ls_layer_applies(layer, &parameter);
    ls_onnx_activation(b->onnx, kind, parameter, input_of(b, layer), layer->name);
}
#define ACTIVATION(NAME, name, zero, text) \
    static void put_##name(builder *b, const ls_layer *layer) { \
        put_relu(b, layer); \
    }
#include "config/activations.def"

// Adds a node that computes `input` op the layer's parameter number `at`, reshaped to (C,1,1). Returns its name.
static const char *add_by_channel(
    builder *b, const ls_layer *layer, int at, ls_onnx_operator op, const char *part, const char *input) {
    const char *param = b->graph->params[layer->first_param + at].name;
    param = ls_onnx_reshape(b->onnx, param, 3, (const int64_t[]){ -1, 1, 1 }, "%s/channels", param);
    const char *name = ls_onnx_node(b->onnx, op, input, "%s%s", layer->name, part);
    ls_onnx_input(b->onnx, param);
    return name;
}

// Adds a vector of equal numbers to the newest node's inputs.
static void add_equal(builder *b, const ls_layer *layer, int count, float number, const char *part) {
    float *numbers = ls_new(count, sizeof *numbers, "ONNX graph of %s", b->graph->path);
    for (int i = 0; i < count; i++) numbers[i] = number;
    ls_onnx_input(b->onnx, ls_onnx_tensor(b->onnx, LS_ONNX_FLOAT, 1, &count, numbers, "%s/%s", layer->name, part));
    free(numbers);
}

// Writes a group norm as PyTorch exports it: as an instance norm whose channels are the groups. Old readers of ONNX
// know instance norm, but not group norm.
static void put_groupnorm(builder *b, const ls_layer *layer) {
    const ls_layer_group_norm *l = &layer->attr.groupnorm;
    const ls_chw in = layer->in;
    const char *grouped = ls_onnx_reshape(
        b->onnx, input_of(b, layer), 3, (const int64_t[]){ 0, l->groups, -1 }, "%s/groups", layer->name);
    const char *map = ls_onnx_node(b->onnx, LS_ONNX_InstanceNormalization, grouped, "%s/normalised", layer->name);
    ls_onnx_float(b->onnx, "epsilon", (float)l->eps);
    add_equal(b, layer, l->groups, 1, "ones");
    add_equal(b, layer, l->groups, 0, "zeros");
    map = ls_onnx_reshape(
        b->onnx, map, 4, (const int64_t[]){ 0, in.c, in.h, in.w }, l->affine ? "%s/map" : "%s", layer->name);
    if (!l->affine) return;
    map = add_by_channel(b, layer, 0, LS_ONNX_Mul, "/scaled", map);
    add_by_channel(b, layer, 1, LS_ONNX_Add, "", map);
}

// ONNX normalises the last dimensions only, so the channels are moved to the end and back.
static void put_layernorm(builder *b, const ls_layer *layer) {
    const ls_layer_group_norm *l = &layer->attr.layernorm;
    const char *last = ls_onnx_node(b->onnx, LS_ONNX_Transpose, input_of(b, layer), "%s/last", layer->name);
    ls_onnx_ints(b->onnx, "perm", 4, (const int64_t[]){ 0, 2, 3, 1 });
    const char *map = ls_onnx_node(b->onnx, LS_ONNX_LayerNormalization, last, "%s/normalised", layer->name);
    if (l->affine)
        add_params(b, layer);
    else
        add_equal(b, layer, layer->in.c, 1, "ones");
    ls_onnx_float(b->onnx, "epsilon", (float)l->eps);
    ls_onnx_node(b->onnx, LS_ONNX_Transpose, map, "%s", layer->name);
    ls_onnx_ints(b->onnx, "perm", 4, (const int64_t[]){ 0, 3, 1, 2 });
}

// Whether a parameter has its layer's name, as a layer scale's may have. In the ONNX file it is called LAYER/factors.
static int is_named_as_output(const ls_graph *g, const ls_param *param) {
    return strcmp(param->name, g->layers[param->layer].name) == 0;
}

static void put_layerscale(builder *b, const ls_layer *layer) {
    char name[LS_NAME_BYTES + 16];
    const ls_param *param = &b->graph->params[layer->first_param];
    snprintf(name, sizeof name, is_named_as_output(b->graph, param) ? "%s/factors" : "%s", param->name);
    add_plain(b, layer, LS_ONNX_Mul);
    ls_onnx_input(b->onnx, name);
}

// Writes a batch norm. The layer's parameters already have ONNX's order: scale, bias, mean, variance.
static void put_batchnorm2d(builder *b, const ls_layer *layer) {
    add_plain(b, layer, LS_ONNX_BatchNormalization);
    add_params(b, layer);
    ls_onnx_float(b->onnx, "epsilon", (float)layer->attr.batchnorm2d.eps);
}

static void put_maxpool2d(builder *b, const ls_layer *layer) {
    const ls_layer_pool *p = &layer->attr.maxpool2d;
    add_plain(b, layer, LS_ONNX_MaxPool);
    ls_onnx_window(b->onnx, p->kernel, p->stride, p->padding, p->padding);
    if (p->ceil_mode) ls_onnx_int(b->onnx, "ceil_mode", 1);
}

// Adds the matrix that takes `in` numbers to the means of `out` adaptive windows: (out, in), or transposed. Returns its
// name.
static const char *add_means(builder *b, const ls_layer *layer, const char *what, int in, int out, int transposed) {
    float *means = ls_new((int64_t)in * out, sizeof *means, "means of %s", layer->name);
    for (int i = 0; i < out; i++) {
        const int first = i * in / out, end = ((i + 1) * in + out - 1) / out;
        for (int k = first; k < end; k++) means[transposed ? k * out + i : i * in + k] = 1 / (float)(end - first);
    }
    const int dims[] = { transposed ? in : out, transposed ? out : in };
    const char *name = ls_onnx_tensor(b->onnx, LS_ONNX_FLOAT, 2, dims, means, "%s/%s", layer->name, what);
    free(means);
    return name;
}

// ONNX has no adaptive average: a matrix takes the means of columns, and another one those of rows.
static void put_adaptive(builder *b, const ls_layer *layer) {
    const char *columns = ls_onnx_node(b->onnx, LS_ONNX_MatMul, input_of(b, layer), "%s/columns", layer->name);
    ls_onnx_input(b->onnx, add_means(b, layer, "by_column", layer->in.w, layer->out.w, 1));
    const char *rows = add_means(b, layer, "by_row", layer->in.h, layer->out.h, 0);
    ls_onnx_node(b->onnx, LS_ONNX_MatMul, rows, "%s", layer->name);
    ls_onnx_input(b->onnx, columns);
}

static void put_avgpool2d(builder *b, const ls_layer *layer) {
    const ls_layer_pool *p = &layer->attr.avgpool2d;
    if (p->stride.h == 0) {
        put_adaptive(b, layer);
        return;
    }
    add_plain(b, layer, LS_ONNX_AveragePool);
    ls_onnx_window(b->onnx, p->kernel, p->stride, p->padding, p->padding);
    ls_onnx_int(b->onnx, "count_include_pad", 1);
}

static void put_globalavgpool(builder *b, const ls_layer *layer) {
    add_plain(b, layer, LS_ONNX_GlobalAveragePool);
}

static void put_globalmaxpool(builder *b, const ls_layer *layer) {
    add_plain(b, layer, LS_ONNX_GlobalMaxPool);
}

static void put_dropout(builder *b, const ls_layer *layer) {
    add_plain(b, layer, LS_ONNX_Identity);
}
#define put_dropout2d put_dropout
#define put_droppath put_dropout

// Adds a node that reads two values.
static void add_both(builder *b, const ls_layer *layer, ls_onnx_operator op, const char *first, const char *second) {
    ls_onnx_node(b->onnx, op, first, "%s", layer->name);
    ls_onnx_input(b->onnx, second);
}

static void put_add(builder *b, const ls_layer *layer) {
    const char *first = value_of(b, layer->inputs[0], layer->flat, layer->name);
    add_both(b, layer, LS_ONNX_Add, first, value_of(b, layer->inputs[1], layer->flat, layer->name));
}

// Returns the name of an input of a multiply layer. A gate that is a vector is reshaped to (C,1,1).
static const char *factor_of(builder *b, const ls_layer *layer, int input) {
    const int from = layer->inputs[input], gates = !ls_chw_equal(ls_graph_out(b->graph, from), layer->out);
    if (!gates || !ls_graph_is_flat(b->graph, from)) return value_of(b, from, layer->flat, layer->name);
    return ls_onnx_reshape(b->onnx, value_of(b, from, 0, layer->name), 4, (const int64_t[]){ 0, layer->out.c, 1, 1 },
        "%s/gate", layer->name);
}

static void put_multiply(builder *b, const ls_layer *layer) {
    const char *first = factor_of(b, layer, 0);
    add_both(b, layer, LS_ONNX_Mul, first, factor_of(b, layer, 1));
}

static void put_concat(builder *b, const ls_layer *layer) {
    const char *inputs[LS_INPUTS_MAX];
    char reader[LS_NAME_BYTES + 16];
    for (int i = 0; i < layer->input_count; i++) { // each input may need its own node that flattens it
        snprintf(reader, sizeof reader, "%s/%d", layer->name, i);
        inputs[i] = value_of(b, layer->inputs[i], layer->flat, reader);
    }
    const int shuffles = layer->attr.concat.interleave;
    const char *joined = ls_onnx_node(b->onnx, LS_ONNX_Concat, inputs[0], shuffles ? "%s/joined" : "%s", layer->name);
    for (int i = 1; i < layer->input_count; i++) ls_onnx_input(b->onnx, inputs[i]);
    ls_onnx_int(b->onnx, "axis", 1);
    if (shuffles) ls_onnx_interleave(b->onnx, layer->out, layer->flat ? 2 : 4, joined, layer->name);
}

static void put_slice(builder *b, const ls_layer *layer) {
    const ls_layer_slice *s = &layer->attr.slice;
    ls_onnx_slice(b->onnx, s->from, s->channels, input_of(b, layer), layer->name);
}

static void put_shortcut(builder *b, const ls_layer *layer) {
    ls_onnx_shortcut(b->onnx, layer->attr.shortcut.stride, layer->in.c, layer->out.c, input_of(b, layer), layer->name);
}

static void put_flatten(builder *b, const ls_layer *layer) {
    add_plain(b, layer, LS_ONNX_Flatten);
    ls_onnx_int(b->onnx, "axis", 1);
}

static void put_scale(builder *b, const ls_layer *layer) {
    add_plain(b, layer, LS_ONNX_Mul);
    ls_onnx_input(b->onnx, ls_onnx_number(b->onnx, (float)layer->attr.scale.factor, layer->name, "factor"));
}

static void put_quantise(builder *b, const ls_layer *layer) { // ls_onnx_write has refused it
    (void)b;
    (void)layer;
}

static void (*const put_layer[LS_LAYER_COUNT])(builder *b, const ls_layer *layer) = {
#define X(NAME, name, type, field) [LS_LAYER_##NAME] = put_##name,
#include "model/layers.def"
#undef X
};

// Adds the tensor of a parameter. A convolution's weight always has four dimensions.
static void put_param(builder *b, int p) {
    const ls_param *param = &b->graph->params[p];
    const int is_conv = param->shape.kind == LS_PARAM_CONV;
    ls_onnx_tensor(b->onnx, LS_ONNX_FLOAT, is_conv ? 4 : param->rank, is_conv ? param->shape.dim : param->file_dim,
        b->weights[p], is_named_as_output(b->graph, param) ? "%s/factors" : "%s", param->name);
}

static ls_status write_model(const char *path, builder *b, int *operator_set) {
    const ls_graph *g = b->graph;
    ls_onnx_normalisation(b->onnx, b->info);
    for (int p = 0; p < g->param_count; p++) put_param(b, p);
    for (int l = 0; l < g->layer_count; l++) put_layer[g->layers[l].kind](b, &g->layers[l]);
    const char *logits = value_of(b, g->layer_count - 1, 1, g->layers[g->layer_count - 1].name);
    return ls_onnx_graph_write(b->onnx, path, b->info, logits, operator_set);
}

// Refuses a layer with the name of another layer's parameter: an ONNX graph needs different names for the two.
static ls_status check_names(const ls_graph *g) {
    for (int l = 0; l < g->layer_count; l++)
        for (int p = 0; p < g->param_count; p++)
            if (l != g->params[p].layer && strcmp(g->layers[l].name, g->params[p].name) == 0)
                return ls_fail(LS_USAGE,
                    "%s:%d: layer '%s' is called like a parameter of layer '%s', which an ONNX file cannot have: "
                    "rename one of them",
                    g->path, g->layers[l].line, g->layers[l].name, g->layers[g->params[p].layer].name);
    return LS_SUCCESS;
}

ls_status ls_onnx_write(
    const char *path, const ls_weights_info *info, const ls_safetensors *weights, int *operator_set) {
    builder b = { .info = info, .graph = info->graph };
    if (ls_graph_is_quantised(b.graph))
        return ls_fail(LS_USAGE,
            "%s: the network is trained for integers (it has quantise layers): export it by --int8", b.graph->path);
    LS_TRY(check_names(b.graph));
    b.weights = ls_new(b.graph->param_count + 1, sizeof *b.weights, "ONNX graph of %s", b.graph->path);
    b.onnx = ls_onnx_graph_new();
    ls_status status = ls_weights_find(weights, b.graph, b.weights);
    LS_THEN(status, ls_weights_check_finite(weights, b.graph));
    LS_THEN(status, write_model(path, &b, operator_set));
    free(b.weights);
    ls_onnx_graph_free(b.onnx);
    return status;
}

#endif
