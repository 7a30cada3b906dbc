// cost.c - counts the floating-point operations of a layer.
#include "model/layer.h"

ls_cost ls_layer_cost(const ls_graph *graph, int index) {
    const ls_layer *layer = &graph->layers[index];
    const ls_layer_type *type = ls_layer_type_of(layer->kind);
    const double flops = type->multiply_adds ? 2 * type->multiply_adds(layer) : 0;
    return (
        ls_cost){ .forward = flops, .backward_data = layer->needs_input_grad ? flops : 0, .backward_weight = flops };
}

double ls_graph_training_flops(const ls_graph *graph) {
    double flops = 0;
    for (int l = 0; l < graph->layer_count; l++) {
        const ls_cost cost = ls_layer_cost(graph, l);
        flops += cost.forward + cost.backward_data + cost.backward_weight;
    }
    return flops;
}
