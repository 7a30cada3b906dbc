// network.h - a trained network as steps of inference for one picture, ready to be written as C (write_c.h), to be
// quantised (quantise.h) and to be computed here (execute.h).
//
// Batch norm, layer scale and constant factors are folded into the convolution or linear layer before them: in double,
// and each is rounded once. An activation joins the step before it. Both happen only if no other layer reads that step.
// Else batch norm and layer scale are a depthwise convolution of 1x1, and a factor or an activation is a step. With
// floats, an add joins the convolution before it. In integers it does not, because TensorFlow Lite rounds between the
// two; and there a convolution takes only relu, because other activations are tables. Flatten and dropout are nothing.
//
// Step 0 normalises the pixels, and the last step writes the logits. A value is the output of a step. All values lie in
// one slab, placed by their lifetimes (program/buffer_planner.h); where a step can work in place, its output takes the
// bytes of an input that no later step reads.
#ifndef LS_DEPLOY_NETWORK_H
#define LS_DEPLOY_NETWORK_H

#include "deploy/kernels_layer.h"
#include "formats/weights_metadata.h"

// The kinds of steps: X(NAME, name of the kernel and of its part in kernels_*.h)
#define LS_STEPS(X) \
    X(NORMALISE, normalise) \
    X(CONV, conv) \
    X(DEPTHWISE, depthwise) \
    X(MAX_POOL, max_pool) \
    X(MEAN_POOL, mean_pool) \
    X(ADD, add) \
    X(MULTIPLY, multiply) \
    X(MAP, map_values) \
    X(JOIN, join) \
    X(SHORTCUT, shortcut) \
    X(GROUP_NORM, group_norm) \
    X(LOGITS, logits)
typedef enum {
#define X(NAME, name) LS_STEP_##NAME,
    LS_STEPS(X)
#undef X
        LS_STEP_COUNT
} ls_step_kind;

typedef struct {
    ls_step_kind kind;
    const char *name;           // name of the last layer that the step computes
    int first, last;            // index of the first and the last layer that it computes; -1: pixels or logits
    int inputs[2], input_count; // values that the step reads; the second input of a convolution is added
    int output;                 // a value; -1 for LOGITS. Each input of a concat is a JOIN with the same output
    float_layer floats;         // what the kernel reads; its arrays are those below
    float *weight, *bias;       // owned, in the order of kernels_float.h, or NULL
    int64_t weight_count;
    int bias_count;
    int8_layer integers; // like `floats`, for int8 (quantise.h)
    int8_t *table;       // owned: integers.weight
    int32_t *numbers;    // owned: integers.bias, multiplier and shift, number_count of each
    int64_t table_count;
    int number_count;
    int64_t ram_bytes;       // bytes of the slab that are in use at this step
    int64_t multiplications; // of one picture; only convolutions and linear layers count
} ls_step;

typedef struct {
    int channels, area;        // area: rows * columns
    int first_step, last_step; // lifetime
    int64_t offset;            // place in the slab, in elements
    double scale, least, most; // int8: scale, and the range of real numbers from which the scale follows
    int zero;                  // int8: zero point
    int fixed;                 // int8: a quantise layer has set scale and zero
} ls_network_value;

typedef struct {
    const ls_weights_info *info; // borrowed
    int integer;                 // 1: lowered for int8
    ls_step *steps;
    int step_count;
    ls_network_value *values; // value v is the output of a step
    int value_count;
    int64_t slab_elements; // floats, or bytes for int8
    int peak_step;         // the step that has the most ram_bytes
} ls_network;

// Makes the steps. info and weights are borrowed; the weights only for the call. weights: NULL: all are 0. LS_STORAGE:
// a weight is missing or not finite, or a quantise layer's scale or zero point is impossible. LS_USAGE: with `integer`,
// a layer has no integer form; without it, the network has quantise layers; in a quantised network, no quantise layer
// follows a value; or a size of the network does not fit into 32 bits.
LS_CHECKED ls_status ls_network_new(
    const ls_weights_info *info, const ls_safetensors *weights, int integer, ls_network **out);
void ls_network_free(ls_network *network); // NULL is allowed
int64_t ls_network_elements(const ls_network *network, int value);
int64_t ls_network_multiplications(const ls_network *network);
// Returns the place in step->weight of a weight of output channel o. at: position in the kernel * ins + input channel;
// ins: number of input channels of a group; the input channel is counted in its group.
int64_t ls_step_weight_place(const ls_step *step, int o, int at);
// Returns the bytes of constants of a step, and of the whole network.
int64_t ls_step_constant_bytes(const ls_network *network, const ls_step *step);
int64_t ls_network_constant_bytes(const ls_network *network);
int64_t ls_network_slab_bytes(const ls_network *network);
// For ls_network_new alone (place.c): sets the lifetimes and places of all values, ram_bytes of all steps,
// slab_elements and peak_step. LS_USAGE: the slab does not fit into 32 bits.
LS_CHECKED ls_status ls_network_place(ls_network *network);

#endif
