// layer_quantise.c - rounds to the grid of 8-bit integers of the network that will be exported (device/op_quantise.h).
#include "model/layer.h"

static void add_params(ls_graph *graph, int index) {
    const ls_param_shape one = { LS_PARAM_VECTOR, { 1, 1, 1, 1 }, 1 };
    ls_graph_add_param(
        graph, index, (ls_param_spec){ .name = "scale", .role = LS_ROLE_GRID_SCALE, .shape = one, .value = 1 });
    ls_graph_add_param(
        graph, index, (ls_param_spec){ .name = "zero_point", .role = LS_ROLE_GRID_ZERO, .shape = one, .value = 0 });
}

const ls_layer_type ls_layer_type_quantise = {
    .name = "quantise",
    .what = "Rounds to the grid of an 8-bit integer, `scale * (q - zero_point)`. The network then rounds the weights "
            "of all convolutions and linear layers, too. `train.quantise` inserts these layers",
    .input_count = 1,
    .domain = LS_TAKES_ANY,
    .add_params = add_params,
};

int ls_graph_is_quantised(const ls_graph *graph) {
    for (int l = 0; l < graph->layer_count; l++)
        if (graph->layers[l].kind == LS_LAYER_QUANTISE) return 1;
    return 0;
}
