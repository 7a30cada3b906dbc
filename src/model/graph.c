// graph.c - the table of layer kinds, the parameters, and the network as a table for people.
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "model/layer.h"

const ls_layer_type *ls_layer_type_of(ls_layer_kind kind) {
    static const ls_layer_type *const types[LS_LAYER_COUNT] = {
#define X(NAME, name, type, field) [LS_LAYER_##NAME] = &ls_layer_type_##name,
#include "model/layers.def"
#undef X
    };
    return types[kind];
}

const char *ls_layer_kind_name(ls_layer_kind kind) {
    return ls_layer_type_of(kind)->name;
}

ls_status ls_layer_fail(const ls_graph *graph, const ls_layer *layer, const char *format, ...) {
    char text[LS_STATUS_TEXT_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return ls_layer_note_use(layer, ls_fail(LS_USAGE, "%s:%d: layer '%s' (%s): %s", graph->path, layer->line,
                                        layer->name, ls_layer_kind_name(layer->kind), text));
}

ls_status ls_layer_note_use(const ls_layer *layer, ls_status status) {
    char note[64];
    snprintf(note, sizeof note, " (its block is used at line %d)", layer->use_line);
    if (!ls_failed(status) || !layer->use_line || strstr(status.text, note)) return status;
    return ls_fail(status.code, "%s%s", status.text, note);
}

ls_status ls_layer_check_bias(const ls_graph *graph, const ls_layer *layer, int bias, ls_init bias_init) {
    if (bias || bias_init.kind == LS_INIT_DEFAULT) return LS_SUCCESS;
    return ls_layer_fail(graph, layer, "bias_init has no effect with bias = false");
}

void ls_graph_free(ls_graph *graph) {
    if (!graph) return;
    free(graph->text);
    free(graph->layers);
    free(graph->params);
    free(graph);
}

void ls_graph_add_param(ls_graph *graph, int layer, ls_param_spec spec) {
    assert(graph->param_count < graph->layer_count * LS_LAYER_PARAMS_MAX);
    ls_param *param = &graph->params[graph->param_count++];
    *param = (ls_param){
        .layer = layer, .role = spec.role, .shape = spec.shape, .rank = 1, .file_dim = { spec.shape.dim[0], 1, 1, 1 }
    };
    const int length = snprintf(param->name, sizeof param->name, "%.*s%s%s", LS_NAME_BYTES - 16,
        graph->layers[layer].name, *spec.name ? "." : "", spec.name);
    assert(length < (int)sizeof param->name); // fits: network_file.c limits the names of layers
    (void)length;
    if (spec.shape.kind == LS_PARAM_LINEAR) {
        param->rank = 2;
        param->file_dim[1] = spec.shape.dim[1] * spec.shape.dim[2] * spec.shape.dim[3];
    } else if (spec.shape.kind == LS_PARAM_CONV) {
        param->rank = 4;
        memcpy(param->file_dim, spec.shape.dim, sizeof param->file_dim);
    }
    if (spec.rank) param->rank = spec.rank;
    const ls_init init = spec.fan_in > 0 ? spec.init : (ls_init){ LS_INIT_CONSTANT, spec.value };
    param->init = init.kind;
    param->init_value = init.kind == LS_INIT_CONSTANT    ? init.value
                        : init.kind == LS_INIT_HE_NORMAL ? sqrt(2.0 / spec.fan_in)
                                                         : 1.0 / sqrt(spec.fan_in);
}

static int64_t trained_parameters_of(const ls_graph *graph, const ls_layer *layer) {
    int64_t sum = 0;
    for (int i = layer->first_param; i < layer->first_param + layer->param_count; i++) {
        const ls_param *param = &graph->params[i];
        if (!ls_role_is_statistic(param->role)) sum += ls_param_count(&param->shape);
    }
    return sum;
}

int64_t ls_graph_trained_parameters(const ls_graph *graph) {
    int64_t sum = 0;
    for (int i = 0; i < graph->layer_count; i++) sum += trained_parameters_of(graph, &graph->layers[i]);
    return sum;
}

// Writes the names of the inputs, "a, b", into dst.
static void write_inputs(char *dst, size_t bytes, const ls_graph *graph, const ls_layer *layer) {
    size_t used = 0;
    dst[0] = 0;
    for (int i = 0; i < layer->input_count && used < bytes; i++) {
        const char *name = ls_graph_name(graph, layer->inputs[i]);
        used += (size_t)snprintf(dst + used, bytes - used, "%s%s", i ? ", " : "", name);
    }
}

void ls_graph_print(const ls_graph *graph, FILE *file) {
    enum { INPUTS_BYTES = LS_INPUTS_MAX * (LS_NAME_BYTES + 2) };
    char inputs[INPUTS_BYTES], shape[48];
    int name_width = 5, inputs_width = 6; // columns are as wide as their longest text
    for (int i = 0; i < graph->layer_count; i++) {
        write_inputs(inputs, sizeof inputs, graph, &graph->layers[i]);
        const int name_bytes = (int)strlen(graph->layers[i].name), inputs_bytes = (int)strlen(inputs);
        if (name_bytes > name_width) name_width = name_bytes;
        if (inputs_bytes > inputs_width) inputs_width = inputs_bytes;
    }
    fprintf(file, "%s: input %dx%dx%d, %d classes\n", graph->path, graph->input.c, graph->input.h, graph->input.w,
        graph->classes);
    fprintf(file, "%-*s  %-13s  %-*s  %11s  %11s  %9s  %9s\n", name_width, "layer", "kind", inputs_width, "inputs",
        "output", "parameters", "forward", "training");
    double forward = 0, training = 0;
    for (int i = 0; i < graph->layer_count; i++) {
        const ls_layer *layer = &graph->layers[i];
        const ls_cost cost = ls_layer_cost(graph, i);
        const double all = cost.forward + cost.backward_data + cost.backward_weight;
        write_inputs(inputs, sizeof inputs, graph, layer);
        snprintf(shape, sizeof shape, "%dx%dx%d", layer->out.c, layer->out.h, layer->out.w);
        fprintf(file, "%-*s  %-13s  %-*s  %11s  %11lld  %9.3f  %9.3f\n", name_width, layer->name,
            ls_layer_kind_name(layer->kind), inputs_width, inputs, shape,
            (long long)trained_parameters_of(graph, layer), cost.forward * 1e-6, all * 1e-6);
        forward += cost.forward;
        training += all;
    }
    fprintf(file, "%-*s  %-13s  %-*s  %11s  %11lld  %9.3f  %9.3f\n", name_width, "all", "", inputs_width, "", "",
        (long long)ls_graph_trained_parameters(graph), forward * 1e-6, training * 1e-6);
    fprintf(file, "forward, training: MFLOP a sample, 2 for a multiply-add of a convolution or linear layer\n");
}
