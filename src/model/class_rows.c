#include "model/class_rows.h"

#include "base/memory.h"

// How a layer must change if the channels of its output are to be reordered.
typedef enum {
    MIXES,  // the layer cannot reorder its channels
    MAKES,  // only its own parameters are reordered, because it computes each channel from all inputs
    PASSES, // its inputs must be reordered, and its parameters, which have a number for each channel
} passing;

static const passing passings[LS_LAYER_COUNT] = {
    [LS_LAYER_CONV2D] = MAKES,
    [LS_LAYER_LINEAR] = MAKES,
    [LS_LAYER_RELU] = PASSES,
#define ACTIVATION(NAME, name, zero, text) [LS_LAYER_##NAME] = PASSES,
#include "config/activations.def"
    [LS_LAYER_BATCHNORM2D] = PASSES,
    [LS_LAYER_GROUPNORM] = PASSES,
    [LS_LAYER_LAYERNORM] = PASSES,
    [LS_LAYER_LAYERSCALE] = PASSES,
    [LS_LAYER_MAXPOOL2D] = PASSES,
    [LS_LAYER_AVGPOOL2D] = PASSES,
    [LS_LAYER_GLOBALAVGPOOL] = PASSES,
    [LS_LAYER_GLOBALMAXPOOL] = PASSES,
    [LS_LAYER_DROPOUT] = PASSES,
    [LS_LAYER_DROPOUT2D] = PASSES,
    [LS_LAYER_DROPPATH] = PASSES,
    [LS_LAYER_ADD] = PASSES,
    [LS_LAYER_MULTIPLY] = PASSES,
    [LS_LAYER_CONCAT] = MIXES,
    [LS_LAYER_SLICE] = MIXES,
    [LS_LAYER_SHORTCUT] = MIXES,
    [LS_LAYER_FLATTEN] = PASSES,
    [LS_LAYER_SCALE] = PASSES,
    [LS_LAYER_QUANTISE] = PASSES,
};

static passing passing_of(const ls_graph *graph, int layer) {
    if (layer < 0 || ls_graph_out(graph, layer).c != graph->classes) return MIXES; // also after flattening a map
    const ls_layer *l = &graph->layers[layer];
    if (l->kind == LS_LAYER_CONV2D && l->attr.conv2d.groups > 1) return MIXES;
    if (l->kind == LS_LAYER_GROUPNORM && l->attr.groupnorm.groups > 1 && l->attr.groupnorm.groups < l->in.c)
        return MIXES;
    return passings[l->kind];
}

// Sets follows[l] = 1 for each layer l whose channels are the classes, from the last layer backwards. Returns 0 if one
// of these layers cannot reorder its channels, or passes on the network's input.
static int find_layers(const ls_graph *graph, unsigned char *follows) {
    follows[graph->layer_count - 1] = 1;
    for (int l = graph->layer_count - 1; l >= 0; l--) {
        const ls_layer *layer = &graph->layers[l];
        const passing how = follows[l] ? passing_of(graph, l) : MAKES;
        if (how == MIXES) return 0;
        for (int i = 0; how == PASSES && i < layer->input_count; i++) {
            if (layer->inputs[i] < 0) return 0;
            follows[layer->inputs[i]] = 1;
        }
    }
    return 1;
}

// Whether a layer that does not pass the classes on reads the output of a layer whose channels are the classes.
static int are_read_elsewhere(const ls_graph *graph, const unsigned char *follows) {
    for (int l = 0; l < graph->layer_count; l++) {
        const ls_layer *layer = &graph->layers[l];
        const int follow_it = follows[l] && passing_of(graph, l) == PASSES;
        for (int i = 0; i < layer->input_count && !follow_it; i++)
            if (layer->inputs[i] >= 0 && follows[layer->inputs[i]]) return 1;
    }
    return 0;
}

void ls_class_rows_find(const ls_graph *graph, unsigned char *has_rows, int *found) {
    unsigned char *follows = ls_new(graph->layer_count, sizeof *follows, "layers of classes");
    *found = find_layers(graph, follows) && !are_read_elsewhere(graph, follows);
    for (int p = 0; p < graph->param_count; p++)
        has_rows[p] = *found && follows[graph->params[p].layer] && graph->params[p].role < LS_ROLE_GRID_SCALE;
    free(follows);
}
