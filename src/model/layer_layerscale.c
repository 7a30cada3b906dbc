// layer_layerscale.c - multiplies each channel by a trained factor, as the layer scale of torchvision's ConvNeXt.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.layerscale.field)
static const ls_layer_key keys[] = {
    { "value", LS_KEY_REAL, AT(value), 0, 1e-6, -1000, 1000, "initial value of the factors" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    (void)graph;
    layer->attr.layerscale.groups = layer->attr.layerscale.affine = 1;
    return LS_SUCCESS;
}

static void add_params(ls_graph *graph, int index) {
    const ls_layer *layer = &graph->layers[index];
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "",
            .role = LS_ROLE_NORM_WEIGHT,
            .shape = { LS_PARAM_VECTOR, { layer->in.c, 1, 1, 1 }, 1 },
            .rank = 3,
            .value = layer->attr.layerscale.value });
}

const ls_layer_type ls_layer_type_layerscale = {
    .name = "layerscale",
    .what = "Multiplies each channel by a trained factor, as torchvision's ConvNeXt; weight files have it under the "
            "layer's name",
    .shape = "of the same shape",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = infer,
    .add_params = add_params,
};
