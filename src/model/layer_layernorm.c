// layer_layernorm.c - normalises the channels of each pixel, as torchvision's LayerNorm2d.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.layernorm.field)
static const ls_layer_key keys[] = {
    { "eps", LS_KEY_REAL, AT(eps), 0, 1e-6, 1e-12, 1, "added to the variance" },
    { "affine", LS_KEY_BOOL, AT(affine), 0, 1, 0, 1, "a weight and a bias for each channel" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    layer->attr.layernorm.groups = 1;
    if (layer->in.c >= 2) return LS_SUCCESS;
    return ls_layer_fail(graph, layer,
        "a pixel of its input %dx%dx%d is one number, whose variance is undefined: at least two channels are needed",
        layer->in.c, layer->in.h, layer->in.w);
}

const ls_layer_type ls_layer_type_layernorm = {
    .name = "layernorm",
    .what = "Normalises the channels of each pixel, as torchvision's LayerNorm2d in ConvNeXt",
    .shape = "of the same shape",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = infer,
    .add_params = ls_group_norm_add_params,
};
