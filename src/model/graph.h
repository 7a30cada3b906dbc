// graph.h - a network: layers in order, with shapes, parameters and their initial values. Data only: no device, and no
// memory for tensors.
//
// File format (configs/models/*.ini): the section [network] has `input = CxHxW`, or `input = data` for the shape of the
// data set's pictures. Every further section is a layer, in order; its name is the layer's name. A number of outputs
// may be `classes`, the data set's number of classes.
//   layer = kind
//   inputs = a, b  earlier layers (default: the previous section; for the first layer "input")
// The other keys belong to the kind of layer. The last layer is the output: logits of shape (classes, 1, 1). Blocks of
// sections can be defined, and used several times (network_blocks.h).
//
// Logical and physical shape. A tensor's logical shape is the shape that its layer defines: flatten makes (C*H*W, 1,
// 1). Its physical shape is that of the map in memory, which a device may block or permute. They differ only between a
// flatten and the next linear layer. Flatten moves nothing; relu, dropout and scale work on the map as it is stored;
// the weight of a linear layer is {O, C, H, W} with its input's physical shape. So the compiler takes the shapes of
// operators from ls_graph_physical. After a flatten, layers that need a map (convolution, pooling, norms, slice) are
// refused. Inputs of equal shape of add and multiply must also have equal physical shapes, and concat takes no
// flattened map.
#ifndef LS_MODEL_GRAPH_H
#define LS_MODEL_GRAPH_H

#include <stdio.h>
#include "base/shape.h"
#include "base/status.h"
#include "config/activation.h"
#include "config/purpose.h"

enum { LS_NAME_BYTES = 96, LS_INPUTS_MAX = 16 };

typedef enum {
#define X(NAME, name, type, field) LS_LAYER_##NAME,
#include "model/layers.def"
#undef X
    LS_LAYER_COUNT
} ls_layer_kind;

// The source of a parameter's initial values.
typedef enum {
#define X(NAME, word, what) LS_INIT_##NAME,
#include "model/initialisations.def"
#undef X
    LS_INIT_CONSTANT // the file has a number instead of a word
} ls_init_kind;

typedef struct {
    ls_init_kind kind;
    double value; // the number, for LS_INIT_CONSTANT
} ls_init;

typedef struct {
    int unused;
} ls_layer_none;
typedef struct {
    double parameter; // the parameter of a PARAMETRIC row of config/activations.def; 0 for other activations
} ls_layer_activation;
typedef struct {
    int out_channels;
    ls_pair kernel, stride, padding;
    int dilation, groups, bias;
    int matrix; // 1: weight files have the weight as a matrix (O, I)
    ls_init weight_init, bias_init;
    int whiten_samples; // number of pictures that LS_INIT_WHITEN reads; 0 for other kinds
    double whiten_eps;  // added to each eigenvalue by LS_INIT_WHITEN
} ls_layer_conv2d;
typedef struct {
    int out_features, bias;
    ls_init weight_init, bias_init;
} ls_layer_linear;
typedef struct { // for groupnorm, layernorm and layerscale, whose attributes have the same address
    int groups, affine;
    double eps;
    double value; // layerscale: initial value of the factors
} ls_layer_group_norm;
typedef struct {
    int out_channels, stride;
} ls_layer_shortcut;
typedef struct {
    double eps, momentum; // momentum: share of the new value in the running estimate, as in PyTorch
} ls_layer_norm;
typedef struct {
    // stride: without this key in the file, equal to the kernel; 0, 0: an adaptive average (device/op_pool.h)
    ls_pair kernel, stride, padding;
    int ceil_mode;   // maxpool2d, 1: the last window may reach beyond the padding
    ls_pair output;  // avgpool2d: size of the output that gives the windows; 0, 0: the file has the windows
    int from_output; // 1: kernel and stride have been computed from `output`
} ls_layer_pool;
typedef struct {
    double p;
} ls_layer_dropout;
typedef struct {
    int interleave;
} ls_layer_concat;
typedef struct {
    int from, channels;
} ls_layer_slice;
typedef struct {
    double factor;
} ls_layer_scale;

typedef enum {
    LS_ROLE_WEIGHT, // of a convolution or linear layer; weight decay applies
    LS_ROLE_BIAS,
    LS_ROLE_NORM_WEIGHT,
    LS_ROLE_NORM_BIAS,
    LS_ROLE_RUNNING_MEAN, // a statistic: not trained, but saved and used in evaluation
    LS_ROLE_RUNNING_VAR,
    LS_ROLE_GRID_SCALE, // of a quantise layer: training does not change it
    LS_ROLE_GRID_ZERO
} ls_param_role;

typedef struct {
    char name[LS_NAME_BYTES]; // "<layer>.weight", ".bias", ".running_mean" and others; "<layer>" of layerscale
    int layer;                // index of the layer that has this parameter
    ls_param_role role;
    ls_param_shape shape;
    // shape in weight files as in PyTorch: a linear weight is (O, I), a layerscale's (C, 1, 1)
    int rank, file_dim[4];
    ls_init_kind init;
    double init_value; // constant: the value; he-normal: the deviation; else the bound b of U(-b, b)
} ls_param;

typedef struct {
    char name[LS_NAME_BYTES];
    ls_layer_kind kind;
    int inputs[LS_INPUTS_MAX]; // indices of layers; -1: the network's input
    int input_count;
    ls_chw in, out;       // logical shapes; in: shape of the first input
    ls_chw physical;      // physical shape of the output: see above
    int flat;             // 1: the output is a vector, from a flatten or linear layer or computed from one
    int needs_input_grad; // 1: the gradient of its input is computed, because a layer that feeds it has parameters
    int first_param, param_count;
    int line;     // line of the layer's section in the network file
    int use_line; // line of the use of a block, outside all blocks, that made the layer; 0: no block made it
    union {
#define X(NAME, name, type, field) type name;
#include "model/layers.def"
#undef X
    } attr;
} ls_layer;

typedef struct {
    char path[1024];
    char *text;    // the network file without blocks, with numbers in place of the words `data` and `classes`
    uint64_t hash; // hash of the sections, keys and values in order; comments do not count
    ls_chw input;
    int classes;
    ls_layer *layers; // in the file's order, inputs before their users; the last is the output
    int layer_count;
    ls_param *params; // in layer order
    int param_count;
} ls_graph;

// Gives the shape and the number of classes of the data set, for network files that use `data` or `classes`. `find` is
// called at most once, and not for a file that uses only numbers.
typedef struct {
    ls_status (*find)(void *context, ls_chw *shape, int *classes);
    void *context;
} ls_graph_data;

// Reads a network file. Errors are LS_USAGE with file:line, also for a missing file. A failure of data->find is passed
// on.
LS_CHECKED ls_status ls_graph_read(const char *path, ls_graph **out); // refuses the words `data` and `classes`
LS_CHECKED ls_status ls_graph_read_for(const char *path, const ls_graph_data *data, ls_graph **out);
// Reads a network from a text. path: the origin of the text, for messages.
LS_CHECKED ls_status ls_graph_parse(const char *path, const char *text, ls_graph **out);
// Makes the same network for pictures of another height and width, with parameters of the same shapes. LS_USAGE if a
// layer would have parameters of another shape, or is impossible at this size; the message names the layer.
LS_CHECKED ls_status ls_graph_resize(const ls_graph *graph, int h, int w, ls_graph **out);
void ls_graph_free(ls_graph *graph);
const char *ls_layer_kind_name(ls_layer_kind kind);
// Returns the activation that a layer is, with its parameter; LS_ACTIVATION_NONE for other layers.
ls_activation ls_layer_applies(const ls_layer *layer, double *parameter);
// Whether the network has quantise layers: then its convolutions and linear layers round their weights to int8.
int ls_graph_is_quantised(const ls_graph *graph);
int64_t ls_graph_trained_parameters(const ls_graph *graph); // without statistics
static inline int ls_role_is_statistic(ls_param_role role) {
    return role >= LS_ROLE_RUNNING_MEAN;
}

// Fills in the initial values of parameter `index` (canonical layout, ls_param_count floats) according to its `init`
// (initialisations.def). With word i = ls_random_word(seed, LS_PURPOSE_INIT, index, 0, i):
//   default    element i is (2 * ls_unit_float(word i) - 1) * bound, in fp32; bound = 1/sqrt(fan_in)
//   he-normal  words u, v = 2j, 2j + 1 give elements 2j and 2j + 1: deviation * sqrt(-2 log((u + 1) / 2^32)) times
//              cos and sin of 2 pi v / 2^32 (Box and Muller 1958), in double, rounded once
//   whiten     0: the values are computed later from the training pictures (whiten.h)
// The weight of a norm is 1, its bias 0. The same bits on every machine: only +, -, *, / and sqrt round.
void ls_graph_init_param(const ls_graph *graph, int index, uint64_t seed, float *values);

// Describe the output of a layer, or for -1 the network's input: its name, its logical shape, whether it is a vector,
// and its physical shape.
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

// Cost of a layer for one sample in floating-point operations (2 for a multiply-add): the forward pass, the data
// gradient (0 unless needs_input_grad) and the weight gradient. As in published figures, only convolutions and linear
// layers count, without their biases; the other layers are limited by memory and count as 0.
typedef struct {
    double forward, backward_data, backward_weight;
} ls_cost;
ls_cost ls_layer_cost(const ls_graph *graph, int layer);
double ls_graph_training_flops(const ls_graph *graph); // sum of all layers and all three parts
// Prints the table of --dry-run: layer, kind, inputs, output shape, parameters, MFLOP forward and in training; totals.
void ls_graph_print(const ls_graph *graph, FILE *file);

#endif
