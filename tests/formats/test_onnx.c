// Exported networks read back by protobuf: every kind of layer, its operator and attributes,
// its parameters bit for bit, and a graph in which every value is made once, before it is read.
// What other programs compute with such files: tests/real_readers.
#include "support/temp.h"
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
    int count; // 0: a single integer; -1: a float; -2: the text "tanh"; -3: 0 and the three digits of value
    double value;
} attribute;

static const struct {
    const char *op, *name, *inputs[5];
    attribute attributes[5];
} expected[] = {
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
    { "Reshape", "turns/groups", { "turns/joined", "turns/groups/shape" }, { { 0 } } },
    { "Transpose", "turns/turns", { "turns/groups" }, { { "perm", -3, 213 } } },
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
    int operator_set; // as ls_onnx_write says
} exported;

// Initial weights of this network, written, exported, and read back.
static ls_status export_network(const char *text, const char *shape, exported *e) {
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
    LS_TRY(ls_onnx_write(onnx_path, e->facts, e->file, &e->operator_set));
    char *bytes = NULL;
    size_t count = 0;
    must(ls_read_file(onnx_path, &bytes, &count));
    e->model = onnx__model_proto__unpack(NULL, count, (const uint8_t *)bytes);
    free(bytes);
    assert_non_null(e->model);
    return LS_SUCCESS;
}

static void close_export(exported *e) {
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
    else if (wanted->count == -3)
        good = good && a->n_ints == 4 && a->ints[0] == 0 &&
               (double)(100 * a->ints[1] + 10 * a->ints[2] + a->ints[3]) == wanted->value;
    else if (wanted->count < 0)
        good = good && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT && a->f == (float)wanted->value;
    else if (wanted->count == 0)
        good = good && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT && (double)a->i == wanted->value;
    else
        good = good && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS && a->n_ints == (size_t)wanted->count;
    for (int i = 0; good && i < wanted->count; i++) good = (double)a->ints[i] == wanted->value;
    if (!good) fail_msg("%s: attribute '%s' is not the expected '%s' = %g", node, a->name, name, wanted->value);
}

static void every_kind_of_layer(void **state) {
    (void)state;
    exported e;
    must(export_network(network, "3x12x10", &e));
    int seen[LS_LAYER_COUNT] = { 0 };
    for (int l = 0; l < e.facts->graph->layer_count; l++) seen[e.facts->graph->layers[l].kind] = 1;
    for (int k = 0; k < LS_LAYER_COUNT; k++)
        if (!seen[k]) fail_msg("this test has no layer of kind %s", ls_layer_kind_name((ls_layer_kind)k));
    const Onnx__GraphProto *graph = e.model->graph;
    assert_int_equal(graph->n_node, sizeof expected / sizeof *expected);
    for (size_t n = 0; n < graph->n_node; n++) {
        const Onnx__NodeProto *node = graph->node[n];
        assert_string_equal(node->op_type, expected[n].op);
        assert_string_equal(node->name, expected[n].name);
        assert_int_equal(node->n_output, 1);
        assert_string_equal(node->output[0], expected[n].name);
        size_t inputs = 0, attributes = 0;
        for (; inputs < 5 && expected[n].inputs[inputs]; inputs++)
            if (inputs >= node->n_input || strcmp(node->input[inputs], expected[n].inputs[inputs]) != 0)
                fail_msg("%s: input %zu is not '%s'", node->name, inputs, expected[n].inputs[inputs]);
        assert_int_equal(node->n_input, inputs);
        for (; attributes < 5 && expected[n].attributes[attributes].name; attributes++) {
            assert_true(attributes < node->n_attribute);
            check_attribute(node->name, node->attribute[attributes], &expected[n].attributes[attributes]);
        }
        assert_int_equal(node->n_attribute, attributes);
    }
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
        cmocka_unit_test(logits_are_vectors),
        cmocka_unit_test(lowest_versions),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#endif
