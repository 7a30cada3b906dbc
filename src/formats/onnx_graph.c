#include "formats/onnx_graph.h"

#ifndef LOCKSTEP_WITHOUT_ONNX

#include <onnx.pb-c.h>
#include <stdarg.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/version.h"

#define PURPOSE "ONNX graph"

static const struct {
    const char *name;
    int since;
} operators[] = {
#define X(name, since) { #name, since },
    LS_ONNX_OPERATORS(X)
#undef X
};

static const struct {
    Onnx__TensorProto__DataType type;
    size_t bytes;
} types[] = {
    [LS_ONNX_FLOAT] = { ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 4 },
    [LS_ONNX_UINT8] = { ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 1 },
    [LS_ONNX_INT8] = { ONNX__TENSOR_PROTO__DATA_TYPE__INT8, 1 },
    [LS_ONNX_INT32] = { ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 4 },
    [LS_ONNX_INT64] = { ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 8 },
};

// The operator sets that a model may name: a model names the lowest set that has all of its operators, and the file
// format (ir) of the ONNX release that brought the set, because a reader refuses newer models. The lowest set is 11
// (ONNX 1.6, of 2019): onnxruntime 1.0 reads it, and tools that quantise a model convert older models to it first.
static const struct {
    int operator_set, ir; // ir belongs to sets from operator_set on; extend the list when operators are added
} formats[] = { { 19, 9 }, { 15, 8 }, { 12, 7 }, { 11, 6 } };
enum { OPERATOR_SET_MIN = 11 };

// All messages, texts and values are objects of their own, which onnx__model_proto__free_unpacked frees.
struct ls_onnx_graph {
    Onnx__ModelProto *model;
    int operator_set; // lowest set that has the operators of all nodes so far
};

// Allocates a message and makes it empty. type: its type, such as onnx__node_proto
#define NEW(pointer, type) \
    ((pointer) = ls_new(1, sizeof *(pointer), PURPOSE), type##__init(pointer)) // NOLINT(bugprone-macro-parentheses)
// Adds an element to a repeated field of a message.
#define APPEND(message, field, element) \
    ((message)->field = ls_grow((message)->field, (message)->n_##field, sizeof *(message)->field, PURPOSE), \
        (message)->field[(message)->n_##field++] = (element))

ls_onnx_graph *ls_onnx_graph_new(void) {
    ls_onnx_graph *g = ls_new(1, sizeof *g, PURPOSE);
    NEW(g->model, onnx__model_proto);
    NEW(g->model->graph, onnx__graph_proto);
    g->model->graph->name = ls_new_text("lockstep");
    g->operator_set = OPERATOR_SET_MIN;
    return g;
}

static void free_object(void *unused, void *object) {
    (void)unused;
    free(object);
}

void ls_onnx_graph_free(ls_onnx_graph *g) {
    // The objects are freed by the program that made them, not by the library, which may have another allocator.
    ProtobufCAllocator own = { .free = free_object };
    onnx__model_proto__free_unpacked(g->model, &own);
    free(g);
}

// --- nodes and constants -------------------------------------------------------------------------

static char *new_name(const char *format, va_list arguments) {
    char name[2 * LS_NAME_BYTES];
    vsnprintf(name, sizeof name, format, arguments);
    return ls_new_text(name);
}

const char *ls_onnx_node(ls_onnx_graph *g, ls_onnx_operator op, const char *input, const char *name, ...) {
    Onnx__NodeProto *n;
    va_list arguments;
    NEW(n, onnx__node_proto);
    va_start(arguments, name);
    n->name = new_name(name, arguments);
    va_end(arguments);
    n->op_type = ls_new_text(operators[op].name);
    if (operators[op].since > g->operator_set) g->operator_set = operators[op].since;
    APPEND(n, output, ls_new_text(n->name));
    APPEND(g->model->graph, node, n);
    ls_onnx_input(g, input);
    return n->name;
}

static Onnx__NodeProto *newest(const ls_onnx_graph *g) {
    return g->model->graph->node[g->model->graph->n_node - 1];
}

void ls_onnx_input(ls_onnx_graph *g, const char *name) {
    APPEND(newest(g), input, ls_new_text(name));
}

static Onnx__AttributeProto *add_attribute(
    ls_onnx_graph *g, const char *name, Onnx__AttributeProto__AttributeType type) {
    Onnx__AttributeProto *a;
    NEW(a, onnx__attribute_proto);
    a->name = ls_new_text(name);
    a->has_type = 1;
    a->type = type;
    APPEND(newest(g), attribute, a);
    return a;
}

void ls_onnx_int(ls_onnx_graph *g, const char *attribute, int64_t value) {
    Onnx__AttributeProto *a = add_attribute(g, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    a->has_i = 1;
    a->i = value;
}

void ls_onnx_float(ls_onnx_graph *g, const char *attribute, float value) {
    Onnx__AttributeProto *a = add_attribute(g, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    a->has_f = 1;
    a->f = value;
}

void ls_onnx_ints(ls_onnx_graph *g, const char *attribute, int count, const int64_t *values) {
    Onnx__AttributeProto *a = add_attribute(g, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    for (int i = 0; i < count; i++) APPEND(a, ints, values[i]);
}

void ls_onnx_window(ls_onnx_graph *g, ls_pair kernel, ls_pair stride, ls_pair pad_before, ls_pair pad_after) {
    ls_onnx_ints(g, "kernel_shape", 2, (const int64_t[]){ kernel.h, kernel.w });
    ls_onnx_ints(g, "strides", 2, (const int64_t[]){ stride.h, stride.w });
    ls_onnx_ints(g, "pads", 4, (const int64_t[]){ pad_before.h, pad_before.w, pad_after.h, pad_after.w });
}

const char *ls_onnx_tensor(
    ls_onnx_graph *g, ls_onnx_type type, int rank, const int *dims, const void *values, const char *name, ...) {
    Onnx__TensorProto *t;
    va_list arguments;
    NEW(t, onnx__tensor_proto);
    va_start(arguments, name);
    t->name = new_name(name, arguments);
    va_end(arguments);
    size_t bytes = types[type].bytes;
    for (int d = 0; d < rank; d++) {
        APPEND(t, dims, dims[d]);
        bytes *= (size_t)dims[d];
    }
    t->has_data_type = t->has_raw_data = 1;
    t->data_type = types[type].type;
    t->raw_data = (ProtobufCBinaryData){ bytes, ls_new(bytes, 1, PURPOSE) };
    memcpy(t->raw_data.data, values, bytes);
    APPEND(g->model->graph, initializer, t);
    return t->name;
}

const char *ls_onnx_number(ls_onnx_graph *g, float value, const char *of, const char *part) {
    return ls_onnx_tensor(g, LS_ONNX_FLOAT, 0, NULL, &value, "%s/%s", of, part);
}

// Adds a list of integers to the newest node's inputs.
static void add_list(ls_onnx_graph *g, int count, const int64_t *values, const char *part) {
    const char *name = newest(g)->name;
    ls_onnx_input(g, ls_onnx_tensor(g, LS_ONNX_INT64, 1, &count, values, "%s/%s", name, part));
}

const char *ls_onnx_reshape(
    ls_onnx_graph *g, const char *input, int rank, const int64_t *shape, const char *name, ...) {
    va_list arguments;
    va_start(arguments, name);
    char *text = new_name(name, arguments);
    va_end(arguments);
    const char *shaped = ls_onnx_node(g, LS_ONNX_Reshape, input, "%s", text);
    free(text);
    add_list(g, rank, shape, "shape");
    return shaped;
}

const char *ls_onnx_slice(ls_onnx_graph *g, int from, int channels, const char *input, const char *name) {
    const char *sliced = ls_onnx_node(g, LS_ONNX_Slice, input, "%s", name);
    add_list(g, 1, (const int64_t[]){ from }, "from");
    add_list(g, 1, (const int64_t[]){ from + channels }, "end");
    add_list(g, 1, (const int64_t[]){ 1 }, "axis");
    return sliced;
}

const char *ls_onnx_interleave(ls_onnx_graph *g, ls_chw out, int rank, const char *input, const char *name) {
    const char *halves = ls_onnx_reshape(g, input, 4, (const int64_t[]){ 0, 2, out.c / 2, -1 }, "%s/halves", name);
    const char *turns = ls_onnx_node(g, LS_ONNX_Transpose, halves, "%s/turns", name);
    ls_onnx_ints(g, "perm", 4, (const int64_t[]){ 0, 2, 1, 3 });
    return ls_onnx_reshape(g, turns, rank, (const int64_t[]){ 0, out.c, out.h, out.w }, "%s", name);
}

// --- activations and normalisation ---------------------------------------------------------------

typedef struct {
    ls_onnx_graph *graph;
    const char *input, *name;
    float parameter;
} activation;

static const char *put(const activation *a, ls_onnx_operator op) {
    return ls_onnx_node(a->graph, op, a->input, "%s", a->name);
}

static void put_gelu(const activation *a) {
    put(a, LS_ONNX_Gelu); // exact without the attribute `approximate`
}

static void put_gelu_tanh(const activation *a) {
    put(a, LS_ONNX_Gelu);
    Onnx__AttributeProto *t = add_attribute(a->graph, "approximate", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    t->has_s = 1;
    t->s = (ProtobufCBinaryData){ 4, (uint8_t *)ls_new_text("tanh") };
}

// Writes input * factor.
static void put_gated(const activation *a, const char *factor) {
    put(a, LS_ONNX_Mul);
    ls_onnx_input(a->graph, factor);
}

// ONNX has no operator for silu before set 24, and a model shall name a low set.
static void put_silu(const activation *a) {
    put_gated(a, ls_onnx_node(a->graph, LS_ONNX_Sigmoid, a->input, "%s/sigmoid", a->name));
}

static void put_sigmoid(const activation *a) {
    put(a, LS_ONNX_Sigmoid);
}

static void put_leaky_relu(const activation *a) {
    put(a, LS_ONNX_LeakyRelu);
    ls_onnx_float(a->graph, "alpha", a->parameter);
}

static void put_relu6(const activation *a) {
    put(a, LS_ONNX_Clip);
    ls_onnx_input(a->graph, ls_onnx_number(a->graph, 0, a->name, "least"));
    ls_onnx_input(a->graph, ls_onnx_number(a->graph, 6, a->name, "most"));
}

static void put_elu(const activation *a) {
    put(a, LS_ONNX_Elu);
    ls_onnx_float(a->graph, "alpha", a->parameter);
}

static void set_hardsigmoid(const activation *a) {
    ls_onnx_float(a->graph, "alpha", 1.0F / 6);
    ls_onnx_float(a->graph, "beta", 0.5F);
}

static void put_hardsigmoid(const activation *a) {
    put(a, LS_ONNX_HardSigmoid);
    set_hardsigmoid(a);
}

// ONNX has an operator for hardswish from set 14 on, for mish from set 18 on. Other operators let the set be lower.
static void put_hardswish(const activation *a) {
    const char *factor = ls_onnx_node(a->graph, LS_ONNX_HardSigmoid, a->input, "%s/hardsigmoid", a->name);
    set_hardsigmoid(a);
    put_gated(a, factor);
}

static void put_mish(const activation *a) {
    const char *inner = ls_onnx_node(a->graph, LS_ONNX_Softplus, a->input, "%s/softplus", a->name);
    put_gated(a, ls_onnx_node(a->graph, LS_ONNX_Tanh, inner, "%s/tanh", a->name));
}

static void put_tanh(const activation *a) {
    put(a, LS_ONNX_Tanh);
}

static void put_softplus(const activation *a) {
    put(a, LS_ONNX_Softplus);
}

static void put_relu(const activation *a) {
    put(a, LS_ONNX_Relu);
}

static void put_nothing(const activation *a) {
    put(a, LS_ONNX_Identity);
}

static void (*const put_activation[LS_ACTIVATION_COUNT])(const activation *a) = {
    [LS_ACTIVATION_NONE] = put_nothing,
    [LS_ACTIVATION_RELU] = put_relu,
#define ACTIVATION(NAME, name, zero, text) [LS_ACTIVATION_##NAME] = put_##name,
#include "config/activations.def"
};

const char *ls_onnx_activation(
    ls_onnx_graph *g, ls_activation kind, double parameter, const char *input, const char *name) {
    const activation a = { .graph = g, .input = input, .name = name, .parameter = (float)parameter };
    put_activation[kind](&a);
    return newest(g)->name;
}

// Adds the nodes input/shifted = input - 255 * mean and input/normalised = input/shifted / (255 * std).
const char *ls_onnx_normalisation(ls_onnx_graph *g, const ls_weights_info *info) {
    const int channels = info->graph->input.c, dims[] = { channels, 1, 1 };
    float *numbers = ls_new(2 * (size_t)channels, sizeof *numbers, PURPOSE);
    for (int c = 0; c < channels; c++) {
        numbers[c] = (float)(255.0 * (double)info->mean[c]);
        numbers[channels + c] = (float)(255.0 * (double)info->std[c]);
    }
    const char *shifted = ls_onnx_node(g, LS_ONNX_Sub, "input", "input/shifted");
    ls_onnx_input(g, ls_onnx_tensor(g, LS_ONNX_FLOAT, 3, dims, numbers, "input/mean"));
    const char *normalised = ls_onnx_node(g, LS_ONNX_Div, shifted, "input/normalised");
    ls_onnx_input(g, ls_onnx_tensor(g, LS_ONNX_FLOAT, 3, dims, numbers + channels, "input/std"));
    free(numbers);
    return normalised;
}

const char *ls_onnx_shortcut(
    ls_onnx_graph *g, int stride, int in_channels, int out_channels, const char *input, const char *name) {
    const int before = (out_channels - in_channels) / 2, after = out_channels - in_channels - before;
    const char *taken = ls_onnx_node(g, LS_ONNX_MaxPool, input, after ? "%s/taken" : "%s", name);
    ls_onnx_window(g, (ls_pair){ 1, 1 }, (ls_pair){ stride, stride }, (ls_pair){ 0, 0 }, (ls_pair){ 0, 0 });
    if (!after) return taken;
    const char *padded = ls_onnx_node(g, LS_ONNX_Pad, taken, "%s", name);
    add_list(g, 8, (const int64_t[]){ 0, before, 0, 0, 0, after, 0, 0 }, "pads");
    return padded;
}

// --- the file ------------------------------------------------------------------------------------

// Describes an input or output of the graph: float32. Dimension 0 is a batch of any size; the others are
// dims[1..rank-1].
static Onnx__ValueInfoProto *new_value(const char *name, int rank, const int *dims) {
    Onnx__ValueInfoProto *v;
    Onnx__TypeProto__Tensor *t;
    NEW(v, onnx__value_info_proto);
    NEW(v->type, onnx__type_proto);
    NEW(t, onnx__type_proto__tensor);
    NEW(t->shape, onnx__tensor_shape_proto);
    v->name = ls_new_text(name);
    v->type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    v->type->tensor_type = t;
    t->has_elem_type = 1;
    t->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    for (int d = 0; d < rank; d++) {
        Onnx__TensorShapeProto__Dimension *to;
        NEW(to, onnx__tensor_shape_proto__dimension);
        to->value_case = d ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                           : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        if (d)
            to->dim_value = dims[d];
        else
            to->dim_param = ls_new_text("batch");
        APPEND(t->shape, dim, to);
    }
    return v;
}

static void add_note(Onnx__ModelProto *model, const char *key, const char *value) {
    Onnx__StringStringEntryProto *note;
    NEW(note, onnx__string_string_entry_proto);
    note->key = ls_new_text(key);
    note->value = ls_new_text(value);
    APPEND(model, metadata_props, note);
}

static void add_notes(Onnx__ModelProto *model, const ls_weights_info *info) {
    cJSON *classes = cJSON_CreateArray();
    for (int i = 0; i < info->graph->classes; i++) ls_json_append(classes, ls_json_string(info->classes[i]));
    char *text = ls_json_text(classes, 0);
    cJSON_Delete(classes);
    add_note(model, "classes", text);
    free(text);
    if (info->several) add_note(model, "labels", "several: the sigmoid of each logit is the probability of its class");
    add_note(model, "dataset", info->dataset);
    add_note(model, "input",
        info->graph->input.c == 1 ? "gray pixels from 0 to 255, not normalised"
                                  : "red, green and blue pixels from 0 to 255, not normalised");
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

ls_status ls_onnx_graph_write(
    const ls_onnx_graph *g, const char *path, const ls_weights_info *info, const char *output, int *operator_set) {
    Onnx__ModelProto *model = g->model;
    Onnx__OperatorSetIdProto *set;
    const ls_chw in = info->graph->input;
    APPEND(model->graph, input, new_value("input", 4, (const int[]){ 0, in.c, in.h, in.w }));
    APPEND(model->graph, output, new_value(output, 2, (const int[]){ 0, info->graph->classes }));
    NEW(set, onnx__operator_set_id_proto);
    set->domain = ls_new_text("");
    set->has_version = 1;
    set->version = *operator_set = g->operator_set;
    APPEND(model, opset_import, set);
    size_t i = 0;
    while (g->operator_set < formats[i].operator_set) i++;
    model->has_ir_version = 1;
    model->ir_version = formats[i].ir;
    model->producer_name = ls_new_text("lockstep");
    model->producer_version = ls_new_text(ls_version());
    add_notes(model, info);
    return pack(path, model);
}

#endif
