// compile_internal.h - what compile.c (values, fusion, gradients) and lower.c (a layer's operators) share.
#ifndef LS_TRAIN_COMPILE_INTERNAL_H
#define LS_TRAIN_COMPILE_INTERNAL_H

#include "train/compile.h"

enum { LS_GRADS_MAX = 2 };

// What a layer produces: its forward buffer, and the gradients that its readers have contributed so far.
typedef struct {
    ls_nchw shape; // physical: flatten does not change it
    ls_ref ref;
    int needs_grad;
    ls_ref grads[LS_GRADS_MAX];
    int grad_count;
} ls_value;

// One node = one layer with the layers that are fused into it.
typedef struct {
    const ls_layer *layer;
    int layer_index;
    int input[LS_INPUTS_MAX], input_count; // values; the residual of a fused batch norm is input[1]
    int output;                            // value
    int relu, residual;                    // fused
    ls_ref kept;                           // batch norm's saved statistics, pooling's index
} ls_node;

typedef struct {
    const ls_arenas *arenas;
    const ls_graph *graph;
    const ls_compile_options *options;
    ls_device *device;
    ls_program *program;
    ls_value *values; // 0: the network's input; then one a node
    int value_count;
    int *value_of;    // by layer: its value
    int *readers;     // by layer: how many layers read it
    int *absorbed_by; // by layer: the layer that it is fused into, or -1
    ls_node *nodes;
    int node_count;
    int completed; // trained parameters whose gradients the instructions so far complete
} ls_builder;

// A new activation slot.
LS_CHECKED ls_status ls_builder_slot(ls_builder *b, const char *name, size_t bytes, ls_ref *out);
LS_CHECKED ls_status ls_builder_activation(ls_builder *b, const char *name, ls_nchw shape, ls_ref *out);
// Appends an instruction; refs in the order of the operator's arguments.
LS_CHECKED ls_status ls_builder_emit(ls_builder *b, const ls_op_desc *desc, const ls_ref *refs, int count);
// The gradient of a node's output as one buffer (adds two contributions where there are two).
LS_CHECKED ls_status ls_builder_grad(ls_builder *b, const ls_node *node, ls_ref *out);
// Contributes a gradient to a value; one that is not needed is ignored.
LS_CHECKED ls_status ls_builder_give_grad(ls_builder *b, int value, ls_ref grad);

// The instruction just emitted was the last that adds to the gradients of the node's parameters.
void ls_builder_completes(ls_builder *b, const ls_node *node);

ls_ref ls_ref_input(ls_program_input input);
ls_ref ls_ref_arena(ls_buffer buffer);
ls_ref ls_builder_param(const ls_builder *b, const ls_node *node, ls_param_role role, int what);
enum { LS_PARAM_MASTER, LS_PARAM_WORKING, LS_PARAM_GRAD }; // what

// A layer kind's operators, by ls_layer_kind (lower.c).
typedef struct {
    ls_status (*forward)(ls_builder *b, ls_node *node);
    ls_status (*backward)(ls_builder *b, ls_node *node);
} ls_lowering;
extern const ls_lowering ls_lowerings[LS_LAYER_COUNT];

#endif
