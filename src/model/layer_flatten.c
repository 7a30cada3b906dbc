// layer_flatten.c - reads a map (C,H,W) as a vector of C*H*W features, in that order. The data does not move, and the
// physical shape stays.
#include "model/layer.h"

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    (void)graph;
    layer->out = (ls_chw){ (int)ls_chw_count(layer->in), 1, 1 }; // fits: ls_graph_infer limits the size of every map
    layer->flat = 1;
    return LS_SUCCESS;
}

const ls_layer_type ls_layer_type_flatten = {
    .name = "flatten",
    .what = "A map read as a vector of C H W features, in that order",
    .shape = "a vector of C H W",
    .input_count = 1,
    .domain = LS_TAKES_ANY,
    .infer = infer,
};
