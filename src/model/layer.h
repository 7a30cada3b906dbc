// layer.h - what a kind of layer is: one row of a table, defined in layer_<name>.c; inside the model room only.
//
// A new kind is a row in layers.def and a file with its ls_layer_type_<name>; the rest of the room uses the row.
// tests/model/test_layers_page.c makes docs/layers.md of these tables.
#ifndef LS_MODEL_LAYER_H
#define LS_MODEL_LAYER_H

#include <stddef.h>
#include "model/graph.h"

enum { LS_LAYER_PARAMS_MAX = 4, LS_SIZE_MAX = 65536, LS_PADDING_MAX = 1024 };

typedef enum {
    LS_KEY_INT,
    LS_KEY_PAIR,    // an ls_pair of those: one number for both, or rows x columns, such as 3x5
    LS_KEY_OUTPUTS, // as INT, or the word `classes`: the data set's number of them
    LS_KEY_REAL,
    LS_KEY_BOOL,
    LS_KEY_INITIAL // a word of initialisations.def, or a number
} ls_key_type;

typedef struct {
    const char *name;
    ls_key_type type;
    size_t offset; // of its int, double or ls_init in ls_layer
    int required;
    // preset: where the file has no such key; need not lie in the range. LS_KEY_INITIAL: a range of initialisations.def.
    double preset, minimum, maximum;
    const char *what;
} ls_layer_key;

typedef enum {
    LS_TAKES_MAP,    // (C,H,W), not behind a flatten
    LS_TAKES_VECTOR, // (K,1,1)
    LS_TAKES_ANY
} ls_layer_domain;

typedef struct {
    const char *name;
    const char *what;    // what it computes
    const char *shape;   // of the output; NULL: the input's
    const char *example; // lines of a network file behind 'layer = ...'; NULL: none are needed
    const ls_layer_key *keys;
    int key_count;
    int input_count, inputs_max; // so many, or from input_count to inputs_max, where that is not 0
    ls_layer_domain domain;
    // Comes with in set and out, physical and flat as the first input has them; changes them, refuses what is
    // impossible (with ls_layer_fail). NULL: the output is shaped like the input.
    ls_status (*infer)(const ls_graph *graph, ls_layer *layer);
    // Appends the layer's parameters with ls_graph_add_param, in PyTorch's order. NULL: none.
    void (*add_params)(ls_graph *graph, int layer);
    // Multiply-adds of the forward pass of one sample. NULL: not counted.
    double (*multiply_adds)(const ls_layer *layer);
} ls_layer_type;

#define X(NAME, name, type, field) extern const ls_layer_type ls_layer_type_##name;
#include "model/layers.def"
#undef X

const ls_layer_type *ls_layer_type_of(ls_layer_kind kind);

// For people, into dst; return dst. "whole, 1 to 65536, or `classes`", words between `quote`; "needed", a value, or "" where the key may
// be missing without one; "Input: a map. Output: of the same shape."
const char *ls_layer_key_values(const ls_layer_key *key, const char *quote, char *dst, size_t bytes);
const char *ls_layer_key_default(const ls_layer_key *key, const char *quote, char *dst, size_t bytes);
const char *ls_layer_inputs(const ls_layer_type *type, char *dst, size_t bytes);

// LS_USAGE, "<file>:<line>: layer '<name>' (<kind>): <text>".
ls_status ls_layer_fail(const ls_graph *graph, const ls_layer *layer, const char *format, ...) LS_PRINTF(3, 4);

// shape.dim and kind come from the caller; file_dim is shape.dim[0..rank-1], where a linear weight has rank 2: (O,
// C*H*W). fan_in > 0: initial values as `init` says; else the constant `value`.
typedef struct {
    const char *name; // "weight"
    ls_param_role role;
    ls_param_shape shape;
    double fan_in, value;
    ls_init init;
} ls_param_spec;
void ls_graph_add_param(ls_graph *graph, int layer, ls_param_spec spec);

const char *ls_init_word(ls_init_kind kind); // of initialisations.def
// Refuses a bias_init of a layer without a bias.
LS_CHECKED ls_status ls_layer_check_bias(const ls_graph *graph, const ls_layer *layer, int bias, ls_init bias_init);

// "3", or "3x5", into dst; returns dst.
enum { LS_PAIR_BYTES = 24 };
const char *ls_pair_text(ls_pair pair, char dst[LS_PAIR_BYTES]);

// *out = number of positions of a window over `size`, padding on both sides: floor((size + 2*padding - extent)/stride)
// + 1, where extent = dilation*(kernel-1) + 1. Refused when the window does not fit once.
typedef struct {
    ls_pair kernel, stride, padding;
    int dilation;
} ls_sliding_window;
LS_CHECKED ls_status ls_layer_slide(
    const ls_graph *graph, const ls_layer *layer, ls_sliding_window window, ls_chw *out);

// Needs layers with keys and inputs. Sets shapes, parameters, needs_input_grad of all layers, in order; refuses dead
// layers and an output that is no vector of logits.
LS_CHECKED ls_status ls_graph_infer(ls_graph *graph);

// Shared by layers of one family.
extern const ls_layer_key ls_pool_keys[3];
ls_status ls_pool_infer(const ls_graph *graph, ls_layer *layer);        // a window that slides
ls_status ls_global_pool_infer(const ls_graph *graph, ls_layer *layer); // the whole map

#endif
