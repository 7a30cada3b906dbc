// layer_shortcut.c - a shortcut without parameters around a residual block that changes the shape (He et al., option
// A): x[:, :, ::stride, ::stride], with channels of zeros, half of them (rounded down) before the input's channels.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.shortcut.field)
static const ls_layer_key keys[] = {
    { "out_channels", LS_KEY_INT, AT(out_channels), 1, 0, 1, LS_SIZE_MAX,
        "channels of the output, the input's or more" },
    { "stride", LS_KEY_INT, AT(stride), 0, 2, 1, 1024, "distance between the rows and columns that are taken" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const ls_layer_shortcut *a = &layer->attr.shortcut;
    const ls_chw in = layer->in;
    if (a->out_channels < in.c) {
        return ls_layer_fail(graph, layer,
            "out_channels = %d is fewer than the %d of its input (%dx%dx%d): a shortcut "
            "drops none",
            a->out_channels, in.c, in.c, in.h, in.w);
    }
    layer->out = (ls_chw){ a->out_channels, (in.h - 1) / a->stride + 1, (in.w - 1) / a->stride + 1 };
    layer->physical = layer->out;
    return LS_SUCCESS;
}

const ls_layer_type ls_layer_type_shortcut = {
    .name = "shortcut",
    .what =
        "The shortcut without parameters (He et al. 2015, option A): every stride-th row and column, with channels of "
        "zeros, half of them (rounded down) before the input's",
    .shape = "(out_channels, H', W'), H' = floor((H - 1) / stride) + 1, and W' alike",
    .example = "out_channels = 32\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = infer,
};
