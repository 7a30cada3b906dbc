// layer_slice.c - some neighbouring channels of a map, as x[:, from:from + channels] in PyTorch.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.slice.field)
static const ls_layer_key keys[] = {
    { "from", LS_KEY_INT, AT(from), 0, 0, 0, LS_SIZE_MAX - 1, "the first" },
    { "channels", LS_KEY_INT, AT(channels), 1, 0, 1, LS_SIZE_MAX, "how many" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const ls_layer_slice *a = &layer->attr.slice;
    if (a->from > layer->in.c - a->channels) {
        return ls_layer_fail(graph, layer, "from = %d and channels = %d reach beyond the %d channels of its input",
            a->from, a->channels, layer->in.c);
    }
    layer->out.c = a->channels;
    layer->physical = layer->out;
    return LS_SUCCESS;
}

const ls_layer_type ls_layer_type_slice = {
    .name = "slice",
    .what = "Neighbouring channels, as x[:, from:from + channels] in PyTorch",
    .shape = "(channels, H, W)",
    .example = "from = 8\nchannels = 8\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = infer,
};
