// graph.h - a network: layers in order, with shapes, parameters and their initial values.
// Data only; no device, no memory for tensors.
//
// File format (configs/models/*.ini): section [network] with `input = CxHxW`, or `input = data`: the shape of the data
// set's pictures; every further section is a layer, named by the section, in order. The number of outputs may be
// `classes`, the data set's.
//   layer = kind
//   inputs = a, b  earlier layers (default: the section before; of the first: "input")
// The other keys are the layer's own. The last layer is the output: logits of shape (classes, 1, 1).
//
// Logical and physical shape. A tensor has a logical shape (what the layer says: flatten makes (C*H*W, 1, 1)) and a
// physical one (the map as which it lies in memory, which a device may block or permute). They differ only behind a
// flatten, up to the next linear layer: flatten moves nothing, relu, dropout and scale work on the map as it lies, and
// a linear layer has its weight as {O, C, H, W} of its input's physical shape. So the compiler takes operators' shapes
// from ls_graph_physical; layers that mix positions (convolution, pooling, batch norm) are refused behind a flatten,
// add and multiply need two inputs that lie alike, and concat none that is flattened.
#ifndef LS_MODEL_GRAPH_H
#define LS_MODEL_GRAPH_H

#include <stdio.h>
#include "base/shape.h"
#include "config/purpose.h"
#include "base/status.h"

enum { LS_NAME_BYTES = 96, LS_INPUTS_MAX = 16 };

typedef enum {
#define X(NAME, name, type, field) LS_LAYER_##NAME,
#include "model/layers.def"
#undef X
    LS_LAYER_COUNT
} ls_layer_kind;

// Where a parameter's initial values come from.
typedef enum {
#define X(NAME, word, what) LS_INIT_##NAME,
#include "model/initialisations.def"
#undef X
    LS_INIT_CONSTANT // no word: the number itself
} ls_init_kind;

typedef struct {
    ls_init_kind kind;
    double value; // of a constant
} ls_init;

typedef struct {
    int unused;
} ls_layer_none;
typedef struct {
    int out_channels;
    ls_pair kernel, stride, padding;
    int dilation, groups, bias;
    ls_init weight_init, bias_init;
    int whiten_samples; // of LS_INIT_WHITEN, else 0: so many pictures
    double whiten_eps;  // added to each eigenvalue
} ls_layer_conv2d;
typedef struct {
    int out_features, bias;
    ls_init weight_init, bias_init;
} ls_layer_linear;
typedef struct {
    int groups, affine;
    double eps;
} ls_layer_group_norm;
typedef struct {
    int out_channels, stride;
} ls_layer_shortcut;
typedef struct {
    double eps, momentum; // momentum: share of the new value in the running estimate, as PyTorch's
} ls_layer_norm;
typedef struct {
    ls_pair kernel, stride, padding; // stride: the kernel where the file has none
} ls_layer_pool;
typedef struct {
    double p;
} ls_layer_dropout;
typedef struct {
    double factor;
} ls_layer_scale;

typedef enum {
    LS_ROLE_WEIGHT, // of a convolution or linear layer: decays
    LS_ROLE_BIAS,
    LS_ROLE_NORM_WEIGHT,
    LS_ROLE_NORM_BIAS,
    LS_ROLE_RUNNING_MEAN, // a statistic: not trained, but saved and evaluated with
    LS_ROLE_RUNNING_VAR
} ls_param_role;

typedef struct {
    char name[LS_NAME_BYTES]; // "<layer>.weight", ".bias", ".running_mean", ".running_var"
    int layer;                // index of its layer
    ls_param_role role;
    ls_param_shape shape;
    int rank, file_dim[4]; // shape in weight files, PyTorch's: a linear weight is (O, I)
    ls_init_kind init;
    double init_value; // the bound b of U(-b, b); he-normal: the deviation; constant: the value
} ls_param;

typedef struct {
    char name[LS_NAME_BYTES];
    ls_layer_kind kind;
    int inputs[LS_INPUTS_MAX]; // indices of layers; -1: the network's input
    int input_count;
    ls_chw in, out;       // logical; in: of the first input
    ls_chw physical;      // of the output: see above
    int flat;             // the output is a vector: behind a flatten or a linear layer
    int needs_input_grad; // a layer before it is trained, so the backward pass goes on through it
    int first_param, param_count;
    int line; // in the network file
    union {
#define X(NAME, name, type, field) type name;
#include "model/layers.def"
#undef X
    } attr;
} ls_layer;

typedef struct {
    char path[1024];
    char *text;    // the network file's, with numbers where it follows the data
    uint64_t hash; // of what the file says: sections, keys and values in order; not of comments
    ls_chw input;
    int classes;
    ls_layer *layers; // topologically ordered as in the file; the last is the output
    int layer_count;
    ls_param *params; // in layer order
    int param_count;
} ls_graph;

// Where a network file finds what it follows; find is called once, and not by a file that has numbers everywhere.
typedef struct {
    ls_status (*find)(void *context, ls_chw *shape, int *classes);
    void *context;
} ls_graph_data;

// LS_USAGE with file:line, layer, shapes and the nearest valid name. A missing file, too.
LS_CHECKED ls_status ls_graph_read(const char *path, ls_graph **out); // of numbers everywhere
LS_CHECKED ls_status ls_graph_read_for(const char *path, const ls_graph_data *data, ls_graph **out);
// The same of a text that is no file of its own; path: where it is from, for messages.
LS_CHECKED ls_status ls_graph_parse(const char *path, const char *text, ls_graph **out);
// The same network for pictures of another height and width. Its parameters are the same: LS_USAGE naming the layer whose
// parameters would have another shape there, or that is impossible there.
LS_CHECKED ls_status ls_graph_resize(const ls_graph *graph, int h, int w, ls_graph **out);
void ls_graph_free(ls_graph *graph);
const char *ls_layer_kind_name(ls_layer_kind kind);
int64_t ls_graph_trained_parameters(const ls_graph *graph); // statistics not counted
static inline int ls_role_is_statistic(ls_param_role role) {
    return role == LS_ROLE_RUNNING_MEAN || role == LS_ROLE_RUNNING_VAR;
}

// Initial values of parameter `index` (canonical layout, ls_param_count floats), by its `init` (initialisations.def).
// With word i = ls_random_word(seed, LS_PURPOSE_INIT, index, 0, i):
//   uniform    element i is (2 * ls_unit_float(word i) - 1) * bound, in fp32; bound = 1/sqrt(fan_in)
//   he-normal  of words u, v = 2j, 2j + 1 elements 2j and 2j + 1 are deviation * sqrt(-2 log((u + 1) / 2^32)) times
//              cos and sin of 2 pi v / 2^32 (Box and Muller 1958), in double, rounded once
//   whiten     0: they come from the training pictures (whiten.h)
// A norm's weight is 1, its bias 0. The bits are the same on every machine: nothing but +, -, *, / and sqrt is rounded.
void ls_graph_init_param(const ls_graph *graph, int index, uint64_t seed, float *values);

// Of layer's output; of the network's input for -1: its name, logical shape, whether it is a vector, physical shape.
static inline const char *ls_graph_name(const ls_graph *graph, int layer) {
    return layer < 0 ? "input" : graph->layers[layer].name;
}
static inline ls_chw ls_graph_out(const ls_graph *graph, int layer) {
    return layer < 0 ? graph->input : graph->layers[layer].out;
}
static inline int ls_graph_is_flat(const ls_graph *graph, int layer) {
    return layer >= 0 && graph->layers[layer].flat;
}
static inline ls_chw ls_graph_physical(const ls_graph *graph, int layer) {
    return layer < 0 ? graph->input : graph->layers[layer].physical;
}

// Cost of a layer for one sample, in floating-point operations (2 for a multiply-add): forward, and the backward pass's
// share (data gradient, where needs_input_grad; weight gradient). Convolutions and linear layers count, without their
// biases; the others are bound by memory and count as 0, as in the published figures.
typedef struct {
    double forward, backward_data, backward_weight;
} ls_cost;
ls_cost ls_layer_cost(const ls_graph *graph, int layer);
double ls_graph_training_flops(const ls_graph *graph); // of all layers, all three
// The table of --dry-run: layer, kind, inputs, output shape, parameters, MFLOP forward and in training; totals.
void ls_graph_print(const ls_graph *graph, FILE *file);

#endif
