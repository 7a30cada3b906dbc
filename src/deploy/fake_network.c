#include "deploy/fake_network.h"

#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "config/ini.h"

enum { NAME_BYTES = LS_NAME_BYTES + 16, LIST_BYTES = LS_INPUTS_MAX * NAME_BYTES, SECTION_BYTES = 2 * LIST_BYTES };

typedef struct {
    const ls_graph *graph;
    const ls_network *network;
    const ls_ini *ini;        // of the graph's text
    char (*name)[NAME_BYTES]; // by value of the network: the layer that has it
    ls_text_room room;
} writer;

// Whether the step becomes layers: it has an output (LOGITS has not). A concat's first step stands for all its steps.
static int stands_alone(const ls_network *n, int step) {
    return n->steps[step].output >= 0 && (step == 0 || n->steps[step - 1].output != n->steps[step].output);
}

// Whether a quantise layer follows. After max pooling and shortcuts it does not: their values have their input's grid.
static int has_grid(const ls_step *s) {
    return s->kind != LS_STEP_MAX_POOL && s->kind != LS_STEP_SHORTCUT;
}

static int has_weights(const ls_step *s) {
    return s->kind == LS_STEP_CONV || s->kind == LS_STEP_DEPTHWISE;
}

// --- the text of the network -----------------------------------------------------------------------

static int is_dropped(const char *key, int weighted) {
    static const char *const keys[] = { "inputs", "bias", "bias_init", "weight_init", "whiten_samples", "whiten_eps" };
    const int count = weighted ? (int)(sizeof keys / sizeof *keys) : 1;
    for (int i = 0; i < count; i++)
        if (strcmp(key, keys[i]) == 0) return 1;
    return 0;
}

// Writes the keys of a section, except its inputs; without initial values and bias if `weighted`.
static void put_keys(writer *w, const char *section, int weighted) {
    for (int s = 0; s < w->ini->section_count; s++) {
        const ls_ini_section *from = &w->ini->sections[s];
        if (strcmp(from->name, section) != 0) continue;
        for (int e = from->first_entry; e < from->first_entry + from->entry_count; e++)
            if (!is_dropped(w->ini->entries[e].key, weighted))
                ls_text_put(&w->room, "%s = %s\n", w->ini->entries[e].key, w->ini->entries[e].value);
    }
}

static void put_section(writer *w, const char *name, const char *inputs) {
    ls_text_put(&w->room, "\n[%s]\ninputs = %s\n", name, inputs);
}

// Writes the names of the values that a step reads. A concat has several steps.
static void list_inputs(const writer *w, int index, char list[LIST_BYTES]) {
    const ls_network *n = w->network;
    ls_text_room room = { list, LIST_BYTES };
    for (int i = index; i < n->step_count && n->steps[i].output == n->steps[index].output; i++)
        for (int k = 0; k < n->steps[i].input_count; k++)
            ls_text_put(&room, "%s%s", i > index || k ? ", " : "", w->name[n->steps[i].inputs[k]]);
}

// A convolution or linear layer, or a batch norm or layer scale that no convolution takes in.
static void put_weighted(writer *w, const ls_step *s, const ls_layer *layer, char inputs[LIST_BYTES]) {
    if (layer->kind == LS_LAYER_LINEAR && s->floats.w.in_h * s->floats.w.in_w > 1) {
        char flat[NAME_BYTES];
        ls_text_cut(flat, sizeof flat, "%s.flat", layer->name);
        put_section(w, flat, inputs);
        ls_text_put(&w->room, "layer = flatten\n");
        ls_text_cut(inputs, LIST_BYTES, "%s", flat);
    }
    put_section(w, layer->name, inputs);
    if (layer->kind == LS_LAYER_LINEAR || layer->kind == LS_LAYER_CONV2D)
        put_keys(w, layer->name, 1);
    else
        ls_text_put(&w->room, "layer = conv2d\nkernel = 1\nout_channels = %d\ngroups = %d\n", layer->in.c, layer->in.c);
    ls_text_put(&w->room, "bias = true\n");
}

static void put_step(writer *w, int index) {
    const ls_step *s = &w->network->steps[index];
    char inputs[LIST_BYTES] = "input", *name = w->name[s->output];
    double parameter;
    ls_text_cut(name, NAME_BYTES, "input");
    if (s->first >= 0) { // else the step normalises the pixels
        const ls_layer *first = &w->graph->layers[s->first], *last = &w->graph->layers[s->last];
        list_inputs(w, index, inputs);
        if (has_weights(s)) {
            put_weighted(w, s, first, inputs);
        } else {
            put_section(w, first->name, inputs);
            put_keys(w, first->name, 0);
        }
        ls_text_cut(name, NAME_BYTES, "%s", first->name);
        if (last != first && ls_layer_applies(last, &parameter) != LS_ACTIVATION_NONE) {
            put_section(w, last->name, first->name);
            put_keys(w, last->name, 0);
            ls_text_cut(name, NAME_BYTES, "%s", last->name);
        }
    }
    if (!has_grid(s)) return;
    ls_text_cut(inputs, sizeof inputs, "%s", name);
    ls_text_cut(name, NAME_BYTES, "%s.int8", inputs);
    put_section(w, name, inputs);
    ls_text_put(&w->room, "layer = quantise\n");
}

static ls_status write(writer *w, ls_graph **out) {
    const size_t bytes = 2 * strlen(w->graph->text) + (size_t)w->network->step_count * SECTION_BYTES;
    char *text = ls_new(bytes, 1, "%s", w->graph->path);
    w->name = ls_new(w->network->value_count, sizeof *w->name, "%s", w->graph->path);
    w->room = (ls_text_room){ text, bytes };
    ls_text_put(&w->room, "[network]\n");
    put_keys(w, "network", 0);
    for (int i = 0; i < w->network->step_count; i++)
        if (stands_alone(w->network, i)) put_step(w, i);
    const ls_status status = ls_graph_parse(w->graph->path, text, out);
    free(w->name);
    free(text);
    return status;
}

ls_status ls_fake_network_new(const ls_graph *graph, ls_graph **out) {
    if (ls_graph_is_quantised(graph)) return ls_graph_parse(graph->path, graph->text, out);
    ls_weights_info info = { .graph = (ls_graph *)graph };
    for (size_t c = 0; c < sizeof info.std / sizeof *info.std; c++) info.std[c] = 1;
    ls_network *network = NULL;
    ls_ini *ini = NULL;
    ls_status status = ls_network_new(&info, NULL, 1, &network);
    LS_THEN(status, ls_ini_parse(graph->path, graph->text, strlen(graph->text), &ini));
    writer w = { .graph = graph, .network = network, .ini = ini };
    LS_THEN(status, write(&w, out));
    ls_ini_free(ini);
    ls_network_free(network);
    return status;
}

// --- values ----------------------------------------------------------------------------------------

// Writes the canonical weights (out_c, in_c / groups, kernel_h, kernel_w) and the biases. Returns the end.
static float *put_weights(const ls_step *s, float *values) {
    const window *win = &s->floats.w;
    const int ins = win->in_c / win->groups, kernel = win->kernel_h * win->kernel_w;
    for (int o = 0; o < win->out_c; o++)
        for (int i = 0; i < ins; i++)
            for (int k = 0; k < kernel; k++) *values++ = s->weight[ls_step_weight_place(s, o, k * ins + i)];
    memcpy(values, s->bias, (size_t)s->bias_count * sizeof *values);
    return values + s->bias_count;
}

void ls_fake_network_values(const ls_network *n, float *values) {
    for (int i = 0; i < n->step_count; i++) {
        const ls_step *s = &n->steps[i];
        if (!stands_alone(n, i)) continue;
        if (has_weights(s)) values = put_weights(s, values);
        if (!has_grid(s)) continue;
        *values++ = (float)n->values[s->output].scale;
        *values++ = (float)n->values[s->output].zero;
    }
}
