// layer_dropout.c - as torch.nn.Dropout: in training, each element becomes 0 with probability p, or is divided by 1 -
// p.
#include "model/layer.h"

static const ls_layer_key keys[] = {
    { "p", LS_KEY_REAL, offsetof(ls_layer, attr.dropout.p), 0, 0.5, 0, 0.999, "share of elements that become 0" },
};

const ls_layer_type ls_layer_type_dropout = {
    .name = "dropout",
    .what = "In training, each element is 0 with probability p, or else divided by 1 - p. In evaluation, nothing "
            "changes. As "
            "torch.nn.Dropout",
    .example = "p = 0.2\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};
