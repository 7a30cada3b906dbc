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

#include <onnx.pb-c.h>
#include <stdio.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/version.h"
#include "formats/weights.h"

enum { INPUTS_MAX = LS_INPUTS_MAX, ATTRIBUTES_MAX = 5, INTS_MAX = 4, PROPS = 3, NAME_BYTES = LS_NAME_BYTES + 16 };
enum { NORMALISATION_TENSORS = 2 }; // the tensors of the parameters follow them, in order

// The ONNX operators that this file writes: X(operator, first operator set that has the operator in the form used here)
#define OPERATORS(X) \
    X(Add, 7) \
    X(AveragePool, 7) \
    X(BatchNormalization, 9) \
    X(Clip, 11) \
    X(Concat, 4) \
    X(Conv, 1) \
    X(Div, 7) \
    X(Elu, 6) \
    X(Flatten, 9) \
    X(Gelu, 20) \
    X(Gemm, 11) \
    X(GlobalAveragePool, 1) \
    X(GlobalMaxPool, 1) \
    X(HardSigmoid, 6) \
    X(Identity, 1) \
    X(InstanceNormalization, 6) \
    X(LayerNormalization, 17) \
    X(LeakyRelu, 6) \
    X(MatMul, 9) \
    X(MaxPool, 1) \
    X(Mul, 7) \
    X(Pad, 11) \
    X(Relu, 6) \
    X(Reshape, 5) \
    X(Sigmoid, 6) \
    X(Slice, 10) \
    X(Softplus, 1) \
    X(Sub, 7) \
    X(Tanh, 6) \
    X(Transpose, 1)

typedef enum {
#define X(name, since) OP_##name,
    OPERATORS(X)
#undef X
} operator_id;

static const struct {
    const char *name;
    int since;
} operators[] = {
#define X(name, since) { #name, since },
    OPERATORS(X)
#undef X
};

// The operator sets that a model may name: a model names the lowest set that has all of its operators, and the file
// format (ir) of the ONNX release that brought the set, because a reader refuses newer models. The lowest set is 11
// (ONNX 1.6, of 2019): onnxruntime 1.0 reads it, and tools that quantise a model convert older models to it first.
static const struct {
    int operator_set, ir; // ir belongs to sets from operator_set on; extend the list when operators are added
} formats[] = { { 19, 9 }, { 15, 8 }, { 12, 7 }, { 11, 6 } };
enum { OPERATOR_SET_MIN = 11 };

// A node's protobuf message, with the arrays to which the message points.
typedef struct {
    Onnx__NodeProto proto;
    char *input[INPUTS_MAX], *output[1], name[NAME_BYTES];
    Onnx__AttributeProto attribute[ATTRIBUTES_MAX], *attributes[ATTRIBUTES_MAX];
    int64_t ints[ATTRIBUTES_MAX][INTS_MAX];
} node;

typedef struct {
    Onnx__TensorProto proto;
    int64_t dims[4];
    char name[NAME_BYTES];
    float values[16]; // values of a tensor that is not a parameter
    int64_t ints[8];
} tensor;

typedef struct { // describes an input or output of the graph: float32, a batch of vectors or maps
    Onnx__ValueInfoProto proto;
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension dim[4], *dims[4];
} value_info;

typedef struct {
    const ls_weights_info *info;
    const ls_graph *graph;
    const float **weights; // by parameter: its values
    node *nodes;
    int node_count;
    tensor *tensors;
    int tensor_count;
    float **means; // matrices of adaptive averages
    int mean_count;
    Onnx__NodeProto **node_list;
    Onnx__TensorProto **tensor_list;
    float *ones, *zeros; // one for each channel of the layer that has the most
    int operator_set;    // lowest set that has the operators of all nodes so far
    char *classes;       // names of the classes, as a JSON list
} builder;

// Casts const away: protobuf-c's texts are not const, though it only reads them.
static char *text(const char *borrowed) {
    return (char *)(uintptr_t)borrowed;
}

// --- nodes and tensors; new_builder has made room for all ----------------------------------------

static void add_input(node *n, const char *name) {
    n->input[n->proto.n_input++] = text(name);
}

static node *add_node(builder *b, operator_id op, const char *name, const char *input) {
    node *n = &b->nodes[b->node_count];
    onnx__node_proto__init(&n->proto);
    snprintf(n->name, sizeof n->name, "%s", name);
    n->proto.name = n->output[0] = n->name;
    n->proto.op_type = text(operators[op].name);
    if (operators[op].since > b->operator_set) b->operator_set = operators[op].since;
    n->proto.input = n->input;
    n->proto.output = n->output;
    n->proto.n_output = 1;
    n->proto.attribute = n->attributes;
    add_input(n, input);
    b->node_list[b->node_count++] = &n->proto;
    return n;
}

static Onnx__AttributeProto *add_attribute(node *n, const char *name, Onnx__AttributeProto__AttributeType type) {
    const size_t at = n->proto.n_attribute++;
    Onnx__AttributeProto *a = n->attributes[at] = &n->attribute[at];
    onnx__attribute_proto__init(a);
    a->name = text(name);
    a->has_type = 1;
    a->type = type;
    return a;
}

static void add_int(node *n, const char *name, int64_t value) {
    Onnx__AttributeProto *a = add_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    a->has_i = 1;
    a->i = value;
}

static void add_float(node *n, const char *name, float value) {
    Onnx__AttributeProto *a = add_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    a->has_f = 1;
    a->f = value;
}

// Adds an attribute to a node: a list of `count` equal values (2 for both axes, 4 for both ends of both axes).
static void add_ints(node *n, const char *name, int count, int64_t value) {
    int64_t *ints = n->ints[n->proto.n_attribute];
    Onnx__AttributeProto *a = add_attribute(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    for (int i = 0; i < count; i++) ints[i] = value;
    a->n_ints = (size_t)count;
    a->ints = ints;
}

static tensor *add_tensor(builder *b, const char *name, int rank, const int *dims, const float *values) {
    tensor *t = &b->tensors[b->tensor_count];
    onnx__tensor_proto__init(&t->proto);
    snprintf(t->name, sizeof t->name, "%s", name);
    size_t count = 1;
    for (int d = 0; d < rank; d++) {
        t->dims[d] = dims[d];
        count *= (size_t)dims[d];
    }
    t->proto.name = t->name;
    t->proto.n_dims = (size_t)rank;
    t->proto.dims = t->dims;
    t->proto.has_data_type = t->proto.has_raw_data = 1;
    t->proto.data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    t->proto.raw_data = (ProtobufCBinaryData){ count * sizeof *values, (uint8_t *)(uintptr_t)values };
    b->tensor_list[b->tensor_count++] = &t->proto;
    return t;
}

// Adds a tensor of integers, for an input that is a shape or a list of paddings. Returns its name.
static const char *add_list(builder *b, const char *name, int count, const int64_t *values) {
    tensor *t = add_tensor(b, name, 1, &count, NULL);
    const size_t bytes = (size_t)count * sizeof *values;
    memcpy(t->ints, values, bytes);
    t->proto.data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    t->proto.raw_data = (ProtobufCBinaryData){ bytes, (uint8_t *)t->ints };
    return t->name;
}

// Writes "<of>/<what>" into dst. No layer has a name with '/'. Returns dst.
static const char *inner_name(char *dst, const char *of, const char *what) {
    snprintf(dst, NAME_BYTES, "%.*s/%s", LS_NAME_BYTES, of, what);
    return dst;
}

// Adds a tensor that is one number of a layer. Returns its name.
static const char *add_number(builder *b, const ls_layer *layer, const char *what, float value) {
    char name[NAME_BYTES];
    tensor *t = add_tensor(b, inner_name(name, layer->name, what), 0, NULL, NULL);
    t->values[0] = value;
    t->proto.raw_data = (ProtobufCBinaryData){ sizeof t->values[0], (uint8_t *)t->values };
    return t->name;
}

// --- layers --------------------------------------------------------------------------------------

// Returns the name of the output of layer `index` (-1: the normalised input). as_vector: if the output is a map, a node
// is added that flattens it for `reader`, and its name is returned.
static const char *value_of(builder *b, int index, int as_vector, const char *reader) {
    const char *name = index < 0 ? "input/normalised" : b->graph->layers[index].name;
    if (!as_vector || (index >= 0 && b->graph->layers[index].flat)) return name;
    char flat[NAME_BYTES];
    node *n = add_node(b, OP_Flatten, inner_name(flat, reader, "flat"), name);
    add_int(n, "axis", 1);
    return n->name;
}

static void add_params(const builder *b, const ls_layer *layer, node *n) {
    for (int p = layer->first_param; p < layer->first_param + layer->param_count; p++)
        add_input(n, b->graph->params[p].name);
}

static node *add_plain(builder *b, const ls_layer *layer, operator_id op) {
    return add_node(b, op, layer->name, value_of(b, layer->inputs[0], 0, layer->name));
}

// Adds an attribute to a node: a list that alternates rows and columns (count 2: both axes; 4: both ends of both axes).
static void add_pair(node *n, const char *name, int count, ls_pair pair) {
    int64_t *ints = n->ints[n->proto.n_attribute];
    add_ints(n, name, count, pair.h);
    for (int i = 1; i < count; i += 2) ints[i] = pair.w;
}

static void add_window(node *n, ls_pair kernel, ls_pair stride, ls_pair padding) {
    add_pair(n, "kernel_shape", 2, kernel);
    add_pair(n, "strides", 2, stride);
    add_pair(n, "pads", 4, padding);
}

static void put_conv2d(builder *b, const ls_layer *layer) {
    const ls_layer_conv2d *c = &layer->attr.conv2d;
    node *n = add_plain(b, layer, OP_Conv);
    add_params(b, layer, n);
    add_window(n, c->kernel, c->stride, c->padding);
    add_ints(n, "dilations", 2, c->dilation);
    add_int(n, "group", c->groups);
}

static void put_linear(builder *b, const ls_layer *layer) {
    node *n = add_node(b, OP_Gemm, layer->name, value_of(b, layer->inputs[0], 1, layer->name));
    add_params(b, layer, n);
    add_int(n, "transB", 1);
}

static void put_relu(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_Relu);
}

static void put_gelu(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_Gelu); // exact without the attribute `approximate`
}

static void put_gelu_tanh(builder *b, const ls_layer *layer) {
    Onnx__AttributeProto *a =
        add_attribute(add_plain(b, layer, OP_Gelu), "approximate", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    a->has_s = 1;
    a->s = (ProtobufCBinaryData){ 4, (uint8_t *)text("tanh") };
}

// Writes x * f(x) with a node for f, which reads `from`: the input, or another node. Returns the node.
static node *put_gated(builder *b, const ls_layer *layer, operator_id f, const char *part, const char *from) {
    char name[NAME_BYTES];
    node *n = add_node(b, f, inner_name(name, layer->name, part), from);
    add_input(add_plain(b, layer, OP_Mul), n->name);
    return n;
}

static const char *input_of(builder *b, const ls_layer *layer) {
    return value_of(b, layer->inputs[0], 0, layer->name);
}

// ONNX has no operator for silu before set 24.
static void put_silu(builder *b, const ls_layer *layer) {
    put_gated(b, layer, OP_Sigmoid, "sigmoid", input_of(b, layer));
}

static void put_sigmoid(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_Sigmoid);
}

static void put_leaky_relu(builder *b, const ls_layer *layer) {
    add_float(add_plain(b, layer, OP_LeakyRelu), "alpha", (float)layer->attr.leaky_relu.parameter);
}

static void put_relu6(builder *b, const ls_layer *layer) {
    node *n = add_plain(b, layer, OP_Clip);
    add_input(n, add_number(b, layer, "least", 0));
    add_input(n, add_number(b, layer, "most", 6));
}

static void put_elu(builder *b, const ls_layer *layer) {
    add_float(add_plain(b, layer, OP_Elu), "alpha", (float)layer->attr.elu.parameter);
}

static void set_hardsigmoid(node *n) {
    add_float(n, "alpha", 1.0F / 6);
    add_float(n, "beta", 0.5F);
}

static void put_hardsigmoid(builder *b, const ls_layer *layer) {
    set_hardsigmoid(add_plain(b, layer, OP_HardSigmoid));
}

// ONNX has an operator for hardswish from set 14 on, for mish from set 18 on.
static void put_hardswish(builder *b, const ls_layer *layer) {
    set_hardsigmoid(put_gated(b, layer, OP_HardSigmoid, "hardsigmoid", input_of(b, layer)));
}

static void put_mish(builder *b, const ls_layer *layer) {
    char name[NAME_BYTES];
    node *n = add_node(b, OP_Softplus, inner_name(name, layer->name, "softplus"), input_of(b, layer));
    put_gated(b, layer, OP_Tanh, "tanh", n->name);
}

static void put_tanh(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_Tanh);
}

static void put_softplus(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_Softplus);
}

// Adds a node that reshapes `input`; returns its name. shape: 0 keeps the dimension; -1 is computed from the others.
static const char *add_reshape(builder *b, const char *name, const char *input, int rank, const int64_t *shape) {
    char shape_name[NAME_BYTES];
    snprintf(shape_name, sizeof shape_name, "%.*s/shape", NAME_BYTES - 8, name);
    node *n = add_node(b, OP_Reshape, name, input);
    add_input(n, add_list(b, shape_name, rank, shape));
    return n->name;
}

// Adds a node `name` that computes `input` op the layer's parameter number `at`, reshaped to (C,1,1). Returns its name.
static const char *add_by_channel(
    builder *b, const ls_layer *layer, int at, operator_id op, const char *name, const char *input) {
    char shaped[NAME_BYTES];
    const char *param = b->graph->params[layer->first_param + at].name;
    param = add_reshape(b, inner_name(shaped, param, "channels"), param, 3, (const int64_t[]){ -1, 1, 1 });
    node *n = add_node(b, op, name, input);
    add_input(n, param);
    return n->name;
}

// Writes a group norm as PyTorch exports it: as an instance norm whose channels are the groups. Old readers of ONNX
// know instance norm, but not group norm.
static void put_groupnorm(builder *b, const ls_layer *layer) {
    const ls_layer_group_norm *l = &layer->attr.groupnorm;
    const ls_chw in = layer->in;
    char name[4][NAME_BYTES];
    const char *grouped = add_reshape(b, inner_name(name[0], layer->name, "groups"),
        value_of(b, layer->inputs[0], 0, layer->name), 3, (const int64_t[]){ 0, l->groups, -1 });
    node *n = add_node(b, OP_InstanceNormalization, inner_name(name[1], layer->name, "normalised"), grouped);
    add_float(n, "epsilon", (float)l->eps);
    add_input(n, add_tensor(b, inner_name(name[2], layer->name, "ones"), 1, &l->groups, b->ones)->name);
    add_input(n, add_tensor(b, inner_name(name[3], layer->name, "zeros"), 1, &l->groups, b->zeros)->name);
    const char *map = add_reshape(b, l->affine ? inner_name(name[0], layer->name, "map") : layer->name, n->name, 4,
        (const int64_t[]){ 0, in.c, in.h, in.w });
    if (!l->affine) return;
    map = add_by_channel(b, layer, 0, OP_Mul, inner_name(name[1], layer->name, "scaled"), map);
    add_by_channel(b, layer, 1, OP_Add, layer->name, map);
}

// Adds a node that moves the channels to the end or back. Returns it.
static node *add_transpose(builder *b, const char *name, const char *input, const int64_t perm[4]) {
    node *n = add_node(b, OP_Transpose, name, input);
    add_ints(n, "perm", 4, 0);
    memcpy(n->attribute[0].ints, perm, 4 * sizeof *perm);
    return n;
}

// ONNX normalises the last dimensions only.
static void put_layernorm(builder *b, const ls_layer *layer) {
    const ls_layer_group_norm *l = &layer->attr.layernorm;
    char name[3][NAME_BYTES];
    const char *last = inner_name(name[0], layer->name, "last");
    last = add_transpose(b, last, input_of(b, layer), (const int64_t[]){ 0, 2, 3, 1 })->name;
    node *n = add_node(b, OP_LayerNormalization, inner_name(name[1], layer->name, "normalised"), last);
    if (l->affine)
        add_params(b, layer, n);
    else
        add_input(n, add_tensor(b, inner_name(name[2], layer->name, "ones"), 1, &layer->in.c, b->ones)->name);
    add_float(n, "epsilon", (float)l->eps);
    add_transpose(b, layer->name, n->name, (const int64_t[]){ 0, 3, 1, 2 });
}

static void put_layerscale(builder *b, const ls_layer *layer) {
    add_input(add_plain(b, layer, OP_Mul), b->tensors[NORMALISATION_TENSORS + layer->first_param].name);
}

// Writes a batch norm. The layer's parameters already have ONNX's order: scale, bias, mean, variance.
static void put_batchnorm2d(builder *b, const ls_layer *layer) {
    node *n = add_plain(b, layer, OP_BatchNormalization);
    add_params(b, layer, n);
    add_float(n, "epsilon", (float)layer->attr.batchnorm2d.eps);
}

static void put_maxpool2d(builder *b, const ls_layer *layer) {
    const ls_layer_pool *p = &layer->attr.maxpool2d;
    node *n = add_plain(b, layer, OP_MaxPool);
    add_window(n, p->kernel, p->stride, p->padding);
    if (p->ceil_mode) add_int(n, "ceil_mode", 1);
}

// Adds the matrix that takes `in` numbers to the means of `out` adaptive windows: (out, in), or transposed. Returns its
// name.
static const char *add_means(builder *b, const ls_layer *layer, const char *what, int in, int out, int transposed) {
    char name[NAME_BYTES];
    float *means = b->means[b->mean_count++] = ls_new((int64_t)in * out, sizeof *means, "means of %s", layer->name);
    for (int i = 0; i < out; i++) {
        const int first = i * in / out, end = ((i + 1) * in + out - 1) / out;
        for (int k = first; k < end; k++) means[transposed ? k * out + i : i * in + k] = 1 / (float)(end - first);
    }
    const int dims[] = { transposed ? in : out, transposed ? out : in };
    return add_tensor(b, inner_name(name, layer->name, what), 2, dims, means)->name;
}

// ONNX has no adaptive average: a matrix takes the means of columns, and another one those of rows.
static void put_adaptive(builder *b, const ls_layer *layer) {
    char name[NAME_BYTES];
    node *n = add_node(b, OP_MatMul, inner_name(name, layer->name, "columns"), input_of(b, layer));
    add_input(n, add_means(b, layer, "by_column", layer->in.w, layer->out.w, 1));
    const char *rows = add_means(b, layer, "by_row", layer->in.h, layer->out.h, 0);
    add_input(add_node(b, OP_MatMul, layer->name, rows), n->name);
}

static void put_avgpool2d(builder *b, const ls_layer *layer) {
    const ls_layer_pool *p = &layer->attr.avgpool2d;
    if (p->stride.h == 0) {
        put_adaptive(b, layer);
        return;
    }
    node *n = add_plain(b, layer, OP_AveragePool);
    add_window(n, p->kernel, p->stride, p->padding);
    add_int(n, "count_include_pad", 1);
}

static void put_globalavgpool(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_GlobalAveragePool);
}

static void put_globalmaxpool(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_GlobalMaxPool);
}

static void put_dropout(builder *b, const ls_layer *layer) {
    add_plain(b, layer, OP_Identity);
}
#define put_dropout2d put_dropout
#define put_droppath put_dropout

static void put_add(builder *b, const ls_layer *layer) {
    const char *first = value_of(b, layer->inputs[0], layer->flat, layer->name);
    const char *second = value_of(b, layer->inputs[1], layer->flat, layer->name);
    add_input(add_node(b, OP_Add, layer->name, first), second);
}

// Returns the name of an input of a multiply layer. A gate that is a vector is reshaped to (C,1,1).
static const char *factor_of(builder *b, const ls_layer *layer, int input) {
    const int from = layer->inputs[input], gates = !ls_chw_equal(ls_graph_out(b->graph, from), layer->out);
    if (!gates || !ls_graph_is_flat(b->graph, from)) return value_of(b, from, layer->flat, layer->name);
    char name[NAME_BYTES];
    return add_reshape(b, inner_name(name, layer->name, "gate"), value_of(b, from, 0, layer->name), 4,
        (const int64_t[]){ 0, layer->out.c, 1, 1 });
}

static void put_multiply(builder *b, const ls_layer *layer) {
    const char *first = factor_of(b, layer, 0), *second = factor_of(b, layer, 1);
    add_input(add_node(b, OP_Mul, layer->name, first), second);
}

static void put_concat(builder *b, const ls_layer *layer) {
    const char *inputs[LS_INPUTS_MAX];
    char reader[LS_NAME_BYTES];
    for (int i = 0; i < layer->input_count; i++) { // each input may need its own node that flattens it
        snprintf(reader, sizeof reader, "%.*s/%d", LS_NAME_BYTES - 8, layer->name, i);
        inputs[i] = value_of(b, layer->inputs[i], layer->flat, reader);
    }
    const int shuffles = layer->attr.concat.interleave;
    char name[4][NAME_BYTES];
    node *n = add_node(b, OP_Concat, shuffles ? inner_name(name[0], layer->name, "joined") : layer->name, inputs[0]);
    for (int i = 1; i < layer->input_count; i++) add_input(n, inputs[i]);
    add_int(n, "axis", 1);
    if (!shuffles) return;
    const char *from = add_reshape(
        b, inner_name(name[1], layer->name, "groups"), n->name, 4, (const int64_t[]){ 0, 2, layer->in.c, -1 });
    from = add_transpose(b, inner_name(name[2], layer->name, "turns"), from, (const int64_t[]){ 0, 2, 1, 3 })->name;
    const ls_chw out = layer->out;
    add_reshape(b, layer->name, from, layer->flat ? 2 : 4, (const int64_t[]){ 0, out.c, out.h, out.w });
}

static void put_slice(builder *b, const ls_layer *layer) {
    const ls_layer_slice *s = &layer->attr.slice;
    char name[3][NAME_BYTES];
    node *n = add_plain(b, layer, OP_Slice);
    add_input(n, add_list(b, inner_name(name[0], layer->name, "from"), 1, (const int64_t[]){ s->from }));
    add_input(n, add_list(b, inner_name(name[1], layer->name, "end"), 1, (const int64_t[]){ s->from + s->channels }));
    add_input(n, add_list(b, inner_name(name[2], layer->name, "axis"), 1, (const int64_t[]){ 1 }));
}

// Writes a shortcut: a max pooling with a 1x1 window takes every stride-th row and column; padding adds zero channels.
static void put_shortcut(builder *b, const ls_layer *layer) {
    const int before = (layer->out.c - layer->in.c) / 2, after = layer->out.c - layer->in.c - before;
    char taken[NAME_BYTES], pads[NAME_BYTES];
    node *n = add_node(b, OP_MaxPool, after ? inner_name(taken, layer->name, "taken") : layer->name,
        value_of(b, layer->inputs[0], 0, layer->name));
    const int stride = layer->attr.shortcut.stride;
    add_window(n, (ls_pair){ 1, 1 }, (ls_pair){ stride, stride }, (ls_pair){ 0, 0 });
    if (!after) return;
    node *pad = add_node(b, OP_Pad, layer->name, n->name);
    add_input(pad,
        add_list(b, inner_name(pads, layer->name, "pads"), 8, (const int64_t[]){ 0, before, 0, 0, 0, after, 0, 0 }));
}

static void put_flatten(builder *b, const ls_layer *layer) {
    add_int(add_plain(b, layer, OP_Flatten), "axis", 1);
}

static void put_scale(builder *b, const ls_layer *layer) {
    add_input(add_plain(b, layer, OP_Mul), add_number(b, layer, "factor", (float)layer->attr.scale.factor));
}

static void (*const put_layer[LS_LAYER_COUNT])(builder *b, const ls_layer *layer) = {
#define X(NAME, name, type, field) [LS_LAYER_##NAME] = put_##name,
#include "model/layers.def"
#undef X
};

// Adds the nodes input/shifted = input - 255 * mean and input/normalised = input/shifted / (255 * std).
static void put_normalisation(builder *b) {
    const int dims[] = { b->graph->input.c, 1, 1 };
    tensor *mean = add_tensor(b, "input/mean", 3, dims, NULL), *std = add_tensor(b, "input/std", 3, dims, NULL);
    for (int c = 0; c < b->graph->input.c; c++) {
        mean->values[c] = (float)(255.0 * (double)b->info->mean[c]);
        std->values[c] = (float)(255.0 * (double)b->info->std[c]);
    }
    mean->proto.raw_data.data = (uint8_t *)mean->values;
    std->proto.raw_data.data = (uint8_t *)std->values;
    add_input(add_node(b, OP_Sub, "input/shifted", "input"), "input/mean");
    add_input(add_node(b, OP_Div, "input/normalised", "input/shifted"), "input/std");
}

// Adds the tensor of a parameter. A layer scale's parameter has the name of its layer's output, and so gets another. A
// convolution's weight always has four dimensions.
static void put_param(builder *b, int p) {
    const ls_param *param = &b->graph->params[p];
    const char *layer = b->graph->layers[param->layer].name;
    const int is_conv = param->shape.kind == LS_PARAM_CONV, is_output = strcmp(param->name, layer) == 0;
    char name[NAME_BYTES];
    add_tensor(b, is_output ? inner_name(name, layer, "factors") : param->name, is_conv ? 4 : param->rank,
        is_conv ? param->shape.dim : param->file_dim, b->weights[p]);
}

// --- the whole -----------------------------------------------------------------------------------

// Describes an input or output of the graph. Dimension 0 is a batch of any size; the others are dims[1..rank-1].
static void describe_value(value_info *v, const char *name, int rank, const int *dims) {
    onnx__value_info_proto__init(&v->proto);
    onnx__type_proto__init(&v->type);
    onnx__type_proto__tensor__init(&v->tensor);
    onnx__tensor_shape_proto__init(&v->shape);
    v->proto.name = text(name);
    v->proto.type = &v->type;
    v->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type.tensor_type = &v->tensor;
    v->tensor.has_elem_type = 1;
    v->tensor.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    v->tensor.shape = &v->shape;
    for (int d = 0; d < rank; d++) {
        onnx__tensor_shape_proto__dimension__init(&v->dim[d]);
        v->dims[d] = &v->dim[d];
        v->dim[d].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        v->dim[d].dim_value = dims[d];
    }
    v->dim[0].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    v->dim[0].dim_param = text("batch");
    v->shape.n_dim = (size_t)rank;
    v->shape.dim = v->dims;
}

static int format_of(int operator_set) {
    size_t i = 0;
    while (operator_set < formats[i].operator_set) i++;
    return formats[i].ir;
}

static ls_status pack(const char *path, const Onnx__ModelProto *model) {
    const size_t bytes = onnx__model_proto__get_packed_size(model);
    if (bytes > INT32_MAX) // protobuf's limit for a message
        return ls_fail(LS_USAGE, "%s: would have %zu bytes; an ONNX file has at most %d", path, bytes, INT32_MAX);
    uint8_t *packed;
    LS_TRY(ls_try_new(&packed, bytes, 1, "%s", path));
    onnx__model_proto__pack(model, packed);
    ls_status status = ls_write_file(path, packed, bytes);
    free(packed);
    return status;
}

static ls_status write_model(const char *path, builder *b) {
    const ls_graph *g = b->graph;
    put_normalisation(b);
    for (int p = 0; p < g->param_count; p++) put_param(b, p);
    for (int l = 0; l < g->layer_count; l++) put_layer[g->layers[l].kind](b, &g->layers[l]);
    const char *last = g->layers[g->layer_count - 1].name;

    value_info input, output, *ends[] = { &input, &output };
    const int input_dims[] = { 0, g->input.c, g->input.h, g->input.w }, output_dims[] = { 0, g->classes };
    describe_value(ends[0], "input", 4, input_dims);
    describe_value(ends[1], value_of(b, g->layer_count - 1, 1, last), 2, output_dims);
    Onnx__ValueInfoProto *inputs[] = { &input.proto }, *outputs[] = { &output.proto };
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    graph.name = text("lockstep");
    graph.n_node = (size_t)b->node_count;
    graph.node = b->node_list;
    graph.n_initializer = (size_t)b->tensor_count;
    graph.initializer = b->tensor_list;
    graph.n_input = graph.n_output = 1;
    graph.input = inputs;
    graph.output = outputs;

    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[] = { &opset };
    opset.domain = text("");
    opset.has_version = 1;
    opset.version = b->operator_set;
    const char *const info[PROPS][2] = { { "classes", b->classes }, { "dataset", b->info->dataset },
        { "input", g->input.c == 1 ? "gray pixels from 0 to 255, not normalised"
                                   : "red, green and blue pixels from 0 to 255, not normalised" } };
    Onnx__StringStringEntryProto prop[PROPS], *props[PROPS];
    for (int i = 0; i < PROPS; i++) {
        onnx__string_string_entry_proto__init(&prop[i]);
        prop[i].key = text(info[i][0]);
        prop[i].value = text(info[i][1]);
        props[i] = &prop[i];
    }
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    model.has_ir_version = 1;
    model.ir_version = format_of(b->operator_set);
    model.n_opset_import = 1;
    model.opset_import = opsets;
    model.producer_name = text("lockstep");
    model.producer_version = text(ls_version());
    model.graph = &graph;
    model.n_metadata_props = PROPS;
    model.metadata_props = props;
    return pack(path, &model);
}

// Refuses a layer with the name of a parameter: values and parameters of an ONNX graph must have different names.
static ls_status check_names(const ls_graph *g) {
    for (int l = 0; l < g->layer_count; l++)
        for (int p = 0; p < g->param_count; p++)
            if (l != g->params[p].layer && strcmp(g->layers[l].name, g->params[p].name) == 0)
                return ls_fail(LS_USAGE,
                    "%s:%d: layer '%s' is called like a parameter of layer '%s', which an ONNX file cannot have: "
                    "rename "
                    "one of them",
                    g->path, g->layers[l].line, g->layers[l].name, g->layers[g->params[p].layer].name);
    return LS_SUCCESS;
}

static void new_builder(const ls_weights_info *info, builder *b) {
    const ls_graph *g = info->graph;
    const size_t layers = (size_t)g->layer_count;
    size_t nodes = 3 + 7 * layers; // normalisation two, output one, a layer at most seven (group norm)
    const size_t tensors = NORMALISATION_TENSORS + (size_t)g->param_count + 6 * layers; // a layer at most six
    size_t channels = 1;
    for (int l = 0; l < g->layer_count; l++) {
        nodes += (size_t)g->layers[l].input_count; // each input may be flattened
        if ((size_t)g->layers[l].in.c > channels) channels = (size_t)g->layers[l].in.c;
    }
    *b = (builder){ .info = info, .graph = g, .operator_set = OPERATOR_SET_MIN };
    b->weights = ls_new(tensors, sizeof *b->weights, "ONNX graph of %s", g->path);
    b->nodes = ls_new(nodes, sizeof *b->nodes, "ONNX graph of %s", g->path);
    b->node_list = ls_new(nodes, sizeof *b->node_list, "ONNX graph of %s", g->path);
    b->tensors = ls_new(tensors, sizeof *b->tensors, "ONNX graph of %s", g->path);
    b->tensor_list = ls_new(tensors, sizeof *b->tensor_list, "ONNX graph of %s", g->path);
    b->means = ls_new(2 * layers, sizeof *b->means, "ONNX graph of %s", g->path);
    b->ones = ls_new(channels, sizeof *b->ones, "ONNX graph of %s", g->path);
    b->zeros = ls_new(channels, sizeof *b->zeros, "ONNX graph of %s", g->path);
    for (size_t c = 0; c < channels; c++) b->ones[c] = 1;
    cJSON *classes = cJSON_CreateArray();
    for (int i = 0; i < g->classes; i++) ls_json_append(classes, ls_json_string(info->classes[i]));
    b->classes = ls_json_text(classes, 0);
    cJSON_Delete(classes);
}

ls_status ls_onnx_write(
    const char *path, const ls_weights_info *info, const ls_safetensors *weights, int *operator_set) {
    builder b;
    LS_TRY(check_names(info->graph));
    new_builder(info, &b);
    ls_status status = ls_weights_find(weights, info->graph, b.weights);
    LS_THEN(status, write_model(path, &b));
    *operator_set = b.operator_set;
    free(b.weights);
    free(b.nodes);
    free(b.node_list);
    free(b.tensors);
    free(b.tensor_list);
    for (int i = 0; i < b.mean_count; i++) free(b.means[i]);
    free(b.means);
    free(b.ones);
    free(b.zeros);
    free(b.classes);
    return status;
}

#endif
