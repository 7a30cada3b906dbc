// shape_infer.c - computes shapes and parameters from the layers' keys and inputs, in one pass in file order.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "model/layer.h"

// The most parameters of a network. One layer has less than 2^53, so their sum cannot overflow before it is found too
// large. The bytes of all parameters fit into 64 bits.
static const int64_t PARAMETERS_MAX = INT64_C(1) << 40;

const char *ls_pair_text(ls_pair pair, char dst[LS_PAIR_BYTES]) {
    snprintf(dst, LS_PAIR_BYTES, pair.h == pair.w ? "%d" : "%dx%d", pair.h, pair.w);
    return dst;
}

ls_status ls_layer_slide(const ls_graph *graph, const ls_layer *layer, ls_sliding_window window, ls_chw *out) {
    const ls_chw in = layer->in;
    const int64_t rows = (int64_t)window.dilation * (window.kernel.h - 1) + 1,
                  columns = (int64_t)window.dilation * (window.kernel.w - 1) + 1;
    const int64_t h = (int64_t)in.h + 2 * window.padding.h, w = (int64_t)in.w + 2 * window.padding.w;
    char kernel[LS_PAIR_BYTES], padding[LS_PAIR_BYTES];
    if (rows > h || columns > w) {
        return ls_layer_fail(graph, layer,
            "kernel = %s with dilation = %d covers %lldx%lld, more than its input %dx%dx%d with padding = %s on each "
            "side "
            "(%lldx%lld): a smaller kernel or more padding is needed",
            ls_pair_text(window.kernel, kernel), window.dilation, (long long)rows, (long long)columns, in.c, in.h, in.w,
            ls_pair_text(window.padding, padding), (long long)h, (long long)w);
    }
    int64_t p = (h - rows) / window.stride.h + 1, q = (w - columns) / window.stride.w + 1;
    if (window.ceil_mode) {
        p += (h - rows) % window.stride.h && p * window.stride.h < in.h + window.padding.h;
        q += (w - columns) % window.stride.w && q * window.stride.w < in.w + window.padding.w;
    }
    if (p > INT_MAX || q > INT_MAX)
        return ls_layer_fail(graph, layer, "its output %lldx%lld is too large", (long long)p, (long long)q);
    *out = (ls_chw){ in.c, (int)p, (int)q };
    return LS_SUCCESS;
}

static ls_status check_domain(const ls_graph *graph, const ls_layer *layer, ls_layer_domain domain) {
    const int first = layer->inputs[0];
    const char *name = ls_graph_name(graph, first);
    const ls_chw in = layer->in;
    if (domain == LS_TAKES_MAP && layer->flat) {
        return ls_layer_fail(graph, layer,
            "it works on channels x height x width, but its input '%s' is a vector of %d features "
            "(behind a flatten or linear layer): put it before the flatten",
            name, in.c);
    }
    if (domain == LS_TAKES_VECTOR && (in.h != 1 || in.w != 1)) {
        return ls_layer_fail(graph, layer,
            "it works on a vector, but its input '%s' is %dx%dx%d: put a layer of kind flatten (to "
            "%lld features) or a global pool (to %d) before it",
            name, in.c, in.h, in.w, (long long)ls_chw_count(in), in.c);
    }
    return LS_SUCCESS;
}

// Sets one layer's shapes, parameters and needs_input_grad. Adds the number of its parameters to *parameters, the sum
// over all earlier layers. Refuses a layer that makes this sum or a sample's output too large.
static ls_status infer_layer(ls_graph *graph, int index, int64_t *parameters) {
    ls_layer *layer = &graph->layers[index];
    const ls_layer_type *type = ls_layer_type_of(layer->kind);
    const int first = layer->inputs[0];
    layer->in = ls_graph_out(graph, first);
    layer->out = layer->in;
    layer->needs_input_grad = 0;
    layer->physical = ls_graph_physical(graph, first);
    layer->flat = ls_graph_is_flat(graph, first);
    for (int i = 0; i < layer->input_count; i++) {
        const ls_layer *from = layer->inputs[i] < 0 ? NULL : &graph->layers[layer->inputs[i]];
        const int trained = from && from->param_count > 0 && from->kind != LS_LAYER_QUANTISE;
        if (trained || (from && from->needs_input_grad)) layer->needs_input_grad = 1;
    }
    LS_TRY(check_domain(graph, layer, type->domain));
    if (type->infer) LS_TRY(type->infer(graph, layer));
    if (ls_chw_count(layer->out) > INT_MAX) { // the number of elements of one sample is an int everywhere
        return ls_layer_fail(graph, layer, "its output %dx%dx%d has more than %d elements", layer->out.c, layer->out.h,
            layer->out.w, INT_MAX);
    }
    layer->first_param = graph->param_count;
    if (type->add_params) type->add_params(graph, index);
    layer->param_count = graph->param_count - layer->first_param;
    for (int i = layer->first_param; i < graph->param_count; i++)
        *parameters += ls_param_count(&graph->params[i].shape);
    if (*parameters > PARAMETERS_MAX)
        return ls_layer_fail(
            graph, layer, "with it the network has more than %lld parameters", (long long)PARAMETERS_MAX);
    return LS_SUCCESS;
}

// Checks that every output except the last is used: an unused branch is a mistake in the file.
static ls_status check_uses(const ls_graph *graph) {
    const ls_layer *last = &graph->layers[graph->layer_count - 1];
    for (int i = 0; i < graph->layer_count - 1; i++) {
        const ls_layer *layer = &graph->layers[i];
        int uses = 0;
        for (int j = i + 1; j < graph->layer_count; j++) {
            for (int k = 0; k < graph->layers[j].input_count; k++) uses += graph->layers[j].inputs[k] == i;
        }
        if (uses == 0) {
            return ls_layer_fail(graph, layer,
                "no later layer uses its output %dx%dx%d, and the network's output is its last layer '%s': name it in "
                "the "
                "'inputs' of a later layer, or remove it",
                layer->out.c, layer->out.h, layer->out.w, last->name);
        }
    }
    return LS_SUCCESS;
}

static ls_status check_output(const ls_graph *graph) {
    const ls_layer *last = &graph->layers[graph->layer_count - 1];
    const ls_chw out = last->out, lies = last->physical;
    if (out.h != 1 || out.w != 1 || out.c < 2) {
        return ls_layer_fail(graph, last,
            "the last layer's output is %dx%dx%d, but must be one number a class, (classes)x1x1 with at least 2 "
            "classes: end "
            "with a global pool or a flatten, and a linear layer",
            out.c, out.h, out.w);
    }
    if (!ls_chw_equal(out, lies)) {
        return ls_layer_fail(graph, last,
            "the last layer's output is a flattened map of %dx%dx%d, not one number a class: end with "
            "a linear layer",
            lies.c, lies.h, lies.w);
    }
    return LS_SUCCESS;
}

ls_status ls_graph_infer(ls_graph *graph) {
    graph->params = ls_new(graph->layer_count * LS_LAYER_PARAMS_MAX, sizeof *graph->params, "%s", graph->path);
    int64_t parameters = 0;
    for (int i = 0; i < graph->layer_count; i++) LS_TRY(infer_layer(graph, i, &parameters));
    LS_TRY(check_uses(graph));
    LS_TRY(check_output(graph));
    if (graph->param_count == 0)
        return ls_fail(LS_USAGE,
            "%s: no layer of the network has parameters, so there is nothing to train: add a conv2d or linear layer",
            graph->path);
    graph->classes = graph->layers[graph->layer_count - 1].out.c;
    return LS_SUCCESS;
}

// --- another resolution --------------------------------------------------------------------------

static ls_status check_same_params(const ls_graph *resized, const ls_graph *graph) {
    for (int p = 0; p < graph->param_count; p++) {
        const ls_param *now = &resized->params[p], *was = &graph->params[p];
        const int *to = now->shape.dim, *from = was->shape.dim;
        if (memcmp(to, from, sizeof was->shape.dim) == 0) continue;
        return ls_layer_fail(resized, &resized->layers[now->layer],
            "of pictures of %dx%d its weight is %dx%dx%dx%d, of %dx%d it is %dx%dx%dx%d, but training has one weight "
            "for "
            "all resolutions: put a globalavgpool or globalmaxpool before it",
            resized->input.h, resized->input.w, to[0], to[1], to[2], to[3], graph->input.h, graph->input.w, from[0],
            from[1], from[2], from[3]);
    }
    return LS_SUCCESS;
}

static ls_status resize(ls_graph *resized, const ls_graph *graph, int h, int w) {
    const size_t layers = (size_t)graph->layer_count;
    *resized = (ls_graph){ .hash = graph->hash, .input = { graph->input.c, h, w }, .layer_count = graph->layer_count };
    memcpy(resized->path, graph->path, sizeof resized->path);
    resized->text = ls_new_text(graph->text);
    resized->layers = ls_new(layers, sizeof *resized->layers, "%s", graph->path);
    memcpy(resized->layers, graph->layers, layers * sizeof *graph->layers);
    LS_TRY(ls_graph_infer(resized));
    return check_same_params(resized, graph);
}

ls_status ls_graph_resize(const ls_graph *graph, int h, int w, ls_graph **out) {
    ls_graph *resized = ls_new(1, sizeof *resized, "%s at %dx%d", graph->path, h, w);
    ls_status status = resize(resized, graph, h, w);
    return LS_GIVE_OR_FREE(status, resized, out, ls_graph_free);
}
