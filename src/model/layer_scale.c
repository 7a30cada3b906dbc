// layer_scale.c - multiplication by a constant.
#include "model/layer.h"

static const ls_layer_key keys[] = {
    { "factor", LS_KEY_REAL, offsetof(ls_layer, attr.scale.factor), 1, 0, -1e6, 1e6, "the constant" },
};

const ls_layer_type ls_layer_type_scale = {
    .name = "scale",
    .what = "Multiplication by a constant",
    .example = "factor = 0.125\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};
