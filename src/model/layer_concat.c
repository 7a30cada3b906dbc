// layer_concat.c - joins the channels of several maps of the same size, as torch.cat(..., dim=1).
#include "model/layer.h"

static const ls_layer_key keys[] = {
    { "interleave", LS_KEY_BOOL, offsetof(ls_layer, attr.concat.interleave), 0, 0, 0, 1,
        "two inputs take turns: a channel shuffle" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const ls_chw first = layer->in;
    int64_t channels = 0;
    for (int i = 0; i < layer->input_count; i++) {
        const ls_chw in = ls_graph_out(graph, layer->inputs[i]), lies = ls_graph_physical(graph, layer->inputs[i]);
        const char *name = ls_graph_name(graph, layer->inputs[i]);
        if (in.h != first.h || in.w != first.w) {
            return ls_layer_fail(graph, layer,
                "its inputs must have maps of one size, but '%s' is %dx%dx%d and '%s' is "
                "%dx%dx%d",
                ls_graph_name(graph, layer->inputs[0]), first.c, first.h, first.w, name, in.c, in.h, in.w);
        }
        if (!ls_chw_equal(in, lies)) {
            return ls_layer_fail(graph, layer,
                "its input '%s' is a flattened map of %dx%dx%d: concat before flattening", name, lies.c, lies.h,
                lies.w);
        }
        channels += in.c;
        layer->flat = layer->flat || ls_graph_is_flat(graph, layer->inputs[i]);
    }
    if (layer->attr.concat.interleave && (layer->input_count != 2 || channels != 2 * (int64_t)first.c)) {
        return ls_layer_fail(graph, layer,
            "interleave = true needs two inputs with as many channels, but it has %d with %lld together",
            layer->input_count, (long long)channels);
    }
    if (channels > LS_SIZE_MAX) {
        return ls_layer_fail(
            graph, layer, "its inputs have %lld channels together, at most %d", (long long)channels, LS_SIZE_MAX);
    }
    layer->out.c = (int)channels;
    layer->physical = layer->out;
    return LS_SUCCESS;
}

const ls_layer_type ls_layer_type_concat = {
    .name = "concat",
    .what = "Joins the channels of its inputs, as torch.cat(..., dim=1)",
    .shape = "the sum of their channels, H, W",
    .example = "inputs = relu1, conv2\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 2,
    .inputs_max = LS_INPUTS_MAX,
    .domain = LS_TAKES_ANY,
    .infer = infer,
};
