// layer_multiply.c - the product of two tensors of the same shape, or of a map and one number per channel, in either
// order (the gate of squeeze-and-excitation).
#include "model/layer.h"

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const int one = layer->inputs[0], other = layer->inputs[1];
    const ls_chw a = ls_graph_out(graph, one), b = ls_graph_out(graph, other);
    const ls_chw p = ls_graph_physical(graph, one), q = ls_graph_physical(graph, other);
    const int same = ls_chw_equal(a, b), gates = a.c == b.c && (a.h * a.w == 1 || b.h * b.w == 1);
    if (!same && !gates) {
        return ls_layer_fail(graph, layer,
            "its inputs must have one shape, or one of them a number for each channel of the "
            "other, but '%s' is %dx%dx%d and '%s' is %dx%dx%d",
            ls_graph_name(graph, one), a.c, a.h, a.w, ls_graph_name(graph, other), b.c, b.h, b.w);
    }
    if (same ? !ls_chw_equal(p, q) : !ls_chw_equal(a, p) || !ls_chw_equal(b, q)) {
        return ls_layer_fail(graph, layer,
            "its inputs are flattened from different maps, '%s' from %dx%dx%d and '%s' from "
            "%dx%dx%d: multiply before flattening",
            ls_graph_name(graph, one), p.c, p.h, p.w, ls_graph_name(graph, other), q.c, q.h, q.w);
    }
    if (same) {
        layer->flat = ls_graph_is_flat(graph, one) || ls_graph_is_flat(graph, other);
        return LS_SUCCESS;
    }
    layer->out = a.h * a.w == 1 ? b : a;
    layer->physical = layer->out;
    layer->flat = 0;
    return LS_SUCCESS;
}

const ls_layer_type ls_layer_type_multiply = {
    .name = "multiply",
    .what = "Product of two tensors of one shape, or of a map (C, H, W) and a number per channel (C, 1, 1), in either "
            "order",
    .shape = "the map's, of the same shape",
    .example = "inputs = conv2, relu1\n",
    .input_count = 2,
    .domain = LS_TAKES_ANY,
    .infer = infer,
};
