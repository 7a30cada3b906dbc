// layer.h - describes a kind of layer: one row of a table, defined in layer_<name>.c. Only for the model room.
//
// A new kind needs a row in layers.def and in class_rows.c, and a file with its ls_layer_type_<name>.
// tests/model/test_layers_page.c makes docs/layers.md from these tables.
#ifndef LS_MODEL_LAYER_H
#define LS_MODEL_LAYER_H

#include <stddef.h>
#include "model/graph.h"

enum { LS_LAYER_PARAMS_MAX = 4, LS_SIZE_MAX = 65536, LS_PADDING_MAX = 1024, LS_PADDING_SAME = -1 };

typedef enum {
    LS_KEY_INT,
    LS_KEY_PAIR,    // an ls_pair: one number for both, or rows x columns, such as 3x5
    LS_KEY_PADDING, // an ls_pair, or the word `same`: LS_PADDING_SAME twice
    LS_KEY_OUTPUTS, // a whole number, or the word `classes`: the data set's number of classes
    LS_KEY_REAL,
    LS_KEY_BOOL,
    LS_KEY_INITIAL // a word of initialisations.def, or a number
} ls_key_type;

typedef struct {
    const char *name;
    ls_key_type type;
    size_t offset; // offset of the int, double, ls_pair or ls_init in ls_layer
    int required;
    // preset: value if the file lacks the key; it may lie outside the range. For LS_KEY_INITIAL the range is a range of
    // words in initialisations.def.
    double preset, minimum, maximum;
    const char *what;
} ls_layer_key;

typedef enum {
    LS_TAKES_MAP,    // (C,H,W), not flattened
    LS_TAKES_VECTOR, // (K,1,1)
    LS_TAKES_ANY
} ls_layer_domain;

typedef struct {
    const char *name;
    const char *what;    // description of the computation
    const char *shape;   // shape of the output in words; NULL: the input's shape
    const char *example; // lines of a network file after 'layer = ...'; NULL: no lines are needed
    const ls_layer_key *keys;
    int key_count;
    int input_count, inputs_max; // exactly input_count inputs if inputs_max is 0, else input_count to inputs_max
    ls_layer_domain domain;
    // Sets out, physical and flat, or refuses an impossible layer with ls_layer_fail. Before the call, `in` is set and
    // the others have the values of the first input. NULL: the output has the shape of the input.
    ls_status (*infer)(const ls_graph *graph, ls_layer *layer);
    // Appends the layer's parameters with ls_graph_add_param, in PyTorch's order. NULL: no parameters.
    void (*add_params)(ls_graph *graph, int layer);
    // Returns the multiply-adds of the forward pass of one sample. NULL: the layer's cost is not counted.
    double (*multiply_adds)(const ls_layer *layer);
} ls_layer_type;

#define X(NAME, name, type, field) extern const ls_layer_type ls_layer_type_##name;
#include "model/layers.def"
#undef X

const ls_layer_type *ls_layer_type_of(ls_layer_kind kind);

// Write texts about a kind of layer, for people, into dst and return dst. Values: "whole, 1 to 65536, or `classes`",
// with `quote` around words. Default: "needed", a value, or "" if the key is optional without a value. Inputs: "Input:
// a map. Output: of the same shape."
const char *ls_layer_key_values(const ls_layer_key *key, const char *quote, char *dst, size_t bytes);
const char *ls_layer_key_default(const ls_layer_key *key, const char *quote, char *dst, size_t bytes);
const char *ls_layer_inputs(const ls_layer_type *type, char *dst, size_t bytes);

// Returns LS_USAGE with the message "<file>:<line>: layer '<name>' (<kind>): <text>".
ls_status ls_layer_fail(const ls_graph *graph, const ls_layer *layer, const char *format, ...) LS_PRINTF(3, 4);
// Adds the line that uses the layer's block to the message of a failure at the layer's own line. ls_layer_fail does so.
ls_status ls_layer_note_use(const ls_layer *layer, ls_status status);

// A parameter to add. The caller sets shape. file_dim becomes shape.dim[0..rank-1]; a linear weight has rank 2 there:
// (O, C*H*W). fan_in > 0: initial values according to `init`; else the constant `value`.
typedef struct {
    const char *name; // "weight"; "": the parameter has the layer's name
    ls_param_role role;
    ls_param_shape shape;
    int rank; // 0: by shape.kind: vector 1, linear 2, convolution 4
    double fan_in, value;
    ls_init init;
} ls_param_spec;
void ls_graph_add_param(ls_graph *graph, int layer, ls_param_spec spec);

const char *ls_init_word(ls_init_kind kind); // the word in initialisations.def
// Fails if the file sets bias_init for a layer without a bias.
LS_CHECKED ls_status ls_layer_check_bias(const ls_graph *graph, const ls_layer *layer, int bias, ls_init bias_init);

// Writes "3" or "3x5" into dst; returns dst.
enum { LS_PAIR_BYTES = 24 };
const char *ls_pair_text(ls_pair pair, char dst[LS_PAIR_BYTES]);

// Computes the size of the output (*out) of a window that slides over the layer's input, with padding on both sides: in
// each direction floor((size + 2*padding - extent)/stride) + 1, where extent = dilation*(kernel-1) + 1. ceil_mode: one
// more where a rest is left, if that window begins in the map or in the padding before it. Refuses a window that is
// larger than the padded input.
typedef struct {
    ls_pair kernel, stride, padding;
    int dilation, ceil_mode;
} ls_sliding_window;
LS_CHECKED ls_status ls_layer_slide(
    const ls_graph *graph, const ls_layer *layer, ls_sliding_window window, ls_chw *out);

// Sets the shapes, parameters and needs_input_grad of all layers, in order. Their keys and inputs must be set. Refuses
// layers whose output is not used, and a network without parameters or whose output is not a vector of logits.
LS_CHECKED ls_status ls_graph_infer(ls_graph *graph);

// Adds the weight and the bias of a norm with a number for each channel, unless it is not affine.
void ls_group_norm_add_params(ls_graph *graph, int layer);

// Infer the layers that pool. ls_pool_check_window refuses a window whose elements 16 bits cannot number on a device.
enum { LS_POOL_KERNEL_MAX = 255 };
ls_status ls_pool_check_window(const ls_graph *graph, const ls_layer *layer, int rows, int columns);
ls_status ls_pool_infer(const ls_graph *graph, ls_layer *layer);        // for a sliding window
ls_status ls_global_pool_infer(const ls_graph *graph, ls_layer *layer); // for a window that covers the whole map

#endif
