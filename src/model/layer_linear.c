// layer_linear.c - fully connected layer, as torch.nn.Linear. After a flatten, its weight keeps the shape of the map.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.linear.field)
static const ls_layer_key keys[] = {
    { "out_features", LS_KEY_OUTPUTS, AT(out_features), 1, 0, 1, LS_SIZE_MAX, "length of the output" },
    { "bias", LS_KEY_BOOL, AT(bias), 0, 1, 0, 1, "a number added to each element of the output" },
    { "weight_init", LS_KEY_INITIAL, AT(weight_init), 0, LS_INIT_DEFAULT, LS_INIT_DEFAULT, LS_INIT_UNIT_STD,
        "initial values of the weight" },
    { "bias_init", LS_KEY_INITIAL, AT(bias_init), 0, LS_INIT_DEFAULT, LS_INIT_DEFAULT, LS_INIT_DEFAULT,
        "initial values of the bias" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    LS_TRY(ls_layer_check_bias(graph, layer, layer->attr.linear.bias, layer->attr.linear.bias_init));
    layer->out = (ls_chw){ layer->attr.linear.out_features, 1, 1 };
    layer->physical = layer->out;
    layer->flat = 1;
    return LS_SUCCESS;
}

static void add_params(ls_graph *graph, int index) {
    const ls_layer *layer = &graph->layers[index];
    const int features = layer->attr.linear.out_features;
    const ls_chw map = ls_graph_physical(graph, layer->inputs[0]);
    const double fan_in = (double)ls_chw_count(map);
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "weight",
            .role = LS_ROLE_WEIGHT,
            .shape = { LS_PARAM_LINEAR, { features, map.c, map.h, map.w }, 1 },
            .fan_in = fan_in,
            .init = layer->attr.linear.weight_init });
    if (!layer->attr.linear.bias) return;
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "bias",
            .role = LS_ROLE_BIAS,
            .shape = { LS_PARAM_VECTOR, { features, 1, 1, 1 }, 1 },
            .fan_in = fan_in,
            .init = layer->attr.linear.bias_init });
}

static double multiply_adds(const ls_layer *layer) {
    return (double)ls_chw_count(layer->in) * layer->attr.linear.out_features;
}

const ls_layer_type ls_layer_type_linear = {
    .name = "linear",
    .what = "Fully connected layer as torch.nn.Linear",
    .shape = "a vector of out_features",
    .example = "out_features = 10\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_VECTOR,
    .infer = infer,
    .add_params = add_params,
    .multiply_adds = multiply_adds,
};
