// layer_batchnorm2d.c - batch normalisation over N, H and W, as torch.nn.BatchNorm2d with affine parameters and running
// estimates.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.batchnorm2d.field)
static const ls_layer_key keys[] = {
    { "eps", LS_KEY_REAL, AT(eps), 0, 1e-5, 1e-12, 1, "added to the variance" },
    { "momentum", LS_KEY_REAL, AT(momentum), 0, 0.1, 0, 1, "share of a new value in the running estimates" },
};

static void add_params(ls_graph *graph, int index) {
    const ls_param_shape shape = { LS_PARAM_VECTOR, { graph->layers[index].in.c, 1, 1, 1 }, 1 };
    ls_graph_add_param(
        graph, index, (ls_param_spec){ .name = "weight", .role = LS_ROLE_NORM_WEIGHT, .shape = shape, .value = 1 });
    ls_graph_add_param(
        graph, index, (ls_param_spec){ .name = "bias", .role = LS_ROLE_NORM_BIAS, .shape = shape, .value = 0 });
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "running_mean", .role = LS_ROLE_RUNNING_MEAN, .shape = shape, .value = 0 });
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "running_var", .role = LS_ROLE_RUNNING_VAR, .shape = shape, .value = 1 });
}

const ls_layer_type ls_layer_type_batchnorm2d = {
    .name = "batchnorm2d",
    .what = "Batch normalisation of each channel over samples, rows and columns as torch.nn.BatchNorm2d",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .add_params = add_params,
};
