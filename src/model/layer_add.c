// layer_add.c - the sum of two tensors of the same shape, as at the end of a residual branch.
#include "model/layer.h"

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const int other = layer->inputs[1];
    const ls_chw a = layer->in, b = ls_graph_out(graph, other);
    const char *a_name = ls_graph_name(graph, layer->inputs[0]), *b_name = ls_graph_name(graph, other);
    if (!ls_chw_equal(a, b)) {
        return ls_layer_fail(graph, layer, "its inputs must have one shape, but '%s' is %dx%dx%d and '%s' is %dx%dx%d",
            a_name, a.c, a.h, a.w, b_name, b.c, b.h, b.w);
    }
    const ls_chw p = ls_graph_physical(graph, layer->inputs[0]), q = ls_graph_physical(graph, other);
    if (!ls_chw_equal(p, q)) {
        return ls_layer_fail(graph, layer,
            "its inputs are flattened from different maps, '%s' from %dx%dx%d and '%s' from %dx%dx%d: add before "
            "flattening",
            a_name, p.c, p.h, p.w, b_name, q.c, q.h, q.w);
    }
    layer->flat = layer->flat || ls_graph_is_flat(graph, other);
    return LS_SUCCESS;
}

const ls_layer_type ls_layer_type_add = {
    .name = "add",
    .what = "Sum of two tensors of one shape: the end of a residual branch",
    .shape = "of their shape",
    .example = "inputs = conv2, relu1\n",
    .input_count = 2,
    .domain = LS_TAKES_ANY,
    .infer = infer,
};
