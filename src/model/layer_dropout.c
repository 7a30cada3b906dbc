// layer_dropout.c - dropout of elements, of channels and of samples, as torch.nn.Dropout, torch.nn.Dropout2d and
// torchvision's StochasticDepth: in training, each becomes 0 with probability p, or is divided by 1 - p.
#include "model/layer.h"

#define P(words) \
    { \
        { "p", LS_KEY_REAL, offsetof(ls_layer, attr.dropout.p), 0, 0.5, 0, 0.999, words } \
    }
static const ls_layer_key of_elements[] = P("share of elements that become 0");
static const ls_layer_key of_channels[] = P("share of channels that become 0");
static const ls_layer_key of_samples[] = P("share of samples that become 0");

const ls_layer_type ls_layer_type_dropout = {
    .name = "dropout",
    .what = "In training, each element is 0 with probability p, or else divided by 1 - p. In evaluation, nothing "
            "changes. As torch.nn.Dropout",
    .example = "p = 0.2\n",
    .keys = of_elements,
    .key_count = 1,
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};

const ls_layer_type ls_layer_type_dropout2d = {
    .name = "dropout2d",
    .what = "As dropout, but a channel of a sample is 0 as a whole, as torch.nn.Dropout2d",
    .example = "p = 0.2\n",
    .keys = of_channels,
    .key_count = 1,
    .input_count = 1,
    .domain = LS_TAKES_MAP,
};

const ls_layer_type ls_layer_type_droppath = {
    .name = "droppath",
    .what = "As dropout, but a sample is 0 as a whole: torchvision's StochasticDepth with mode row",
    .example = "p = 0.2\n",
    .keys = of_samples,
    .key_count = 1,
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};
