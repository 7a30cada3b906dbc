// Exported networks read back by protobuf: every kind of layer, its operator and attributes,
// its parameters bit for bit, and a graph in which every value is made once, before it is read. Networks in int8: every
// kind of step, with its scales, and weights within half a step of the trained ones.
// What other programs compute with such files: tests/real_readers.
#include "support/temp.h"

#include <math.h>
#include "deploy/quantise.h"
#include "deploy/write_onnx.h"
#include "formats/onnx.h"
#include "train/whole_run.h"

#ifdef LOCKSTEP_WITHOUT_ONNX

int main(void) {
    const ls_status status = ls_onnx_write("x.onnx", NULL, NULL, NULL);
    printf("skipped: %s\n", status.text);
    return status.code == LS_USAGE ? 77 : 1;
}

#else

#include <onnx.pb-c.h>

static temp_folder folder;
static char weights_path[320], onnx_path[320];

// Every kind of layer, and both ways to become a vector.
static const char network[] = "[network]\ninput = 3x12x10\n"
                              "[stem]\nlayer = conv2d\nout_channels = 8\nkernel = 5\nstride = 2\npadding = 1\n"
                              "[norm]\nlayer = batchnorm2d\neps = 1e-3\n"
                              "[relu]\nlayer = relu\n"
                              "[grouped]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 2\ndilation = 2\n"
                              "groups = 4\nbias = false\n"
                              "[sum]\nlayer = add\ninputs = grouped, relu\n"
                              "[max]\nlayer = maxpool2d\nkernel = 3\nstride = 2\npadding = 1\n"
                              "ceil_mode = true\n"
                              "[mean]\nlayer = avgpool2d\nkernel = 2\nstride = 1\npadding = 1\n"
                              "[path]\nlayer = droppath\n[channels]\nlayer = dropout2d\n"
                              "[drop]\nlayer = dropout\np = 0.5\n"
                              "[all]\nlayer = globalavgpool\n"
                              "[top]\nlayer = globalmaxpool\ninputs = drop\n"
                              "[vector]\nlayer = flatten\ninputs = all\n"
                              "[mixed]\nlayer = add\ninputs = vector, top\n"
                              "[bend]\nlayer = gelu\n"
                              "[swish]\nlayer = silu\n"
                              "[leaky]\nlayer = leaky_relu\nslope = 0.25\n"
                              "[six]\nlayer = relu6\n"
                              "[elu]\nlayer = elu\nalpha = 0.5\n"
                              "[bend2]\nlayer = gelu_tanh\n"
                              "[hard]\nlayer = hardsigmoid\n"
                              "[hard2]\nlayer = hardswish\n"
                              "[mish]\nlayer = mish\n"
                              "[tanh]\nlayer = tanh\n"
                              "[soft]\nlayer = softplus\n"
                              "[half]\nlayer = scale\nfactor = 0.5\n"
                              "[squash]\nlayer = sigmoid\n"
                              "[gated]\nlayer = multiply\ninputs = squash, drop\n"
                              "[part]\nlayer = shortcut\nout_channels = 11\n"
                              "[taken]\nlayer = shortcut\ninputs = gated\nout_channels = 8\n"
                              "[joined]\nlayer = concat\ninputs = part, taken\n"
                              "[grouped2]\nlayer = groupnorm\ngroups = 19\neps = 1e-4\n"
                              "[plain]\nlayer = groupnorm\ngroups = 1\naffine = false\n"
                              "[pixels]\nlayer = layernorm\neps = 1e-3\n"
                              "[pixels2]\nlayer = layernorm\naffine = false\n"
                              "[factors]\nlayer = layerscale\n"
                              "[dense]\nlayer = conv2d\nout_channels = 19\nkernel = 1\nmatrix = true\nbias = false\n"
                              "[left]\nlayer = slice\nchannels = 9\n"
                              "[right]\nlayer = slice\ninputs = dense\nfrom = 10\nchannels = 9\n"
                              "[turns]\nlayer = concat\ninputs = left, right\ninterleave = true\n"
                              "[adapted]\nlayer = avgpool2d\noutput = 5x2\n"
                              "[pooled]\nlayer = globalavgpool\n"
                              "[vectors]\nlayer = concat\ninputs = squash, pooled\n"
                              "[product]\nlayer = multiply\ninputs = vectors, vectors\n"
                              "[out]\nlayer = linear\nout_features = 4\n";

// Attributes in the order in which they are written: name, then its one value, or the value of all its `count` ones.
typedef struct {
    const char *name;
    int count; // 0: a single integer; -1: a float; -2: the text "tanh"; -3: 0 and the three digits of value; -4: the four
               // digits of value; -5: its two digits
    double value;
} attribute;

typedef struct {
    const char *op, *name, *inputs[5];
    attribute attributes[5];
} expected_node;

static const expected_node expected[] = {
    { "Sub", "input/shifted", { "input", "input/mean" }, { { 0 } } },
    { "Div", "input/normalised", { "input/shifted", "input/std" }, { { 0 } } },
    { "Conv", "stem", { "input/normalised", "stem.weight", "stem.bias" },
        { { "kernel_shape", 2, 5 }, { "strides", 2, 2 }, { "pads", 4, 1 }, { "dilations", 2, 1 }, { "group", 0, 1 } } },
    { "BatchNormalization", "norm", { "stem", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var" },
        { { "epsilon", -1, 1e-3 } } },
    { "Relu", "relu", { "norm" }, { { 0 } } },
    { "Conv", "grouped", { "relu", "grouped.weight" },
        { { "kernel_shape", 2, 3 }, { "strides", 2, 1 }, { "pads", 4, 2 }, { "dilations", 2, 2 }, { "group", 0, 4 } } },
    { "Add", "sum", { "grouped", "relu" }, { { 0 } } },
    { "MaxPool", "max", { "sum" },
        { { "kernel_shape", 2, 3 }, { "strides", 2, 2 }, { "pads", 4, 1 }, { "ceil_mode", 0, 1 } } },
    { "AveragePool", "mean", { "max" },
        { { "kernel_shape", 2, 2 }, { "strides", 2, 1 }, { "pads", 4, 1 }, { "count_include_pad", 0, 1 } } },
    { "Identity", "path", { "mean" }, { { 0 } } },
    { "Identity", "channels", { "path" }, { { 0 } } },
    { "Identity", "drop", { "channels" }, { { 0 } } },
    { "GlobalAveragePool", "all", { "drop" }, { { 0 } } },
    { "GlobalMaxPool", "top", { "drop" }, { { 0 } } },
    { "Flatten", "vector", { "all" }, { { "axis", 0, 1 } } },
    { "Flatten", "mixed/flat", { "top" }, { { "axis", 0, 1 } } },
    { "Add", "mixed", { "vector", "mixed/flat" }, { { 0 } } },
    { "Gelu", "bend", { "mixed" }, { { 0 } } },
    { "Sigmoid", "swish/sigmoid", { "bend" }, { { 0 } } },
    { "Mul", "swish", { "bend", "swish/sigmoid" }, { { 0 } } },
    { "LeakyRelu", "leaky", { "swish" }, { { "alpha", -1, 0.25 } } },
    { "Clip", "six", { "leaky", "six/least", "six/most" }, { { 0 } } },
    { "Elu", "elu", { "six" }, { { "alpha", -1, 0.5 } } },
    { "Gelu", "bend2", { "elu" }, { { "approximate", -2, 0 } } },
    { "HardSigmoid", "hard", { "bend2" }, { { "alpha", -1, 1 / 6.0 }, { "beta", -1, 0.5 } } },
    { "HardSigmoid", "hard2/hardsigmoid", { "hard" }, { { "alpha", -1, 1 / 6.0 }, { "beta", -1, 0.5 } } },
    { "Mul", "hard2", { "hard", "hard2/hardsigmoid" }, { { 0 } } },
    { "Softplus", "mish/softplus", { "hard2" }, { { 0 } } },
    { "Tanh", "mish/tanh", { "mish/softplus" }, { { 0 } } },
    { "Mul", "mish", { "hard2", "mish/tanh" }, { { 0 } } },
    { "Tanh", "tanh", { "mish" }, { { 0 } } },
    { "Softplus", "soft", { "tanh" }, { { 0 } } },
    { "Mul", "half", { "soft", "half/factor" }, { { 0 } } },
    { "Sigmoid", "squash", { "half" }, { { 0 } } },
    { "Reshape", "gated/gate", { "squash", "gated/gate/shape" }, { { 0 } } },
    { "Mul", "gated", { "gated/gate", "drop" }, { { 0 } } },
    { "MaxPool", "part/taken", { "gated" }, { { "kernel_shape", 2, 1 }, { "strides", 2, 2 }, { "pads", 4, 0 } } },
    { "Pad", "part", { "part/taken", "part/pads" }, { { 0 } } },
    { "MaxPool", "taken", { "gated" }, { { "kernel_shape", 2, 1 }, { "strides", 2, 2 }, { "pads", 4, 0 } } },
    { "Concat", "joined", { "part", "taken" }, { { "axis", 0, 1 } } },
    { "Reshape", "grouped2/groups", { "joined", "grouped2/groups/shape" }, { { 0 } } },
    { "InstanceNormalization", "grouped2/normalised", { "grouped2/groups", "grouped2/ones", "grouped2/zeros" },
        { { "epsilon", -1, 1e-4 } } },
    { "Reshape", "grouped2/map", { "grouped2/normalised", "grouped2/map/shape" }, { { 0 } } },
    { "Reshape", "grouped2.weight/channels", { "grouped2.weight", "grouped2.weight/channels/shape" }, { { 0 } } },
    { "Mul", "grouped2/scaled", { "grouped2/map", "grouped2.weight/channels" }, { { 0 } } },
    { "Reshape", "grouped2.bias/channels", { "grouped2.bias", "grouped2.bias/channels/shape" }, { { 0 } } },
    { "Add", "grouped2", { "grouped2/scaled", "grouped2.bias/channels" }, { { 0 } } },
    { "Reshape", "plain/groups", { "grouped2", "plain/groups/shape" }, { { 0 } } },
    { "InstanceNormalization", "plain/normalised", { "plain/groups", "plain/ones", "plain/zeros" },
        { { "epsilon", -1, 1e-5 } } },
    { "Reshape", "plain", { "plain/normalised", "plain/shape" }, { { 0 } } },
    { "Transpose", "pixels/last", { "plain" }, { { "perm", -3, 231 } } },
    { "LayerNormalization", "pixels/normalised", { "pixels/last", "pixels.weight", "pixels.bias" },
        { { "epsilon", -1, 1e-3 } } },
    { "Transpose", "pixels", { "pixels/normalised" }, { { "perm", -3, 312 } } },
    { "Transpose", "pixels2/last", { "pixels" }, { { "perm", -3, 231 } } },
    { "LayerNormalization", "pixels2/normalised", { "pixels2/last", "pixels2/ones" }, { { "epsilon", -1, 1e-6 } } },
    { "Transpose", "pixels2", { "pixels2/normalised" }, { { "perm", -3, 312 } } },
    { "Mul", "factors", { "pixels2", "factors/factors" }, { { 0 } } },
    { "Conv", "dense", { "factors", "dense.weight" },
        { { "kernel_shape", 2, 1 }, { "strides", 2, 1 }, { "pads", 4, 0 }, { "dilations", 2, 1 }, { "group", 0, 1 } } },
    { "Slice", "left", { "dense", "left/from", "left/end", "left/axis" }, { { 0 } } },
    { "Slice", "right", { "dense", "right/from", "right/end", "right/axis" }, { { 0 } } },
    { "Concat", "turns/joined", { "left", "right" }, { { "axis", 0, 1 } } },
    { "Reshape", "turns/halves", { "turns/joined", "turns/halves/shape" }, { { 0 } } },
    { "Transpose", "turns/turns", { "turns/halves" }, { { "perm", -3, 213 } } },
    { "Reshape", "turns", { "turns/turns", "turns/shape" }, { { 0 } } },
    { "MatMul", "adapted/columns", { "turns", "adapted/by_column" }, { { 0 } } },
    { "MatMul", "adapted", { "adapted/by_row", "adapted/columns" }, { { 0 } } },
    { "GlobalAveragePool", "pooled", { "adapted" }, { { 0 } } },
    { "Flatten", "vectors/1/flat", { "pooled" }, { { "axis", 0, 1 } } },
    { "Concat", "vectors", { "squash", "vectors/1/flat" }, { { "axis", 0, 1 } } },
    { "Mul", "product", { "vectors", "vectors" }, { { 0 } } },
    { "Gemm", "out", { "product", "out.weight", "out.bias" }, { { "transB", 0, 1 } } },
};

static int set_up(void **state) {
    (void)state;
    folder = temp_folder_new();
    snprintf(weights_path, sizeof weights_path, "%s/w.safetensors", folder.path);
    snprintf(onnx_path, sizeof onnx_path, "%s/w.onnx", folder.path);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    temp_folder_remove(&folder);
    return 0;
}

typedef struct {
    ls_safetensors *file;
    ls_weights_info *facts;
    Onnx__ModelProto *model;
    ls_network *network; // in int8, or NULL
    int operator_set;    // as ls_onnx_write says
} exported;

// Calibrates on noise, and writes the network in int8.
static ls_status write_integers(exported *e) {
    enum { PICTURES = 8, PIXELS = 3 * 12 * 10 };
    static uint8_t pixels[PICTURES * PIXELS];
    static const int32_t labels[PICTURES] = { 0 };
    uint32_t state = 1;
    for (int i = 0; i < PICTURES * PIXELS; i++) pixels[i] = (uint8_t)((state = state * 1664525U + 1013904223U) >> 24);
    const ls_quantise_pictures pictures = { .pixels = pixels, .labels = labels, .count = PICTURES };
    ls_quantised result;
    LS_TRY(ls_network_new(e->facts, e->file, 1, &e->network));
    must(ls_quantise(e->network, &pictures, &result));
    return ls_write_onnx(onnx_path, e->network, &e->operator_set);
}

// Initial weights of this network, written, exported, and read back.
static ls_status export_as(const char *text, const char *shape, int integer, exported *e) {
    char network_path[] = "/tmp/lockstep_network_XXXXXX", shape_option[64];
    assert_int_equal(run_write_network(network_path, text), 0);
    snprintf(shape_option, sizeof shape_option, "data.shape=%s", shape);
    const char *const options[] = { "data.dataset=synthetic", shape_option, "data.classes=4", "data.mean=0.25",
        "data.std=0.5", "data.train_samples=16", "data.test_samples=4", "train.global_batch=4", "device.type=ref",
        NULL };
    const char *const three[] = { "data.mean=0.25,0.5,0.125", "data.std=0.5,0.25,1", NULL };
    const char *const *lists[RUN_LISTS_MAX] = { options, shape[0] == '3' ? three : NULL };
    run r = { 0 };
    must(run_open(&r, network_path, lists));
    must(ls_trainer_save_weights(r.trainer, weights_path));
    run_close(&r);
    unlink(network_path);
    *e = (exported){ 0 };
    must(ls_safetensors_read(weights_path, &e->file));
    must(ls_weights_info_read(weights_path, e->file, &e->facts));
    LS_TRY(integer ? write_integers(e) : ls_onnx_write(onnx_path, e->facts, e->file, &e->operator_set));
    char *bytes = NULL;
    size_t count = 0;
    must(ls_read_file(onnx_path, &bytes, &count));
    e->model = onnx__model_proto__unpack(NULL, count, (const uint8_t *)bytes);
    free(bytes);
    assert_non_null(e->model);
    return LS_SUCCESS;
}

static ls_status export_network(const char *text, const char *shape, exported *e) {
    return export_as(text, shape, 0, e);
}

static void close_export(exported *e) {
    ls_network_free(e->network);
    if (e->model) onnx__model_proto__free_unpacked(e->model, NULL);
    ls_weights_info_free(e->facts);
    ls_safetensors_free(e->file);
}

static void check_attribute(const char *node, const Onnx__AttributeProto *a, const attribute *wanted) {
    const char *name = wanted->name;
    int good = strcmp(a->name, name) == 0 && a->has_type;
    if (wanted->count == -2)
        good = good && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING && a->s.len == 4 &&
               memcmp(a->s.data, "tanh", 4) == 0;
    else if (wanted->count == -3 || wanted->count == -4)
        good = good && a->n_ints == 4 && a->ints[0] * (wanted->count == -3) == 0 &&
               (double)(1000 * a->ints[0] + 100 * a->ints[1] + 10 * a->ints[2] + a->ints[3]) == wanted->value;
    else if (wanted->count == -5)
        good = good && a->n_ints == 2 && (double)(10 * a->ints[0] + a->ints[1]) == wanted->value;
    else if (wanted->count < 0)
        good = good && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT && a->f == (float)wanted->value;
    else if (wanted->count == 0)
        good = good && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT && (double)a->i == wanted->value;
    else
        good = good && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS && a->n_ints == (size_t)wanted->count;
    for (int i = 0; good && i < wanted->count; i++) good = (double)a->ints[i] == wanted->value;
    if (!good) fail_msg("%s: attribute '%s' is not the expected '%s' = %g", node, a->name, name, wanted->value);
}

static void check_node(const Onnx__NodeProto *node, const expected_node *wanted) {
    assert_string_equal(node->name, wanted->name);
    assert_string_equal(node->op_type, wanted->op);
    assert_int_equal(node->n_output, 1);
    assert_string_equal(node->output[0], wanted->name);
    size_t inputs = 0, attributes = 0;
    for (; inputs < 5 && wanted->inputs[inputs]; inputs++)
        if (inputs >= node->n_input || strcmp(node->input[inputs], wanted->inputs[inputs]) != 0)
            fail_msg("%s: input %zu is not '%s'", node->name, inputs, wanted->inputs[inputs]);
    assert_int_equal(node->n_input, inputs);
    for (; attributes < 5 && wanted->attributes[attributes].name; attributes++) {
        assert_true(attributes < node->n_attribute);
        check_attribute(node->name, node->attribute[attributes], &wanted->attributes[attributes]);
    }
    assert_int_equal(node->n_attribute, attributes);
}

static void every_kind_of_layer(void **state) {
    (void)state;
    exported e;
    must(export_network(network, "3x12x10", &e));
    int seen[LS_LAYER_COUNT] = { 0 };
    for (int l = 0; l < e.facts->graph->layer_count; l++) seen[e.facts->graph->layers[l].kind] = 1;
    for (int k = 0; k < LS_LAYER_COUNT; k++)
        if (!seen[k] && k != LS_LAYER_QUANTISE) // which ONNX files in floats refuse
            fail_msg("this test has no layer of kind %s", ls_layer_kind_name((ls_layer_kind)k));
    const Onnx__GraphProto *graph = e.model->graph;
    assert_int_equal(graph->n_node, sizeof expected / sizeof *expected);
    for (size_t n = 0; n < graph->n_node; n++) check_node(graph->node[n], &expected[n]);
    close_export(&e);
}

static void check_value(const Onnx__ValueInfoProto *value, const char *name, int rank, const int *dims) {
    assert_string_equal(value->name, name);
    assert_int_equal(value->type->value_case, ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE);
    const Onnx__TypeProto__Tensor *tensor = value->type->tensor_type;
    assert_int_equal(tensor->elem_type, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    assert_int_equal(tensor->shape->n_dim, rank);
    assert_string_equal(tensor->shape->dim[0]->dim_param, "batch");
    for (int d = 1; d < rank; d++) assert_int_equal(tensor->shape->dim[d]->dim_value, dims[d]);
}

static const Onnx__TensorProto *find_tensor(const Onnx__GraphProto *graph, const char *name) {
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (strcmp(graph->initializer[i]->name, name) == 0) return graph->initializer[i];
    fail_msg("no initializer '%s'", name);
    return NULL;
}

static void weights_and_ends(void **state) {
    (void)state;
    exported e;
    must(export_network(network, "3x12x10", &e));
    const Onnx__GraphProto *graph = e.model->graph;
    assert_string_equal(e.model->producer_name, "lockstep");
    check_value(graph->input[0], "input", 4, (const int[]){ 0, 3, 12, 10 });
    check_value(graph->output[0], "out", 2, (const int[]){ 0, 4 });
    assert_string_equal(e.model->metadata_props[0]->key, "classes");
    assert_string_equal(e.model->metadata_props[0]->value, "[\"0\",\"1\",\"2\",\"3\"]");
    for (int i = 0; i < ls_safetensors_count(e.file); i++) {
        ls_safetensors_tensor wanted;
        assert_true(ls_safetensors_get(e.file, i, &wanted));
        // The output of a layer scale has the name of its factors; a matrix becomes a kernel of 1x1.
        const int is_scale = strcmp(wanted.name, "factors") == 0, is_matrix = strcmp(wanted.name, "dense.weight") == 0;
        const Onnx__TensorProto *t = find_tensor(graph, is_scale ? "factors/factors" : wanted.name);
        int64_t count = 1;
        assert_int_equal(wanted.rank, is_matrix ? 2 : wanted.rank);
        assert_int_equal(t->n_dims, is_matrix ? 4 : wanted.rank);
        for (int d = 0; d < (int)t->n_dims; d++) {
            assert_int_equal(t->dims[d], d < wanted.rank ? wanted.dim[d] : 1);
            count *= t->dims[d];
        }
        assert_int_equal(t->data_type, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
        assert_int_equal(t->raw_data.len, count * 4);
        assert_memory_equal(t->raw_data.data, wanted.data, t->raw_data.len);
    }
    static const float mean[] = { 0.25f * 255, 0.5f * 255, 0.125f * 255 }, std[] = { 127.5f, 63.75f, 255 };
    const float half = 0.5f;
    assert_memory_equal(find_tensor(graph, "input/mean")->raw_data.data, mean, sizeof mean);
    assert_memory_equal(find_tensor(graph, "input/std")->raw_data.data, std, sizeof std);
    assert_memory_equal(find_tensor(graph, "half/factor")->raw_data.data, &half, sizeof half);
    close_export(&e);
}

// Every kind of step in int8. Windows that end inside and outside the map: their padding is explicit.
static const char integers[] = "[network]\ninput = 3x12x10\n"
                               "[stem]\nlayer = conv2d\nout_channels = 8\nkernel = 3\nstride = 2\npadding = 1\n"
                               "[relu]\nlayer = relu\n"
                               "[wide]\nlayer = conv2d\nout_channels = 8\nkernel = 3x2\npadding = 2x1\ndilation = 2\n"
                               "groups = 2\n"
                               "[depth]\nlayer = conv2d\nout_channels = 8\nkernel = 3\ngroups = 8\npadding = 1\n"
                               "bias = false\n"
                               "[sum]\nlayer = add\ninputs = depth, wide\n"
                               "[bend]\nlayer = silu\n"
                               "[max]\nlayer = maxpool2d\nkernel = 3\nstride = 2\npadding = 1\nceil_mode = true\n"
                               "[mean]\nlayer = avgpool2d\nkernel = 2\nstride = 1\npadding = 1\n"
                               "[half]\nlayer = scale\nfactor = 0.5\n"
                               "[all]\nlayer = globalavgpool\n"
                               "[gate]\nlayer = relu6\n"
                               "[gated]\nlayer = multiply\ninputs = half, gate\n"
                               "[part]\nlayer = shortcut\nout_channels = 11\n"
                               "[joined]\nlayer = concat\ninputs = part, part\n"
                               "[left]\nlayer = slice\nchannels = 10\n"
                               "[right]\nlayer = slice\ninputs = joined\nfrom = 12\nchannels = 10\n"
                               "[turns]\nlayer = concat\ninputs = left, right\ninterleave = true\n"
                               "[flat]\nlayer = flatten\n[drop]\nlayer = dropout\n"
                               "[out]\nlayer = linear\nout_features = 4\n";

// The nodes without those that quantise and dequantise. Layers that join the layer before give their names.
static const expected_node expected_integers[] = {
    { "Sub", "input/shifted", { "input", "input/mean" }, { { 0 } } },
    { "Div", "input/normalised", { "input/shifted", "input/std" }, { { 0 } } },
    { "Conv", "relu/linear", { "input/value", "relu/weight", "relu/bias" },
        { { "kernel_shape", 2, 3 }, { "strides", 2, 2 }, { "pads", -4, 1100 }, { "dilations", 2, 1 },
            { "group", 0, 1 } } },
    { "Relu", "relu", { "relu/linear" }, { { 0 } } },
    { "Conv", "wide", { "relu/value", "wide/weight", "wide/bias" },
        { { "kernel_shape", -5, 32 }, { "strides", 2, 1 }, { "pads", -4, 2121 }, { "dilations", 2, 2 },
            { "group", 0, 2 } } },
    { "Conv", "depth", { "wide/value", "depth/weight", "depth/bias" },
        { { "kernel_shape", 2, 3 }, { "strides", 2, 1 }, { "pads", 4, 1 }, { "dilations", 2, 1 }, { "group", 0, 8 } } },
    { "Add", "sum", { "depth/value", "wide/value" }, { { 0 } } },
    { "Sigmoid", "bend/sigmoid", { "sum/value" }, { { 0 } } },
    { "Mul", "bend", { "sum/value", "bend/sigmoid" }, { { 0 } } },
    { "MaxPool", "max", { "bend/value" }, { { "kernel_shape", 2, 3 }, { "strides", 2, 2 }, { "pads", -4, 1121 } } },
    { "AveragePool", "mean", { "max/value" },
        { { "kernel_shape", 2, 2 }, { "strides", 2, 1 }, { "pads", 4, 1 }, { "count_include_pad", 0, 1 } } },
    { "Mul", "half", { "mean/value", "half/factor" }, { { 0 } } },
    { "AveragePool", "all", { "half/value" },
        { { "kernel_shape", -5, 54 }, { "strides", 2, 1 }, { "pads", 4, 0 }, { "count_include_pad", 0, 1 } } },
    { "Clip", "gate", { "all/value", "gate/least", "gate/most" }, { { 0 } } },
    { "Mul", "gated", { "half/value", "gate/value" }, { { 0 } } },
    { "MaxPool", "part/taken", { "gated/value" }, { { "kernel_shape", 2, 1 }, { "strides", 2, 2 }, { "pads", 4, 0 } } },
    { "Pad", "part", { "part/taken", "part/pads" }, { { 0 } } },
    { "Concat", "joined", { "part/value", "part/value" }, { { "axis", 0, 1 } } },
    { "Slice", "left", { "joined/value", "left/from", "left/end", "left/axis" }, { { 0 } } },
    { "Slice", "right", { "joined/value", "right/from", "right/end", "right/axis" }, { { 0 } } },
    { "Concat", "turns/joined", { "left/value", "right/value" }, { { "axis", 0, 1 } } },
    { "Reshape", "turns/halves", { "turns/joined", "turns/halves/shape" }, { { 0 } } },
    { "Transpose", "turns/turns", { "turns/halves" }, { { "perm", -3, 213 } } },
    { "Reshape", "turns", { "turns/turns", "turns/shape" }, { { 0 } } },
    { "Conv", "out", { "turns/value", "out/weight", "out/bias" },
        { { "kernel_shape", -5, 32 }, { "strides", 2, 1 }, { "pads", 4, 0 }, { "dilations", 2, 1 },
            { "group", 0, 1 } } },
    { "Flatten", "out/logits", { "out/value" }, { { "axis", 0, 1 } } },
};

static float float_at(const Onnx__TensorProto *t, size_t index) {
    float value;
    assert_int_equal(t->data_type, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    assert_true((index + 1) * sizeof value <= t->raw_data.len);
    memcpy(&value, t->raw_data.data + index * sizeof value, sizeof value);
    return value;
}

static const Onnx__TensorProto *find_part(const Onnx__GraphProto *graph, const char *of, const char *part) {
    char name[200];
    snprintf(name, sizeof name, "%s/%s", of, part);
    return find_tensor(graph, name);
}

// The value that a step computes: quantised from the node before, with the step's scale, and dequantised.
static void check_quantised(const exported *e, const Onnx__GraphProto *graph, size_t n, int step) {
    const Onnx__NodeProto *to = graph->node[n], *from = graph->node[n + 1];
    const char *const name = e->network->steps[step].name;
    const ls_network_value *v = &e->network->values[e->network->steps[step].output];
    char names[4][200];
    static const char *const parts[] = { "uint8", "value", "scale", "zero" };
    for (int i = 0; i < 4; i++) snprintf(names[i], sizeof names[i], "%s/%s", name, parts[i]);
    const expected_node quantise = { "QuantizeLinear", names[0], { graph->node[n - 1]->name, names[2], names[3] },
        { { 0 } } };
    const expected_node dequantise = { "DequantizeLinear", names[1], { names[0], names[2], names[3] }, { { 0 } } };
    check_node(to, &quantise);
    check_node(from, &dequantise);
    const Onnx__TensorProto *zero = find_tensor(graph, names[3]);
    assert_int_equal(zero->data_type, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8);
    assert_int_equal(zero->raw_data.len, 1);
    assert_int_equal(zero->raw_data.data[0], v->zero + 128);
    assert_true((double)float_at(find_tensor(graph, names[2]), 0) == v->scale);
}

// The weights or biases of a step: `integers` times the scales of their channels lie within half a step of the trained
// ones.
static void check_rounded(const exported *e, const Onnx__GraphProto *graph, const char *step, const char *part,
    const char *type, const char *trained) {
    ls_safetensors_tensor wanted;
    char name[64];
    snprintf(name, sizeof name, "%s/%s", part, type);
    const Onnx__TensorProto *t = find_part(graph, step, name);
    snprintf(name, sizeof name, "%s/scale", part);
    const Onnx__TensorProto *scales = find_part(graph, step, name);
    int64_t count = 1;
    for (size_t d = 0; d < t->n_dims; d++) count *= t->dims[d];
    const int is_bias = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
    assert_int_equal(t->raw_data.len, count * (is_bias ? 4 : 1));
    assert_true(is_bias || t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__INT8);
    int found = 0;
    while (ls_safetensors_get(e->file, found, &wanted) && strcmp(wanted.name, trained) != 0) found++;
    assert_string_equal(wanted.name, trained);
    for (int64_t i = 0; i < count; i++) {
        int32_t q = (int8_t)t->raw_data.data[i];
        float real;
        if (is_bias) memcpy(&q, t->raw_data.data + 4 * i, 4);
        memcpy(&real, (const char *)wanted.data + 4 * i, 4);
        const double scale = (double)float_at(scales, (size_t)(i / (count / t->dims[0]))), back = q * scale;
        if (!(fabs(back - (double)real) <= 0.5001 * scale))
            fail_msg("%s: number %d is %g, trained %g, scale %g", trained, (int)i, back, (double)real, scale);
    }
}

static void every_step_in_int8(void **state) {
    (void)state;
    exported e;
    must(export_as(integers, "3x12x10", 1, &e));
    const Onnx__GraphProto *graph = e.model->graph;
    int seen[LS_STEP_COUNT] = { [LS_STEP_GROUP_NORM] = 1 }, step = 0; // which has no integer form
    for (int i = 0; i < e.network->step_count; i++) seen[e.network->steps[i].kind] = 1;
    for (int k = 0; k < LS_STEP_COUNT; k++)
        if (!seen[k]) fail_msg("this test has no step of kind %d", k);
    size_t plain = 0;
    for (size_t n = 0; n < graph->n_node; n++) {
        const Onnx__NodeProto *node = graph->node[n];
        if (strcmp(node->op_type, "QuantizeLinear") == 0) {
            while (e.network->steps[step + 1].output == e.network->steps[step].output) step++; // of a concat
            check_quantised(&e, graph, n++, step++);
        } else if (strcmp(node->op_type, "DequantizeLinear") == 0) {
            assert_int_equal(node->n_input, 3);
            assert_int_equal(node->n_attribute, 1);
            check_attribute(node->name, node->attribute[0], &(attribute){ "axis", 0, 0 });
        } else {
            assert_true(plain < sizeof expected_integers / sizeof *expected_integers);
            check_node(node, &expected_integers[plain++]);
        }
    }
    assert_int_equal(plain, sizeof expected_integers / sizeof *expected_integers);
    assert_int_equal(step, e.network->step_count - 1);
    assert_int_equal(e.operator_set, 13);
    check_value(graph->output[0], "out/logits", 2, (const int[]){ 0, 4 });
    check_rounded(&e, graph, "relu", "weight", "int8", "stem.weight");
    check_rounded(&e, graph, "wide", "weight", "int8", "wide.weight");
    check_rounded(&e, graph, "depth", "weight", "int8", "depth.weight");
    check_rounded(&e, graph, "out", "weight", "int8", "out.weight");
    check_rounded(&e, graph, "relu", "bias", "int32", "stem.bias");
    for (size_t o = 0; o < 8; o++) {
        const float product =
            float_at(find_part(graph, "relu", "weight/scale"), o) * float_at(find_part(graph, "input", "scale"), 0);
        assert_true(fabsf(float_at(find_part(graph, "relu", "bias/scale"), o) / product - 1) < 1e-6F);
    }
    close_export(&e);
}

// A network that ends with a map of 1x1 gives vectors of logits all the same.
static void logits_are_vectors(void **state) {
    (void)state;
    exported e;
    must(export_network("[network]\ninput = 1x4x4\n[c]\nlayer = conv2d\nout_channels = 4\nkernel = 3\n"
                        "[p]\nlayer = globalavgpool\n",
        "1x4x4", &e));
    const Onnx__GraphProto *graph = e.model->graph;
    assert_string_equal(graph->node[graph->n_node - 1]->op_type, "Flatten");
    check_value(graph->output[0], "p/flat", 2, (const int[]){ 0, 4 });
    close_export(&e);
}

// A reader refuses versions newer than itself: each network says the lowest that it can do with.
static void lowest_versions(void **state) {
    (void)state;
    static const struct {
        const char *name, *network;
        int operator_set, ir;
    } rows[] = {
        { "as in lenet",
            "[network]\ninput = 3x12x10\n[c]\nlayer = conv2d\nout_channels = 4\nkernel = 3\n[r]\nlayer = relu\n"
            "[m]\nlayer = maxpool2d\nkernel = 2\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 4\n",
            11, 6 },
        { "a linear layer without bias",
            "[network]\ninput = 3x12x10\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 4\n"
            "bias = false\n",
            11, 6 },
        { "GELU", network, 20, 9 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        exported e;
        must(export_network(rows[i].network, "3x12x10", &e));
        const int set = (int)e.model->opset_import[0]->version, ir = (int)e.model->ir_version;
        if (set != rows[i].operator_set || ir != rows[i].ir || e.operator_set != set)
            fail_msg("%s: operator set %d, IR %d, told is %d; expected %d and %d", rows[i].name, set, ir,
                e.operator_set, rows[i].operator_set, rows[i].ir);
        close_export(&e);
    }
}

static void refusals(void **state) {
    (void)state;
    exported e;
    ls_status status = export_network("[network]\ninput = 1x4x4\n[c]\nlayer = conv2d\nout_channels = 4\nkernel = 3\n"
                                      "[c.weight]\nlayer = globalavgpool\n",
        "1x4x4", &e);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, ":7: layer 'c.weight' is called like a parameter of layer 'c'"));
    close_export(&e);
    status = export_network("[network]\ninput = 1x4x4\n[c.bias]\nlayer = relu\n"
                            "[c]\nlayer = conv2d\nout_channels = 4\nkernel = 3\n[p]\nlayer = globalavgpool\n",
        "1x4x4", &e);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, ":3: layer 'c.bias' is called like a parameter of layer 'c'"));
    close_export(&e);
    must(export_network(network, "3x12x10", &e));
    char nowhere[400];
    snprintf(nowhere, sizeof nowhere, "%s/none/w.onnx", folder.path);
    status = ls_onnx_write(nowhere, e.facts, e.file, &e.operator_set);
    assert_int_equal(status.code, LS_STORAGE);
    assert_non_null(strstr(status.text, nowhere));
    close_export(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_layer),
        cmocka_unit_test(weights_and_ends),
        cmocka_unit_test(every_step_in_int8),
        cmocka_unit_test(logits_are_vectors),
        cmocka_unit_test(lowest_versions),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#endif
