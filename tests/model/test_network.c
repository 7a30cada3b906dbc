// Network files: shapes, parameters and cost of every kind of layer, and every refusal with its message.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "model/graph.h"
#include "support/cmocka.h"
#include "support/shipped.h"

static char path[64] = "/tmp/lockstep-network-XXXXXX";

static int make_file(void **state) {
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static ls_status read_text(const char *text, ls_graph **graph) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return ls_graph_read(path, graph);
}

static int find_layer(const ls_graph *graph, const char *name) {
    for (int i = 0; i < graph->layer_count; i++) {
        if (strcmp(graph->layers[i].name, name) == 0) return i;
    }
    fail_msg("no layer '%s'", name);
    return -1;
}

static const ls_param *find_param(const ls_graph *graph, const char *name) {
    for (int i = 0; i < graph->param_count; i++) {
        if (strcmp(graph->params[i].name, name) == 0) return &graph->params[i];
    }
    fail_msg("no parameter '%s'", name);
    return NULL;
}

// One layer [x] between the input and a linear layer; out as PyTorch's documentation computes it.
static const struct {
    const char *row, *input, *layer;
    ls_chw out;
    int64_t parameters;   // trained
    double multiply_adds; // of one sample
} shapes[] = {
    { "conv", "3x8x8", "layer=conv2d\nout_channels=4\nkernel=3", { 4, 6, 6 }, 112, 3888 },
    { "conv, padded", "3x8x8", "layer=conv2d\nout_channels=4\nkernel=3\npadding=1", { 4, 8, 8 }, 112, 6912 },
    { "conv, padding = same", "3x8x7", "layer=conv2d\nout_channels=4\nkernel=3x5\npadding=same", { 4, 8, 7 }, 184,
        10080 },
    { "conv, padding = same, dilated and even", "3x8x7",
        "layer=conv2d\nout_channels=4\nkernel=2x1\ndilation=2\npadding=same", { 4, 8, 7 }, 28, 1344 },
    { "conv, a matrix", "3x8x8", "layer=conv2d\nout_channels=4\nkernel=1\nmatrix=true", { 4, 8, 8 }, 16, 768 },
    { "conv, stride rounds down", "3x8x8", "layer=conv2d\nout_channels=4\nkernel=3\nstride=2\npadding=1", { 4, 4, 4 },
        112, 1728 },
    { "conv, rectangular", "3x7x10", "layer=conv2d\nout_channels=2\nkernel=2\nstride=3", { 2, 2, 3 }, 26, 144 },
    { "conv, 3x5, stride 2x1, padding 0x2", "2x9x6",
        "layer=conv2d\nout_channels=4\nkernel=3x5\nstride=2x1\npadding=0x2", { 4, 4, 6 }, 124, 2880 },
    { "maxpool, 1x3, stride as the kernel", "3x4x10", "layer=maxpool2d\nkernel=1x3", { 3, 4, 3 }, 0, 0 },
    { "avgpool, 4x2, stride 2x1, padding 2x1", "3x5x5", "layer=avgpool2d\nkernel=4x2\nstride=2x1\npadding=2x1",
        { 3, 3, 6 }, 0, 0 },
    { "conv, dilated", "2x9x11", "layer=conv2d\nout_channels=5\nkernel=3\ndilation=3\npadding=1", { 5, 5, 7 }, 95,
        3150 },
    { "conv, groups", "6x5x5", "layer=conv2d\nout_channels=4\nkernel=3\ngroups=2", { 4, 3, 3 }, 112, 972 },
    { "conv, depthwise, no bias", "6x5x5", "layer=conv2d\nout_channels=6\nkernel=5\ngroups=6\nbias=false", { 6, 1, 1 },
        150, 150 },
    { "conv, kernel as large as the padded map", "1x3x3", "layer=conv2d\nout_channels=1\nkernel=7\npadding=2",
        { 1, 1, 1 }, 50, 49 },
    { "linear on a vector", "20x1x1", "layer=linear\nout_features=7", { 7, 1, 1 }, 147, 140 },
    { "linear, no bias", "20x1x1", "layer=linear\nout_features=7\nbias=false", { 7, 1, 1 }, 140, 140 },
    { "relu", "3x4x5", "layer=relu", { 3, 4, 5 }, 0, 0 },
    { "gelu", "3x4x5", "layer=gelu", { 3, 4, 5 }, 0, 0 },
    { "silu", "3x4x5", "layer=silu", { 3, 4, 5 }, 0, 0 },
    { "leaky_relu", "3x4x5", "layer=leaky_relu\nslope=0.2", { 3, 4, 5 }, 0, 0 },
    { "hardswish", "3x4x5", "layer=hardswish", { 3, 4, 5 }, 0, 0 },
    { "relu6", "3x4x5", "layer=relu6", { 3, 4, 5 }, 0, 0 },
    { "elu", "3x4x5", "layer=elu", { 3, 4, 5 }, 0, 0 },
    { "gelu_tanh", "3x4x5", "layer=gelu_tanh", { 3, 4, 5 }, 0, 0 },
    { "hardsigmoid", "3x4x5", "layer=hardsigmoid", { 3, 4, 5 }, 0, 0 },
    { "mish", "3x4x5", "layer=mish", { 3, 4, 5 }, 0, 0 },
    { "tanh", "3x4x5", "layer=tanh", { 3, 4, 5 }, 0, 0 },
    { "softplus", "3x4x5", "layer=softplus", { 3, 4, 5 }, 0, 0 },
    { "sigmoid", "3x4x5", "layer=sigmoid", { 3, 4, 5 }, 0, 0 },
    { "groupnorm", "6x4x5", "layer=groupnorm\ngroups=3", { 6, 4, 5 }, 12, 0 },
    { "groupnorm, not affine", "6x4x5", "layer=groupnorm\ngroups=6\neps=1e-3\naffine=false", { 6, 4, 5 }, 0, 0 },
    { "layernorm", "6x4x5", "layer=layernorm\neps=1e-5", { 6, 4, 5 }, 12, 0 },
    { "layernorm, not affine", "6x4x5", "layer=layernorm\naffine=false", { 6, 4, 5 }, 0, 0 },
    { "layerscale", "6x4x5", "layer=layerscale\nvalue=0.1", { 6, 4, 5 }, 6, 0 },
    { "multiply", "3x4x5", "layer=multiply\ninputs=input, input", { 3, 4, 5 }, 0, 0 },
    { "concat", "3x4x5", "layer=concat\ninputs=input, input, input", { 9, 4, 5 }, 0, 0 },
    { "shuffle", "3x4x5", "layer=concat\ninputs=input, input\ninterleave=true", { 6, 4, 5 }, 0, 0 },
    { "slice", "9x4x5", "layer=slice\nfrom=2\nchannels=7", { 7, 4, 5 }, 0, 0 },
    { "adaptive average", "3x7x5", "layer=avgpool2d\noutput=3x8", { 3, 3, 8 }, 0, 0 },
    { "shortcut", "3x7x5", "layer=shortcut\nout_channels=6", { 6, 4, 3 }, 0, 0 },
    { "shortcut, stride 3, the same channels", "3x7x5", "layer=shortcut\nout_channels=3\nstride=3", { 3, 3, 2 }, 0, 0 },
    { "batchnorm2d", "3x4x5", "layer=batchnorm2d\neps=1e-3\nmomentum=0.2", { 3, 4, 5 }, 6, 0 },
    { "maxpool", "3x8x8", "layer=maxpool2d\nkernel=2", { 3, 4, 4 }, 0, 0 },
    { "maxpool, odd map rounds down", "3x7x9", "layer=maxpool2d\nkernel=2", { 3, 3, 4 }, 0, 0 },
    { "maxpool, rounding up", "3x7x8", "layer=maxpool2d\nkernel=2\nceil_mode=true", { 3, 4, 4 }, 0, 0 },
    { "maxpool, rounding up, but not to a window of padding", "3x4x5",
        "layer=maxpool2d\nkernel=2\nstride=3\npadding=1\nceil_mode=true", { 3, 2, 2 }, 0, 0 },
    { "maxpool, overlapping", "3x8x8", "layer=maxpool2d\nkernel=3\nstride=2\npadding=1", { 3, 4, 4 }, 0, 0 },
    { "avgpool, stride 1", "2x5x4", "layer=avgpool2d\nkernel=3\nstride=1", { 2, 3, 2 }, 0, 0 },
    { "avgpool to 3x2", "2x6x8", "layer=avgpool2d\noutput=3x2", { 2, 3, 2 }, 0, 0 },
    { "avgpool to what it has", "2x5x4", "layer=avgpool2d\noutput=5x4", { 2, 5, 4 }, 0, 0 },
    { "globalavgpool", "5x7x3", "layer=globalavgpool", { 5, 1, 1 }, 0, 0 },
    { "globalmaxpool", "5x7x3", "layer=globalmaxpool", { 5, 1, 1 }, 0, 0 },
    { "dropout", "3x4x5", "layer=dropout\np=0.25", { 3, 4, 5 }, 0, 0 },
    { "dropout2d", "3x4x5", "layer=dropout2d\np=0.25", { 3, 4, 5 }, 0, 0 },
    { "droppath", "3x4x5", "layer=droppath\np=0.25", { 3, 4, 5 }, 0, 0 },
    { "add", "3x4x5", "layer=add\ninputs=input, input", { 3, 4, 5 }, 0, 0 },
    { "flatten", "3x4x5", "layer=flatten", { 60, 1, 1 }, 0, 0 },
    { "quantise", "3x4x5", "layer=quantise", { 3, 4, 5 }, 0, 0 },
    { "scale", "3x4x5", "layer=scale\nfactor=-0.125", { 3, 4, 5 }, 0, 0 },
};

static void every_kind(void **state) {
    (void)state;
    int seen[LS_LAYER_COUNT] = { 0 };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char text[512];
        snprintf(text, sizeof text,
            "[network]\ninput=%s\n[x]\n%s\n[f]\nlayer=flatten\n[head]\nlayer=linear\nout_features=2\n", shapes[i].input,
            shapes[i].layer);
        ls_graph *graph = NULL;
        const ls_status status = read_text(text, &graph);
        if (ls_failed(status)) fail_msg("%s: %s", shapes[i].row, status.text);
        const ls_layer *x = &graph->layers[0];
        if (!ls_chw_equal(x->out, shapes[i].out)) {
            fail_msg("%s: output %dx%dx%d, expected %dx%dx%d", shapes[i].row, x->out.c, x->out.h, x->out.w,
                shapes[i].out.c, shapes[i].out.h, shapes[i].out.w);
        }
        const int64_t head = 2 * ls_chw_count(shapes[i].out) + 2,
                      parameters = ls_graph_trained_parameters(graph) - head;
        if (parameters != shapes[i].parameters) {
            fail_msg("%s: %lld parameters, expected %lld", shapes[i].row, (long long)parameters,
                (long long)shapes[i].parameters);
        }
        const ls_cost cost = ls_layer_cost(graph, 0), head_cost = ls_layer_cost(graph, 2);
        if (cost.forward != 2 * shapes[i].multiply_adds || cost.backward_weight != cost.forward ||
            cost.backward_data != 0) {
            fail_msg("%s: cost %g, expected %g, and no data gradient", shapes[i].row, cost.forward,
                2 * shapes[i].multiply_adds);
        }
        const int trained = parameters > 0; // only then the head's gradient is wanted before it
        assert_int_equal(graph->layers[2].needs_input_grad, trained);
        assert_true(head_cost.backward_data == (trained ? head_cost.forward : 0));
        assert_int_equal(graph->classes, 2);
        seen[x->kind] = 1;
        ls_graph_free(graph);
    }
    for (int k = 0; k < LS_LAYER_COUNT; k++) {
        if (!seen[k]) fail_msg("no row for layer kind '%s'", ls_layer_kind_name((ls_layer_kind)k));
    }
}

static void keys_are_kept(void **state) {
    (void)state;
    ls_graph *graph = NULL;
    const ls_status status = read_text(
        "[network]\ninput=4x9x12\n"
        "[c]\nlayer=conv2d\nout_channels=6\nkernel=3x5\nstride=2x1\npadding=1x0\ndilation=2\ngroups=2\nbias=false\n"
        "[n]\nlayer=batchnorm2d\neps=0.25\nmomentum=0.75\n[n2]\nlayer=batchnorm2d\n"
        "[p]\nlayer=maxpool2d\nkernel=2\n[a]\nlayer=avgpool2d\nkernel=2\nstride=1\npadding=1\n"
        "[d]\nlayer=dropout\n[s]\nlayer=scale\nfactor=1e-3\n[f]\nlayer=flatten\n"
        "[l]\nlayer=linear\nout_features=3\n",
        &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    const ls_layer *l = graph->layers;
    assert_memory_equal(&l[0].attr.conv2d, ((int[]){ 6, 3, 5, 2, 1, 1, 0, 2, 2, 0 }), 10 * sizeof(int));
    assert_true(l[0].attr.conv2d.weight_init.kind == LS_INIT_DEFAULT && l[0].attr.conv2d.whiten_samples == 0);
    assert_true(l[1].attr.batchnorm2d.eps == 0.25 && l[1].attr.batchnorm2d.momentum == 0.75);
    assert_true(l[2].attr.batchnorm2d.eps == 1e-5 && l[2].attr.batchnorm2d.momentum == 0.1);
    assert_memory_equal(
        &l[3].attr.maxpool2d, (&(ls_layer_pool){ .kernel = { 2, 2 }, .stride = { 2, 2 } }), sizeof(ls_layer_pool));
    assert_memory_equal(&l[4].attr.avgpool2d,
        (&(ls_layer_pool){ .kernel = { 2, 2 }, .stride = { 1, 1 }, .padding = { 1, 1 } }), sizeof(ls_layer_pool));
    assert_true(l[5].attr.dropout.p == 0.5 && l[6].attr.scale.factor == 1e-3);
    assert_memory_equal(&l[8].attr.linear, ((int[]){ 3, 1 }), 2 * sizeof(int));
    ls_graph_free(graph);
}

// Squeeze-and-excitation: the gate is a vector of a linear layer, in either place; the product is a map again.
static void gates(void **state) {
    (void)state;
    ls_graph *graph = NULL;
    const ls_status status =
        read_text("[network]\ninput=4x6x5\n[squeeze]\nlayer=globalavgpool\n[l]\nlayer=linear\nout_features=4\n"
                  "[gate]\nlayer=sigmoid\n[m]\nlayer=multiply\ninputs=input,gate\n"
                  "[again]\nlayer=multiply\ninputs=squeeze,m\n[both]\nlayer=concat\ninputs=gate,squeeze\n"
                  "[n]\nlayer=batchnorm2d\ninputs=again\n[p]\nlayer=globalmaxpool\n"
                  "[all]\nlayer=concat\ninputs=p,both\n[h]\nlayer=linear\nout_features=2\n",
            &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    for (int i = 3; i < 5; i++) {
        const ls_layer *layer = &graph->layers[i];
        if (!ls_chw_equal(layer->out, graph->input) || !ls_chw_equal(layer->physical, graph->input) || layer->flat)
            fail_msg("layer '%s': out %dx%dx%d", layer->name, layer->out.c, layer->out.h, layer->out.w);
    }
    assert_true(graph->layers[find_layer(graph, "both")].flat);
    assert_true(ls_chw_equal(graph->layers[find_layer(graph, "all")].out, (ls_chw){ 12, 1, 1 }));
    ls_graph_free(graph);
}

// Behind a flatten the map's shape is kept, through relu, dropout, scale and add, up to the linear layer's weight.
static void physical_shapes(void **state) {
    (void)state;
    ls_graph *graph = NULL;
    const ls_status status =
        read_text("[network]\ninput=3x4x5\n[f]\nlayer=flatten\n[r]\nlayer=relu\n[d]\nlayer=dropout\n"
                  "[s]\nlayer=scale\nfactor=2\n[a]\nlayer=add\ninputs=s,r\n[f2]\nlayer=flatten\n"
                  "[l]\nlayer=linear\nout_features=7\n[r2]\nlayer=relu\n[l2]\nlayer=linear\nout_features=2\n",
            &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    for (int i = 0; i < 6; i++) {
        const ls_layer *layer = &graph->layers[i];
        if (!ls_chw_equal(layer->out, (ls_chw){ 60, 1, 1 }) || !ls_chw_equal(layer->physical, (ls_chw){ 3, 4, 5 }) ||
            !layer->flat) {
            fail_msg("layer '%s': out %dx%dx%d, physical %dx%dx%d", layer->name, layer->out.c, layer->out.h,
                layer->out.w, layer->physical.c, layer->physical.h, layer->physical.w);
        }
    }
    const ls_param *weight = find_param(graph, "l.weight"), *second = find_param(graph, "l2.weight");
    assert_memory_equal(weight->shape.dim, ((int[]){ 7, 3, 4, 5 }), sizeof weight->shape.dim);
    assert_int_equal(weight->shape.kind, LS_PARAM_LINEAR);
    assert_int_equal(weight->rank, 2);
    assert_memory_equal(weight->file_dim, ((int[]){ 7, 60 }), 2 * sizeof(int));
    assert_memory_equal(second->shape.dim, ((int[]){ 2, 7, 1, 1 }), sizeof second->shape.dim);
    assert_true(ls_chw_equal(ls_graph_physical(graph, -1), (ls_chw){ 3, 4, 5 }));
    assert_true(ls_chw_equal(ls_graph_physical(graph, 6), (ls_chw){ 7, 1, 1 }));
    ls_graph_free(graph);
}

#define IN "[network]\ninput=3x8x8\n"
#define CONV "layer=conv2d\nout_channels=4\nkernel=3\n"
#define END "[f]\nlayer=flatten\n[head]\nlayer=linear\nout_features=10\n"
static const struct {
    const char *row, *text;
    int line;               // named by the message; 0: none
    const char *message[3]; // all must be in it
} refusals[] = {
    { "empty file", "", 1, { "begins with the section [network]", "found no section" } },
    { "layer first", "[conv1]\n" CONV, 1, { "begins with the section [network]", "found [conv1]" } },
    { "no input", "[network]\n[f]\nlayer=flatten\n", 1, { "[network] lacks 'input'" } },
    { "key of network", "[network]\nimput=1x2x3\n", 2, { "no key 'imput'", "did you mean 'input'?" } },
    { "input, two numbers", "[network]\ninput=8x8\n" END, 2, { "'8x8'", "such as 3x32x32" } },
    { "input, four numbers", "[network]\ninput=1x3x8x8\n" END, 2, { "'1x3x8x8'" } },
    { "input, zero", "[network]\ninput=0x8x8\n" END, 2, { "each from 1 to 65536" } },
    { "input, huge", "[network]\ninput=3x65537x8\n" END, 2, { "each from 1 to 65536" } },
    { "input, too many elements", "[network]\ninput=65536x65536x2\n" END, 2, { "'65536x65536x2'" } },
    { "input, signs", "[network]\ninput=+3x8x-8\n" END, 2, { "'+3x8x-8'" } },
    { "no layers", IN, 0, { "the network has no layers" } },
    { "section twice", IN "[a]\nlayer=relu\n[a]\nlayer=relu\n", 5, { "[a]" } },
    { "layer called input", IN "[input]\nlayer=relu\n" END, 3, { "cannot be called 'input'" } },
    { "a name with a comma", IN "[a,b]\nlayer=relu\n" END, 3, { "'a,b' contains ','" } },
    { "a long name",
        IN "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\nlayer=relu\n" END, 3,
        { "has 81 characters; 1 to 80" } },
    { "no kind", IN "[a]\nkernel=3\n" END, 3, { "layer 'a' lacks the key 'layer'", "conv2d, linear, relu" } },
    { "unknown kind", IN "[a]\nkernel=3\nlayer=cnov2d\n" END, 5,
        { "layer 'a': there is no kind 'cnov2d'", "did you mean 'conv2d'?" } },
    { "unlike any kind", IN "[a]\nlayer=transformer\n" END, 4, { "no kind 'transformer' (kinds: conv2d, linear" } },
    { "unknown key", IN "[a]\n" CONV "paddign=1\n" END, 7,
        { "layer 'a' (conv2d) has no key 'paddign'", "did you mean 'padding'?", "keys: layer, inputs, out_channels" } },
    { "key of another kind", IN "[a]\nlayer=relu\nkernel=3\n" END, 5,
        { "layer 'a' (relu) has no key 'kernel'", "keys: layer, inputs)" } },
    { "missing key", IN "[a]\nlayer=conv2d\nkernel=3\n" END, 3,
        { "layer 'a' (conv2d): it lacks the key 'out_channels', channels of the output (a whole", "from 1 to 65536" } },
    { "missing number", IN "[a]\nlayer=scale\n" END, 3, { "it lacks the key 'factor', the constant (a number" } },
    { "no number", IN "[a]\nlayer=conv2d\nout_channels=four\nkernel=3\n" END, 5,
        { "a.out_channels = four: expected a whole number from 1 to 65536, or classes: the data set's number" } },
    { "classes without data", IN "[f]\nlayer=flatten\n[head]\nlayer=linear\nout_features=classes\n", 7,
        { "head.out_features = classes: there is no data set here that it could follow; write numbers" } },
    { "another number of classes", IN "[a]\nlayer=conv2d\nout_channels=4\nkernel=classes\n" END, 6,
        { "a.kernel", "classes" } },
    { "fraction", IN "[a]\nlayer=maxpool2d\nkernel=2.5\n" END, 5, { "a.kernel", "2.5" } },
    { "out of range", IN "[a]\nlayer=conv2d\nout_channels=4\nkernel=0\n" END, 6, { "a.kernel", "from 1 to 1024" } },
    { "stride zero", IN "[a]\nlayer=maxpool2d\nkernel=2\nstride=0\n" END, 6, { "a.stride", "from 1" } },
    { "probability one", IN "[a]\nlayer=dropout\np=1\n" END, 5, { "a.p" } },
    { "no truth", IN "[a]\n" CONV "bias=maybe\n" END, 7, { "a.bias", "true or false" } },
    { "unknown initialisation", IN "[a]\n" CONV "weight_init=he_normal\n" END, 7,
        { "a.weight_init = he_normal: expected default, he-normal, unit-std, dirac, whiten, or a number from -1000000",
            "did you mean 'he-normal'?" } },
    { "initialisation of another kind", IN "[f]\nlayer=flatten\n[h]\nlayer=linear\nout_features=2\nweight_init=dirac\n",
        8, { "h.weight_init = dirac: expected default, he-normal, unit-std, or a number" } },
    { "initialisation of a bias", IN "[a]\n" CONV "bias_init=dirac\n" END, 7,
        { "a.bias_init = dirac: expected default, or a number" } },
    { "infinite initialisation", IN "[a]\n" CONV "weight_init=inf\n" END, 7, { "a.weight_init = inf: expected" } },
    { "initialisation of no bias", IN "[a]\n" CONV "bias=false\nbias_init=0\n" END, 3,
        { "layer 'a' (conv2d): bias_init has no effect with bias = false" } },
    { "whitening a later layer", IN "[a]\nlayer=relu\n[b]\n" CONV "weight_init=whiten\n" END, 5,
        { "layer 'b' (conv2d): weight_init = whiten is for patches of the network's input, but its input is layer "
          "'a'" } },
    { "whitening in groups", IN "[a]\nlayer=conv2d\nout_channels=3\nkernel=2\ngroups=3\nweight_init=whiten\n" END, 3,
        { "weight_init = whiten needs groups = 1 and dilation = 1" } },
    { "whitening, too many filters", IN "[a]\nlayer=conv2d\nout_channels=25\nkernel=2\nweight_init=whiten\n" END, 3,
        { "makes 24 filters of patches of 12 values", "out_channels = 25 is more" } },
    { "whitening, large patches",
        "[network]\ninput=3x32x32\n[a]\nlayer=conv2d\nout_channels=25\nkernel=14\nweight_init=whiten\n" END, 3,
        { "a patch of the input's 3 channels has 588 values, and at most 512 are possible" } },
    { "whitening's samples without it", IN "[a]\n" CONV "whiten_samples=9\n" END, 3,
        { "whiten_samples has no effect without weight_init = whiten" } },
    { "whitening's eps without it", IN "[a]\n" CONV "whiten_eps=0.01\nweight_init=dirac\n" END, 3,
        { "whiten_eps has no effect without weight_init = whiten" } },
    { "unknown input", IN "[first]\nlayer=relu\n[b]\nlayer=relu\ninputs=frist\n" END, 7,
        { "layer 'b': there is no layer 'frist'", "did you mean 'first'?" } },
    { "later input", IN "[a]\nlayer=relu\ninputs=b\n[b]\nlayer=relu\n" END, 5,
        { "layer 'a': its input 'b' comes later (line 6)" } },
    { "own input", IN "[a]\nlayer=relu\ninputs=a\n" END, 5, { "layer 'a' names itself" } },
    { "empty input", IN "[a]\nlayer=relu\n[s]\nlayer=add\ninputs=a,\n" END, 7, { "there is no layer ''" } },
    { "add without inputs", IN "[a]\nlayer=relu\n[s]\nlayer=add\n" END, 5,
        { "layer 's' (add): it needs the key 'inputs' with 2 names" } },
    { "add of one", IN "[a]\nlayer=relu\n[s]\nlayer=add\ninputs=a\n" END, 7,
        { "inputs = 'a' has 1 name; it takes 2" } },
    { "relu of two", IN "[a]\nlayer=relu\ninputs=input,input\n" END, 5, { "has 2 names; it takes 1" } },
    { "add, shapes", IN "[a]\n" CONV "[s]\nlayer=add\ninputs=a,input\n" END, 7,
        { "layer 's' (add): its inputs must have one shape, but 'a' is 4x6x6 and 'input' is 3x8x8" } },
    { "add, maps behind flatten",
        "[network]\ninput=4x3x2\n[c]\nlayer=conv2d\nout_channels=12\nkernel=2\n[a]\nlayer=flatten\n"
        "[b]\nlayer=flatten\ninputs=input\n[s]\nlayer=add\ninputs=a,b\n[h]\nlayer=linear\nout_features=2\n",
        12, { "'a' from 12x2x1 and 'b' from 4x3x2: add before flattening" } },
    { "add of three", IN "[a]\nlayer=relu\n[s]\nlayer=add\ninputs=a,a,input\n" END, 7, { "has 3 names; it takes 2" } },
    { "concat of one", IN "[a]\nlayer=relu\n[s]\nlayer=concat\ninputs=a\n" END, 7, { "has 1 name; it takes 2 to 16" } },
    { "concat without inputs", IN "[a]\nlayer=concat\n" END, 3, { "it needs the key 'inputs' with 2 to 16 names" } },
    { "concat of too many",
        IN "[s]\nlayer=concat\ninputs=input,input,input,input,input,input,input,input,input,input,input,"
           "input,input,input,input,input,input\n" END,
        5, { "has 17 names; it takes 2 to 16" } },
    { "concat, sizes", IN "[a]\n" CONV "[s]\nlayer=concat\ninputs=input,a\n" END, 7,
        { "layer 's' (concat): its inputs must have maps of one size, but 'input' is 3x8x8 and 'a' is 4x6x6" } },
    { "concat, too many channels", "[network]\ninput=40000x1x1\n[s]\nlayer=concat\ninputs=input,input\n" END, 3,
        { "have 80000 channels together, at most 65536" } },
    { "shuffle of three", IN "[s]\nlayer=concat\ninputs=input,input,input\ninterleave=true\n" END, 3,
        { "interleave = true needs two inputs with as many channels, but it has 3 with 9 together" } },
    { "shuffle, channels",
        IN "[a]\nlayer=concat\ninputs=input,input\n[s]\nlayer=concat\ninputs=input,a\ninterleave=true\n" END, 6,
        { "interleave = true needs two inputs with as many channels, but it has 2 with 9 together" } },
    { "slice beyond the channels", IN "[s]\nlayer=slice\nfrom=2\nchannels=2\n" END, 3,
        { "layer 's' (slice): from = 2 and channels = 2 reach beyond the 3 channels of its input" } },
    { "slice of a vector", IN "[a]\nlayer=flatten\n[s]\nlayer=slice\nchannels=2\n" END, 5, { "layer 's' (slice)" } },
    { "concat behind flatten",
        IN "[a]\nlayer=flatten\n[s]\nlayer=concat\ninputs=a,a\n[h]\nlayer=linear\nout_features=2\n", 5,
        { "its input 'a' is a flattened map of 3x8x8: concat before flattening" } },
    { "multiply, shapes", IN "[a]\n" CONV "[s]\nlayer=multiply\ninputs=a,input\n" END, 7,
        { "layer 's' (multiply): its inputs must have one shape, or one of them a number for each channel",
            "'a' is 4x6x6 and 'input' is 3x8x8" } },
    { "multiply, another number of channels",
        IN "[c]\n" CONV "[g]\nlayer=globalavgpool\n[s]\nlayer=multiply\ninputs=g,input\n" END, 9,
        { "'g' is 4x1x1 and 'input' is 3x8x8" } },
    { "multiply, maps behind flatten",
        "[network]\ninput=4x3x2\n[c]\nlayer=conv2d\nout_channels=12\nkernel=2\n[a]\nlayer=flatten\n"
        "[b]\nlayer=flatten\ninputs=input\n[s]\nlayer=multiply\ninputs=a,b\n[h]\nlayer=linear\nout_features=2\n",
        12, { "'a' from 12x2x1 and 'b' from 4x3x2: multiply before flattening" } },
    { "groups of a group norm", IN "[a]\nlayer=groupnorm\ngroups=2\n" END, 3,
        { "groups = 2 must divide the 3 channels of its input (3x8x8)" } },
    { "group norm of one number", "[network]\ninput=8x1x1\n[a]\nlayer=groupnorm\ngroups=8\n" END, 3,
        { "a group of its input 8x1x1 is one number", "fewer groups" } },
    { "layer norm of one channel", "[network]\ninput=1x4x4\n[a]\nlayer=layernorm\n" END, 3,
        { "a pixel of its input 1x4x4 is one number", "at least two channels" } },
    { "layer norm behind flatten", IN "[flat]\nlayer=flatten\n[a]\nlayer=layernorm\n" END, 5,
        { "its input 'flat' is a vector" } },
    { "padding = same with a stride", IN "[a]\nlayer=conv2d\nout_channels=2\nkernel=3\nstride=1x2\npadding=same\n" END,
        3, { "padding = same needs stride = 1" } },
    { "padding = same of an even kernel", IN "[a]\nlayer=conv2d\nout_channels=2\nkernel=3x4\npadding=same\n" END, 3,
        { "kernel = 3x4 with dilation = 1 would need more zeros on one side", "choose an odd kernel" } },
    { "padding of another word", IN "[a]\nlayer=conv2d\nout_channels=2\nkernel=3\npadding=some\n" END, 7,
        { "expected a whole number from 0 to 1024, or two, such as 3x5, or same" } },
    { "a matrix of a larger kernel", IN "[a]\nlayer=conv2d\nout_channels=2\nkernel=1x3\nmatrix=true\n" END, 3,
        { "matrix = true needs kernel = 1 and groups = 1" } },
    { "group norm without groups", IN "[a]\nlayer=groupnorm\n" END, 3,
        { "it lacks the key 'groups', groups of channels" } },
    { "group norm behind flatten", IN "[flat]\nlayer=flatten\n[a]\nlayer=groupnorm\ngroups=2\n" END, 5,
        { "its input 'flat' is a vector" } },
    { "shortcut to fewer", IN "[a]\nlayer=shortcut\nout_channels=2\n" END, 3,
        { "out_channels = 2 is fewer than the 3 of its input (3x8x8)" } },
    { "shortcut behind flatten", IN "[flat]\nlayer=flatten\n[a]\nlayer=shortcut\nout_channels=200\n" END, 5,
        { "its input 'flat' is a vector" } },
    { "kernel too large", IN "[a]\nlayer=conv2d\nout_channels=4\nkernel=11\npadding=1\n" END, 3,
        { "layer 'a' (conv2d): kernel = 11 with dilation = 1 covers 11x11, more than its input 3x8x8 with padding = 1",
            "(10x10)" } },
    { "kernel too high", IN "[a]\nlayer=conv2d\nout_channels=4\nkernel=9x3\npadding=0x1\n" END, 3,
        { "kernel = 9x3 with dilation = 1 covers 9x3, more than its input 3x8x8 with padding = 0x1", "(8x10)" } },
    { "three numbers", IN "[a]\nlayer=conv2d\nout_channels=4\nkernel=3x3x3\n" END, 6,
        { "a.kernel = 3x3x3: expected a whole number from 1 to 1024, or two, rows x columns, such as 3x5" } },
    { "a pair out of range", IN "[a]\nlayer=conv2d\nout_channels=4\nkernel=0x3\n" END, 6,
        { "a.kernel = 0x3: expected" } },
    { "half a pair", IN "[a]\nlayer=maxpool2d\nkernel=3x\n" END, 5, { "a.kernel = 3x: expected" } },
    { "a pair where one number is", IN "[a]\n" CONV "dilation=1x2\n" END, 7, { "a.dilation", "1x2" } },
    { "pool, padding of a pair", IN "[a]\nlayer=maxpool2d\nkernel=2x5\npadding=2\n" END, 3,
        { "padding = 2 is more than half of kernel = 2x5: at most 1x2 is possible" } },
    { "dilated too far", IN "[a]\n" CONV "dilation=4\n" END, 3, { "kernel = 3 with dilation = 4 covers 9x9" } },
    { "pool too large", "[network]\ninput=3x8x2\n[a]\nlayer=maxpool2d\nkernel=3\n" END, 3,
        { "layer 'a' (maxpool2d)", "input 3x8x2" } },
    { "output and kernel", IN "[a]\nlayer=avgpool2d\nkernel=2\noutput=2\n" END, 3,
        { "layer 'a' (avgpool2d): output = 2 gives the windows, so kernel, stride and padding have no effect" } },
    { "neither output nor kernel", IN "[a]\nlayer=avgpool2d\n" END, 3, { "it lacks the key 'kernel', or 'output'" } },
    { "pool, padding", IN "[a]\nlayer=avgpool2d\nkernel=3\npadding=2\n" END, 3,
        { "padding = 2 is more than half of kernel = 3: at most 1" } },
    { "groups, input", IN "[a]\n" CONV "groups=2\n" END, 3,
        { "groups = 2 must divide both the 3 channels of its input (3x8x8) and out_channels = 4" } },
    { "groups, output", IN "[a]\n" CONV "groups=3\n" END, 3, { "groups = 3 must divide", "out_channels = 4" } },
    { "linear on a map", IN "[a]\nlayer=linear\nout_features=10\n", 3,
        { "layer 'a' (linear): it works on a vector, but its input 'input' is 3x8x8", "flatten (to 192 features)" } },
    { "norm behind flatten", IN "[flat]\nlayer=flatten\n[n]\nlayer=batchnorm2d\n" END, 5,
        { "layer 'n' (batchnorm2d)", "its input 'flat' is a vector of 192 features", "before the flatten" } },
    { "conv behind linear", IN END "[r]\nlayer=relu\n[c]\nlayer=conv2d\nout_channels=2\nkernel=1\n", 10,
        { "'r' is a vector of 10" } },
    { "pool behind flatten", IN "[flat]\nlayer=flatten\n[n]\nlayer=globalavgpool\n" END, 5,
        { "is a vector of 192 features" } },
    { "dead layer", IN "[a]\nlayer=relu\n[b]\nlayer=relu\n[c]\nlayer=relu\ninputs=a\n" END, 5,
        { "layer 'b' (relu): no later layer uses its output 3x8x8", "last layer 'head'" } },
    { "output a map", IN "[a]\n" CONV, 3, { "layer 'a' (conv2d): the last layer's output is 4x6x6", "(classes)x1x1" } },
    { "output of one class", IN "[f]\nlayer=flatten\n[h]\nlayer=linear\nout_features=1\n", 5,
        { "output is 1x1x1", "at least 2 classes" } },
    { "no parameters", "[network]\ninput=3x8x8\n[a]\nlayer=globalavgpool\n", 0,
        { "no layer of the network has parameters", "add a conv2d or linear layer" } },
    { "output flattened", IN "[f]\nlayer=flatten\n", 3, { "a flattened map of 3x8x8" } },
    { "output too large", "[network]\ninput=1x2048x2048\n[a]\nlayer=conv2d\nout_channels=65536\nkernel=1\n" END, 3,
        { "its output 65536x2048x2048 has more than 2147483647 elements" } },
    { "too many parameters",
        "[network]\ninput=65536x1x1\n[a]\nlayer=conv2d\nout_channels=65536\nkernel=17\npadding=8\n" END, 3,
        { "layer 'a' (conv2d): with it the network has more than 1099511627776 parameters" } },
#define FIVE "$n$n$n$n$n"
#define LISTS(outer, inner) \
    "[block " #outer "]\nn=\n[" #outer "/u]\nblock=" #inner "\nrepeat=2\nn=4," FIVE FIVE FIVE FIVE "\n"
#define BLOCK IN "[block b]\nn = 4\n[b/c]\nlayer=conv2d\nout_channels=$n\nkernel=3\n" // lines 3 to 8
    { "a layer of a block", BLOCK "[u]\nblock=b\nrepeat=4\n" END, 5,
        { "layer 'u.3.c' (conv2d): kernel = 3 with dilation = 1 covers 3x3, more than its input 4x2x2",
            " (its block is used at line 9)" } },
    { "a value of a block", BLOCK "[u]\nblock=b\nn=0\n" END, 7,
        { "u.c.out_channels = 0: expected", " (its block is used at line 9)" } },
    { "a key of a block's layer", IN "[block b]\n[b/c]\nlayer=relu\nkernle=3\n[u]\nblock=b\n" END, 6,
        { "layer 'u.c' (relu) has no key 'kernle'", " (its block is used at line 7)" } },
    { "unknown block", BLOCK "[u]\nblock=bb\n" END, 10, { "[u]: no block 'bb' is defined before it" } },
    { "a block without its definition", IN "[u]\nblock=b\n" END, 4, { "[u]: no block 'b' is defined before it" } },
    { "a block of a similar name", IN "[block basic]\n[basic/c]\nlayer=relu\n[u]\nblock=basik\n" END, 7,
        { "no block 'basik' is defined before it; did you mean 'basic'?" } },
    { "a block that uses itself", IN "[block b]\n[b/c]\nblock=b\n[u]\nblock=b\n" END, 5,
        { "[b/c]: no block 'b' is defined before it" } },
    { "a block without sections", IN "[block b]\nn=1\n[u]\nblock=b\n" END, 3,
        { "[block b] has no sections: they follow it, such as [b/conv]" } },
    { "a block that is not used", BLOCK END, 3, { "[block b] is never used" } },
    { "a block's section elsewhere", BLOCK "[u]\nblock=b\n[b/d]\nlayer=relu\n" END, 11, { "'b/d' contains '/'" } },
    { "unknown parameter of a use", BLOCK "[u]\nblock=b\nm=4\n" END, 11,
        { "[u]: block 'b' (line 3) has no parameter 'm'" } },
    { "unknown parameter of a block",
        IN "[block b]\nchannels=4\n[b/c]\nlayer=conv2d\nout_channels=$chanels\n"
           "kernel=$channels\n[u]\nblock=b\n" END,
        7, { "'$chanels': block 'b' has no parameter 'chanels'; did you mean 'channels'?" } },
    { "a parameter outside blocks", BLOCK "[u]\nblock=b\nn=$n\n" END, 11, { "'$n': only blocks have parameters" } },
    { "a parameter that is not given",
        IN "[block b]\nn=\n[b/c]\nlayer=conv2d\nout_channels=$n\nkernel=3\n[u]\nblock=b\n" END, 9,
        { "[u] lacks 'n', a parameter of block 'b' (line 4)" } },
    { "a parameter that is not read", IN "[block b]\nn=3\n[b/c]\nlayer=relu\np=$no\n[u]\nblock=b\n" END, 4,
        { "[block b]: no section of the block reads its parameter, as $n" } },
    { "a parameter called repeat", IN "[block b]\nrepeat=3\n[b/c]\nlayer=relu\n[u]\nblock=b\n" END, 4,
        { "a parameter cannot be called 'repeat'" } },
    { "more values than repetitions", BLOCK "[u]\nblock=b\nrepeat=2\nn=2,3,4\n" END, 12,
        { "'2,3,4' has 3 values for 2 repetitions of block 'b'" } },
    { "two values for one use", BLOCK "[u]\nblock=b\nn=2,3\n" END, 11, { "has 2 values for 1 repetition of" } },
    { "no value", BLOCK "[u]\nblock=b\nn=2,\nrepeat=2\n" END, 11, { "'' is no value of a parameter" } },
    { "a value of other characters", BLOCK "[u]\nblock=b\nn=[4]\n" END, 11, { "'[4]' is no value of a parameter" } },
    { "no repetition", BLOCK "[u]\nblock=b\nrepeat=0\n" END, 11, { "u.repeat = 0", "1 to 4095" } },
    { "repetitions backwards", BLOCK "[u]\nblock=b\nrepeat=3..2\n" END, 11, { "u.repeat = 2", "3 to 4095" } },
    { "a layer and a block", BLOCK "[u]\nblock=b\nlayer=relu\n" END, 11, { "[u] has both 'layer' and 'block'" } },
    { "a block of two inputs", BLOCK "[u]\nblock=b\ninputs=input,input\n" END, 9,
        { "[u]: a block has one input, not 'input, input'" } },
    { "a name twice", BLOCK "[u]\nblock=b\n[u.c]\nlayer=relu\n" END, 11,
        { "there is a second section 'u.c', besides the one at line 5" } },
    { "an unknown input in a block", IN "[block b]\n[b/c]\nlayer=relu\ninputs=d\n[u]\nblock=b\n" END, 6,
        { "layer 'u.c': there is no layer 'u.d' for its input", " (its block is used at line 7)" } },
    { "neither true nor false", IN "[block b]\n[b/c]\nif=maybe\nlayer=relu\n[u]\nblock=b\n" END, 5,
        { "b/c.if = maybe", "true or false" } },
    { "if outside a block", BLOCK "[u]\nblock=b\n[v]\nlayer=relu\nif=true\n" END, 13,
        { "layer 'v' (relu) has no key 'if'" } },
    { "if of a use outside a block", BLOCK "[u]\nblock=b\nif=false\n" END, 11, { "[u] has no key 'if'" } },
    { "too many repetitions of repetitions",
        IN "[block a]\n[a/r]\nlayer=relu\n[block b]\n[b/a]\nblock=a\nrepeat=4000\n[block c]\n[c/b]\nblock=b\n"
           "repeat=4000\n[u]\nblock=c\nrepeat=4000\n" END,
        4, { "with this section, the blocks give more than 4095" } },
    { "too many repetitions of nothing",
        IN "[block a]\n[a/r]\nlayer=relu\nif=false\n[block b]\n[b/a]\nblock=a\nrepeat=4000\n"
           "[u]\nblock=b\nrepeat=4000\n" END,
        4, { "the blocks give more than 4095" } },
    { "too deep",
        IN "[block a]\n[a/r]\nlayer=relu\n[block b]\n[b/a]\nblock=a\n[block c]\n[c/b]\nblock=b\n[block d]\n[d/c]\n"
           "block=c\n[block e]\n[e/d]\nblock=d\n[block f]\n[f/e]\nblock=e\n[block g]\n[g/f]\nblock=f\n[block h]\n"
           "[h/g]\nblock=g\n[block i]\n[i/h]\nblock=h\n[u]\nblock=i\n" END,
        7, { "[b/a]: blocks are more than 8 deep" } },
    { "lists of lists, of which one item is used", // whole lists would be 20 to the power of 7 values
        IN "[block a]\nn=\n[a/c]\nlayer=conv2d\nkernel=1\nout_channels=$n\n" LISTS(b, a) LISTS(c, b) LISTS(d, c)
            LISTS(e, d) LISTS(f, e) LISTS(g, f) LISTS(h, g) "[u]\nblock=h\nn=4\n" END,
        14, { "has more than 1534 characters" } },
    { "a default with a parameter", IN "[block b]\nn=$m\n[b/c]\nlayer=conv2d\nout_channels=$n\n[u]\nblock=b\n" END, 4,
        { "'$m' is no value of a parameter" } },
    { "a long name of a block",
        BLOCK "[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
              "aaaaa]\nblock=b\n" END,
        9, { "has more than 95 characters" } },
    { "window too large", "[network]\ninput=1x400x400\n[a]\nlayer=globalmaxpool\n" END, 3, { "a window of 400x400" } },
};

static void every_refusal(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ls_graph *graph = NULL;
        const ls_status status = read_text(refusals[i].text, &graph);
        if (status.code != LS_USAGE)
            fail_msg("%s: code %d, expected %d", refusals[i].row, (int)status.code, (int)LS_USAGE);
        char where[96];
        snprintf(where, sizeof where, refusals[i].line ? "%s:%d:" : "%s:", path, refusals[i].line);
        if (strncmp(status.text, where, strlen(where)) != 0)
            fail_msg("%s: '%s' does not begin with '%s'", refusals[i].row, status.text, where);
        for (int k = 0; k < 3 && refusals[i].message[k]; k++) {
            if (!strstr(status.text, refusals[i].message[k])) {
                fail_msg("%s: '%s' lacks '%s'", refusals[i].row, status.text, refusals[i].message[k]);
            }
        }
        assert_null(graph);
    }
    ls_graph *graph = NULL;
    const ls_status status = ls_graph_read("/nonexistent/net.ini", &graph);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "/nonexistent/net.ini"));
}

// --- blocks

// A file with blocks and the same network without.
static const struct {
    const char *row, *blocks, *plain;
} expansions[] = {
    { "parameters by repetition, a part that is left out, names of uses",
        IN "[block b]\nchannels =\nstride = 1\nproject = false\n"
           "[b/conv]\nlayer = conv2d\nout_channels = $channels\nkernel = 3\npadding = 1\nstride = $stride\n"
           "[b/short]\nif = $project\nlayer = conv2d\ninputs = input\nout_channels = $channels\nkernel = 1\n"
           "stride = $stride\n"
           "[b/norm]\nif = $project\nlayer = batchnorm2d\n"
           "[b/add]\nlayer = add\ninputs = conv, norm\n"
           "[first]\nlayer = relu\n"
           "[stage]\nblock = b\nrepeat = 3\nchannels = 4, 4\nstride = 2, 1\nproject = true, false\n"
           "[again]\nblock = b\nchannels = 4\ninputs = stage.1\n"
           "[sum]\nlayer = add\ninputs = stage, again\n" END,
        IN "[first]\nlayer = relu\n"
           "[stage.0.conv]\nlayer = conv2d\nout_channels = 4\nkernel = 3\npadding = 1\nstride = 2\n"
           "[stage.0.short]\nlayer = conv2d\ninputs = first\nout_channels = 4\nkernel = 1\nstride = 2\n"
           "[stage.0.norm]\nlayer = batchnorm2d\n"
           "[stage.0.add]\nlayer = add\ninputs = stage.0.conv, stage.0.norm\n"
           "[stage.1.conv]\nlayer = conv2d\nout_channels = 4\nkernel = 3\npadding = 1\nstride = 1\n"
           "[stage.1.add]\nlayer = add\ninputs = stage.1.conv, stage.0.add\n"
           "[stage.2.conv]\nlayer = conv2d\nout_channels = 4\nkernel = 3\npadding = 1\nstride = 1\n"
           "[stage.2.add]\nlayer = add\ninputs = stage.2.conv, stage.1.add\n"
           "[again.conv]\nlayer = conv2d\nout_channels = 4\nkernel = 3\npadding = 1\nstride = 1\n"
           "inputs = stage.1.add\n"
           "[again.add]\nlayer = add\ninputs = again.conv, stage.1.add\n"
           "[sum]\nlayer = add\ninputs = stage.2.add, again.add\n" END },
    { "blocks in blocks, numbers in names",
        IN "[block inner]\nkind = relu\n[inner/$kind]\nlayer = $kind\n"
           "[block outer]\nkinds =\ntwice = 2\n[outer/a]\nblock = inner\nkind = $kinds\nrepeat = $twice\n"
           "[outer/b]\nblock = inner\n[outer/c]\nlayer = add\ninputs = a, input\n"
           "[outer/d]\nlayer = add\ninputs = b.relu, c\n"
           "[f.unit*x]\nblock = outer\nrepeat = 9..10\nkinds = gelu, silu\n" END,
        IN "[f.unit9x.a.0.gelu]\nlayer = gelu\n[f.unit9x.a.1.gelu]\nlayer = gelu\n"
           "[f.unit9x.b.relu]\nlayer = relu\n[f.unit9x.c]\nlayer = add\ninputs = f.unit9x.a.1.gelu, input\n"
           "[f.unit9x.d]\nlayer = add\ninputs = f.unit9x.b.relu, f.unit9x.c\n"
           "[f.unit10x.a.0.silu]\nlayer = silu\n[f.unit10x.a.1.silu]\nlayer = silu\n"
           "[f.unit10x.b.relu]\nlayer = relu\n"
           "[f.unit10x.c]\nlayer = add\ninputs = f.unit10x.a.1.silu, f.unit9x.d\n"
           "[f.unit10x.d]\nlayer = add\ninputs = f.unit10x.b.relu, f.unit10x.c\n" END },
    { "the last section is left out",
        IN "[block b]\nis_last = false\n[b/x]\nlayer = gelu\n[b/y]\nlayer = relu\n"
           "[b/z]\nif = $is_last\nlayer = add\ninputs = x, y\n"
           "[u]\nblock = b\nrepeat = 2\n[v]\nlayer = add\ninputs = u, u.1.y\n[w]\nlayer = add\n"
           "inputs = v, u.0.y\n" END,
        IN "[u.0.x]\nlayer = gelu\n[u.0.y]\nlayer = relu\n"
           "[u.1.x]\nlayer = gelu\ninputs = u.0.x\n[u.1.y]\nlayer = relu\n"
           "[v]\nlayer = add\ninputs = u.1.x, u.1.y\n[w]\nlayer = add\ninputs = v, u.0.y\n" END },
};

static void blocks_expand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof expansions / sizeof expansions[0]; i++) {
        ls_graph *blocks = NULL, *plain = NULL, *again = NULL;
        ls_status status = ls_graph_parse("blocks", expansions[i].blocks, &blocks);
        if (ls_failed(status)) fail_msg("%s: %s", expansions[i].row, status.text);
        status = ls_graph_parse("plain", expansions[i].plain, &plain);
        if (ls_failed(status)) fail_msg("%s: %s", expansions[i].row, status.text);
        if (blocks->hash != plain->hash) fail_msg("%s: expands to\n%s", expansions[i].row, blocks->text);
        status = ls_graph_parse("again", blocks->text, &again);
        if (ls_failed(status)) fail_msg("%s: the expanded text: %s", expansions[i].row, status.text);
        assert_true(again->hash == plain->hash);
        assert_string_equal(again->text, blocks->text);
        ls_graph_free(blocks);
        ls_graph_free(plain);
        ls_graph_free(again);
    }
}

// A network of a text that is no file is the same network.
// At another resolution: the shapes that a file with that input has, and the same parameters; or the layer that forbids it.
static void resized(void **state) {
    (void)state;
    static const char format[] =
        "[network]\ninput = 3x%s\n[c]\nlayer = conv2d\nout_channels = 4\nkernel = 2\n"
        "[p]\nlayer = maxpool2d\nkernel = 3\n[n]\nlayer = batchnorm2d\n[g]\nlayer = globalmaxpool\n"
        "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n";
    char text[512];
    ls_graph *graph, *small, *expected;
    snprintf(text, sizeof text, format, "32x32");
    assert_false(ls_failed(ls_graph_parse("n", text, &graph)));
    snprintf(text, sizeof text, format, "24x19");
    assert_false(ls_failed(ls_graph_parse("n", text, &expected)));
    assert_false(ls_failed(ls_graph_resize(graph, 24, 19, &small)));
    assert_true(ls_chw_equal(small->input, expected->input));
    for (int l = 0; l < graph->layer_count; l++) {
        const ls_layer *got = &small->layers[l], *want = &expected->layers[l];
        assert_true(ls_chw_equal(got->out, want->out) && ls_chw_equal(got->in, want->in));
        assert_true(ls_chw_equal(got->physical, want->physical) && got->needs_input_grad == want->needs_input_grad);
    }
    assert_int_equal(small->param_count, graph->param_count);
    for (int p = 0; p < graph->param_count; p++) assert_string_equal(small->params[p].name, graph->params[p].name);
    ls_graph_free(expected);
    ls_graph_free(small);
    ls_status status = ls_graph_resize(graph, 3, 3, &small);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "n:7: layer 'p' (maxpool2d): kernel = 3"));
    ls_graph_free(graph);

    assert_false(ls_failed(ls_graph_parse("n",
        "[network]\ninput = 1x8x8\n[p]\nlayer = avgpool2d\noutput = 2\n[f]\nlayer = flatten\n[l]\nlayer = linear\n"
        "out_features = 5\n",
        &graph)));
    assert_false(ls_failed(ls_graph_resize(graph, 12, 6, &small)));
    assert_true(ls_chw_equal(small->layers[0].out, (ls_chw){ 1, 2, 2 }));
    assert_int_equal(small->layers[0].attr.avgpool2d.kernel.h, 6);
    assert_int_equal(small->layers[0].attr.avgpool2d.stride.w, 3);
    ls_graph_free(small);
    assert_false(ls_failed(ls_graph_resize(graph, 7, 1, &small))); // adaptive windows
    assert_true(ls_chw_equal(small->layers[0].out, (ls_chw){ 1, 2, 2 }));
    assert_int_equal(small->layers[0].attr.avgpool2d.kernel.h, 4);
    assert_int_equal(small->layers[0].attr.avgpool2d.stride.h, 0);
    ls_graph_free(small);
    ls_graph_free(graph);

    assert_false(ls_failed(ls_graph_parse(
        "n", "[network]\ninput = 1x8x8\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n", &graph)));
    status = ls_graph_resize(graph, 8, 6, &small);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text,
        "n:5: layer 'l' (linear): of pictures of 8x6 its weight is 5x1x8x6, of 8x8 it is 5x1x8x8, but training has one "
        "weight for all resolutions: put a globalavgpool or globalmaxpool before it");
    ls_graph_free(graph);
}

static void from_a_text(void **state) {
    (void)state;
    ls_graph *graph = NULL, *again = NULL;
    ls_status status = read_shipped("configs/models/lenet.ini", &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_non_null(strstr(graph->text, "[conv1]"));
    status = ls_graph_parse("w.safetensors (network)", graph->text, &again);
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_string_equal(again->text, graph->text);
    assert_int_equal(again->layer_count, graph->layer_count);
    assert_int_equal(ls_graph_trained_parameters(again), ls_graph_trained_parameters(graph));
    ls_graph_free(graph);
    ls_graph_free(again);
    status = ls_graph_parse("w.safetensors (network)", "[network]\n\ninput = 3\n", &graph);
    assert_int_equal(status.code, LS_USAGE);
    assert_memory_equal(status.text, "w.safetensors (network):3: network.input = '3'", 46);
}

// --- a network that follows the data

typedef struct {
    ls_chw shape;
    int classes, asked;
    ls_status status;
} fake_data;

static ls_status find_fake(void *context, ls_chw *shape, int *classes) {
    fake_data *data = context;
    data->asked++;
    *shape = data->shape;
    *classes = data->classes;
    return data->status;
}

#define FOLLOWS(input, outputs) \
    "; a comment\n[network]\ninput = " input "  ; of the data\n[c]\nlayer=conv2d\nout_channels = " outputs \
    "\nkernel=1 # no more\n[p]\nlayer=globalavgpool\n[head]\nlayer=linear\nout_features=" outputs "\n"

// Words or numbers, it is the same network, with the same hash: what is written of it has numbers, and comments stay.
static void follows_the_data(void **state) {
    (void)state;
    fake_data data = { { 3, 24, 40 }, 7, 0, LS_SUCCESS };
    const ls_graph_data source = { find_fake, &data };
    ls_graph *words = NULL, *numbers = NULL;
    ls_status status = read_text(FOLLOWS("data", "classes"), &words);
    assert_int_equal(status.code, LS_USAGE); // without data
    assert_non_null(strstr(status.text, ":3: network.input = data: there is no data set here"));
    status = ls_graph_read_for(path, &source, &words);
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_int_equal(data.asked, 1);
    assert_string_equal(words->text, FOLLOWS("3x24x40", "7"));
    assert_true(ls_chw_equal(words->input, data.shape));
    assert_int_equal(words->classes, 7);
    assert_int_equal(words->layers[0].attr.conv2d.out_channels, 7);
    status = read_text(words->text, &numbers);
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_true(words->hash == numbers->hash);
    ls_graph_free(words);
    ls_graph_free(numbers);
    status = ls_graph_read_for(path, &source, &numbers); // which needs no data
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_int_equal(data.asked, 1);
    ls_graph_free(numbers);
}

// The longest numbers that there are, and the data set's own failure.
static void follows_any_data(void **state) {
    (void)state;
    fake_data data = { { 1, 32767, 65536 }, 65536, 0, LS_SUCCESS };
    const ls_graph_data source = { find_fake, &data };
    ls_graph *graph = NULL;
    ls_status status = read_text("[network]\ninput=data\n[p]\nlayer=avgpool2d\nkernel=255\n[g]\nlayer=globalavgpool\n"
                                 "[head]\nlayer=linear\nout_features=classes",
        &graph);
    assert_int_equal(status.code, LS_USAGE);
    status = ls_graph_read_for(path, &source, &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_string_equal(graph->text, "[network]\ninput=1x32767x65536\n[p]\nlayer=avgpool2d\nkernel=255\n[g]\n"
                                     "layer=globalavgpool\n[head]\nlayer=linear\nout_features=65536");
    ls_graph_free(graph);
    data.status = ls_fail(LS_DATA, "no such folder");
    status = ls_graph_read_for(path, &source, &graph);
    assert_int_equal(status.code, LS_DATA);
    assert_string_equal(status.text, "no such folder");
}

// The shipped networks. resnet20 as published, without projections, has 269722 parameters and 81.1 / 242.4 MFLOP:
// the two projections add 2752 and 0.5 / 1.6.
static const struct {
    const char *file;
    ls_chw input;
    int64_t parameters;
    double forward_mflop, training_mflop; // rounded
    int tensors;                          // statistics included
} shipped[] = {
    { "configs/models/lenet.ini", { 1, 28, 28 }, 454922, 22.1, 65.1, 8 },
    { "configs/models/resnet9.ini", { 3, 32, 32 }, 6573120, 758.5, 2272, 8 * 5 + 1 },
    { "configs/models/resnet20.ini", { 3, 32, 32 }, 272474, 81.6, 244.0, 21 * 5 + 2 },
    { "configs/models/resnet20-a.ini", { 3, 32, 32 }, 269722, 81.1, 242.4, 19 * 5 + 2 },
    { "configs/models/mobilenet.ini", { 3, 32, 32 }, 811850, 54.4, 161.4, 17 * 5 + 2 },
    { "configs/models/tiny-resnet8.ini", { 3, 32, 32 }, 77946, 25.0, 74.1, 7 * 5 + 2 * 2 + 2 },
};

static void shipped_networks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        ls_graph *graph = NULL;
        const ls_status status = read_shipped(shipped[i].file, &graph);
        if (ls_failed(status)) fail_msg("%s", status.text);
        assert_true(ls_chw_equal(graph->input, shipped[i].input));
        assert_int_equal(graph->classes, 10);
        assert_int_equal(ls_graph_trained_parameters(graph), shipped[i].parameters);
        assert_int_equal(graph->param_count, shipped[i].tensors);
        double forward = 0, training = 0;
        for (int k = 0; k < graph->layer_count; k++) {
            const ls_cost cost = ls_layer_cost(graph, k);
            forward += cost.forward;
            training += cost.forward + cost.backward_data + cost.backward_weight;
        }
        if (fabs(forward * 1e-6 - shipped[i].forward_mflop) > 0.05 ||
            fabs(training * 1e-6 - shipped[i].training_mflop) > (training > 1e9 ? 0.5 : 0.05)) {
            fail_msg("%s: MFLOP %.3f / %.3f, expected %.1f / %.1f", shipped[i].file, forward * 1e-6, training * 1e-6,
                shipped[i].forward_mflop, shipped[i].training_mflop);
        }
        ls_graph_free(graph);
    }
}

// Known networks have the tensors of another program's module of 10 classes: their number, the number of trained
// parameters, and the sum of the hashes of "NAME 64x3x7x7". tests/real_readers/known_networks.py --record makes the rows
// with torchvision.
static const struct {
    const char *name;
    int tensors;
    int64_t parameters;
    uint64_t hashes;
} known[] = {
#define X(name, tensors, parameters, hashes) { name, tensors, parameters, UINT64_C(hashes) },
#include "model/known_networks.def"
#undef X
};

// FNV-1a
static uint64_t hash_of_text(const char *text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static ls_status find_pictures(void *context, ls_chw *shape, int *classes) {
    (void)context;
    *shape = (ls_chw){ 3, 224, 224 }; // vgg11_bn has the tensors for this size
    *classes = 10;
    return LS_SUCCESS;
}

static void known_networks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char file[96], text[256];
        snprintf(file, sizeof file, "configs/models/%s.ini", known[i].name);
        ls_graph *graph = NULL;
        const ls_status status = ls_graph_read_for(file, &(ls_graph_data){ find_pictures, NULL }, &graph);
        if (ls_failed(status)) fail_msg("%s", status.text);
        uint64_t hashes = 0;
        for (int p = 0; p < graph->param_count; p++) {
            const ls_param *param = &graph->params[p];
            int used = snprintf(text, sizeof text, "%s ", param->name);
            for (int d = 0; d < param->rank; d++)
                used += snprintf(text + used, sizeof text - (size_t)used, "%s%d", d ? "x" : "", param->file_dim[d]);
            hashes += hash_of_text(text);
        }
        const long long parameters = (long long)ls_graph_trained_parameters(graph);
        if (graph->param_count != known[i].tensors || parameters != known[i].parameters || hashes != known[i].hashes)
            fail_msg("%s: %d tensors, %lld parameters, 0x%016llx, expected %d, %lld, 0x%016llx", file,
                graph->param_count, parameters, (unsigned long long)hashes, known[i].tensors,
                (long long)known[i].parameters, (unsigned long long)known[i].hashes);
        ls_graph_free(graph);
    }
}

// Names and shapes as in PyTorch's state_dict; all of them are compared when golden files are made (--reference).
static const struct {
    const char *file, *name;
    ls_param_role role;
    int rank, dim[4];
} names[] = {
    { "lenet", "conv1.weight", LS_ROLE_WEIGHT, 4, { 32, 1, 5, 5 } },
    { "lenet", "conv2.bias", LS_ROLE_BIAS, 1, { 64 } },
    { "lenet", "fc1.weight", LS_ROLE_WEIGHT, 2, { 128, 3136 } },
    { "resnet9", "prep.conv.weight", LS_ROLE_WEIGHT, 4, { 64, 3, 3, 3 } },
    { "resnet9", "prep.bn.running_mean", LS_ROLE_RUNNING_MEAN, 1, { 64 } },
    { "resnet9", "res1.0.conv.weight", LS_ROLE_WEIGHT, 4, { 128, 128, 3, 3 } },
    { "resnet9", "head.weight", LS_ROLE_WEIGHT, 2, { 10, 512 } },
    { "resnet20", "stem.bn.bias", LS_ROLE_NORM_BIAS, 1, { 16 } },
    { "resnet20", "blocks.0.a.conv.weight", LS_ROLE_WEIGHT, 4, { 16, 16, 3, 3 } },
    { "resnet20", "blocks.3.short.conv.weight", LS_ROLE_WEIGHT, 4, { 32, 16, 1, 1 } },
    { "resnet20", "blocks.3.short.bn.weight", LS_ROLE_NORM_WEIGHT, 1, { 32 } },
    { "resnet20", "blocks.8.b.bn.running_var", LS_ROLE_RUNNING_VAR, 1, { 64 } },
    { "resnet20", "head.bias", LS_ROLE_BIAS, 1, { 10 } },
};

static void parameter_names(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char file[64];
        snprintf(file, sizeof file, "configs/models/%s.ini", names[i].file);
        ls_graph *graph = NULL;
        const ls_status status = read_shipped(file, &graph);
        if (ls_failed(status)) fail_msg("%s", status.text);
        const ls_param *param = find_param(graph, names[i].name);
        assert_int_equal(param->role, names[i].role);
        assert_int_equal(param->rank, names[i].rank);
        assert_memory_equal(param->file_dim, names[i].dim, (size_t)param->rank * sizeof(int));
        assert_int_equal(param - graph->params >= graph->layers[param->layer].first_param, 1);
        ls_graph_free(graph);
    }
}

static void residual_branches(void **state) {
    (void)state;
    ls_graph *graph = NULL;
    const ls_status status = read_shipped("configs/models/resnet20.ini", &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    const ls_layer *same = &graph->layers[find_layer(graph, "blocks.1.add")],
                   *projected = &graph->layers[find_layer(graph, "blocks.3.add")];
    assert_int_equal(same->inputs[0], find_layer(graph, "blocks.1.b.bn"));
    assert_int_equal(same->inputs[1], find_layer(graph, "blocks.0.relu"));
    assert_int_equal(projected->inputs[1], find_layer(graph, "blocks.3.short.bn"));
    assert_int_equal(
        graph->layers[find_layer(graph, "blocks.3.short.conv")].inputs[0], find_layer(graph, "blocks.2.relu"));
    ls_graph_free(graph);
}

static void printed_table(void **state) {
    (void)state;
    ls_graph *graph = NULL;
    const ls_status status = read_shipped("configs/models/lenet.ini", &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    ls_graph_print(graph, file);
    fclose(file);
    static const char *const lines[] = {
        "configs/models/lenet.ini: input 1x28x28, 10 classes\n",
        "conv1    conv2d         input       32x28x28          832      1.254      2.509\n",
        "fc1      linear         flatten      128x1x1       401536      0.803      2.408\n",
        "all                                                454922     22.130     65.136\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (!strstr(text, lines[i])) fail_msg("table lacks '%s':\n%s", lines[i], text);
    }
    free(text);
    ls_graph_free(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind),
        cmocka_unit_test(keys_are_kept),
        cmocka_unit_test(gates),
        cmocka_unit_test(physical_shapes),
        cmocka_unit_test(every_refusal),
        cmocka_unit_test(blocks_expand),
        cmocka_unit_test(resized),
        cmocka_unit_test(from_a_text),
        cmocka_unit_test(follows_the_data),
        cmocka_unit_test(follows_any_data),
        cmocka_unit_test(shipped_networks),
        cmocka_unit_test(known_networks),
        cmocka_unit_test(parameter_names),
        cmocka_unit_test(residual_branches),
        cmocka_unit_test(printed_table),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
