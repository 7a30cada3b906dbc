// layer_groupnorm.c - normalises each sample on its own, over groups of channels, as torch.nn.GroupNorm.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.groupnorm.field)
static const ls_layer_key keys[] = {
    { "groups", LS_KEY_INT, AT(groups), 1, 0, 1, LS_SIZE_MAX,
        "groups of channels; one group per channel is instance norm" },
    { "eps", LS_KEY_REAL, AT(eps), 0, 1e-5, 1e-12, 1, "added to the variance" },
    { "affine", LS_KEY_BOOL, AT(affine), 0, 1, 0, 1, "a weight and a bias for each channel" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const ls_chw in = layer->in;
    const int groups = layer->attr.groupnorm.groups;
    if (in.c % groups != 0) {
        return ls_layer_fail(graph, layer, "groups = %d must divide the %d channels of its input (%dx%dx%d)", groups,
            in.c, in.c, in.h, in.w);
    }
    if (ls_chw_count(in) / groups < 2) {
        return ls_layer_fail(graph, layer,
            "a group of its input %dx%dx%d is one number, whose variance is undefined: "
            "fewer groups are needed",
            in.c, in.h, in.w);
    }
    return LS_SUCCESS;
}

void ls_group_norm_add_params(ls_graph *graph, int index) {
    const ls_param_shape shape = { LS_PARAM_VECTOR, { graph->layers[index].in.c, 1, 1, 1 }, 1 };
    if (!graph->layers[index].attr.groupnorm.affine) return;
    ls_graph_add_param(
        graph, index, (ls_param_spec){ .name = "weight", .role = LS_ROLE_NORM_WEIGHT, .shape = shape, .value = 1 });
    ls_graph_add_param(
        graph, index, (ls_param_spec){ .name = "bias", .role = LS_ROLE_NORM_BIAS, .shape = shape, .value = 0 });
}

const ls_layer_type ls_layer_type_groupnorm = {
    .name = "groupnorm",
    .what =
        "Normalises each sample over groups of neighbouring channels, as torch.nn.GroupNorm; the same in training and "
        "evaluation",
    .shape = "of the same shape",
    .example = "groups = 4\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = infer,
    .add_params = ls_group_norm_add_params,
};
