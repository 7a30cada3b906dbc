// compile_internal.h - what compile.c (values, fusion, gradients), lower.c (operators), head.c (the loss and what it takes in),
// recompute.c (blocks) share.
#ifndef LS_PROGRAM_COMPILE_INTERNAL_H
#define LS_PROGRAM_COMPILE_INTERNAL_H

#include "program/compile.h"

enum { LS_GRADS_MAX = 2 };

typedef struct ls_node ls_node;

// What a layer produces: its forward buffer, and the gradients that its readers have contributed so far.
typedef struct {
    ls_nchw shape; // physical: flatten does not change it
    ls_ref ref;
    int needs_grad;
    ls_ref grads[LS_GRADS_MAX];
    int grad_count;
    int wanted;               // by the backward pass of the block that is being recomputed
    int rectified;            // the relu that reads it is computed with it
    const ls_node *biased_by; // its bias is added by the max pooling that reads it: the node that has the bias
} ls_value;

// One node = one layer with the layers that are fused into it.
struct ls_node {
    const ls_layer *layer;
    int layer_index;
    int input[LS_INPUTS_MAX], input_count; // values; the residual of a fused batch norm is input[1]
    int output;                            // value
    ls_activation activation;              // fused
    int residual, adds_last;               // fused; adds_last: behind the activation
    const ls_layer *pool;                  // fused: the max pooling behind a batch norm's relu; else NULL
    ls_ref saved, index;                   // for the backward pass: batch norm's statistics, max pooling's index
    ls_ref sums; // synchronised batch norm's, over all ranks: for the first time, and for the second
};

typedef struct {
    const ls_param_store *store;
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
    const ls_node *head, *head_pool; // a linear layer, and a pooling before it, that the loss takes in; or NULL
    int *block_end;                  // by block of recomputation: the node behind its last one
    int block_count;                 // 1: nothing is computed a second time
    int emitted;                     // instructions so far
    int measuring;                   // no plans are made and no instructions kept: only the buffer planner is filled
    int again;                       // the forward pass of a block is emitted a second time
    int again_at;                    // instructions up to here have been looked at for the plans of the first time
    int completed;                   // trained parameters whose gradients the instructions so far complete
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
// So many LS_F64 of an argument of the instruction just emitted are summed over ranks before the next one.
void ls_builder_reduces(ls_builder *b, int arg, size_t count);

ls_ref ls_ref_input(ls_program_input input);
// Absent where the layer has no such parameter, or where that is frozen and its gradient is meant.
ls_ref ls_builder_param(const ls_builder *b, const ls_node *node, ls_param_role role, ls_param_copy copy);
// Does the node's operator write its output over its input?
int ls_node_in_place(const ls_builder *b, const ls_node *node);

// The layer is a last one that only scales, and its factor is the loss's.
int ls_builder_joins_loss(const ls_builder *b, int l);
// Sets head and head_pool, where there are any: then 1, and what was emitted is another program's. Shapes are known by then.
int ls_builder_find_head(ls_builder *b);
LS_CHECKED ls_status ls_builder_emit_loss(ls_builder *b);

// Emits the whole program, with the blocks that the builder has, into a new buffer planner.
LS_CHECKED ls_status ls_builder_emit_program(ls_builder *b);
// The same, but buffers get no places yet; *bytes: what the program's activations take at least.
LS_CHECKED ls_status ls_builder_emit_unplaced(ls_builder *b, size_t *bytes);
// Gives them their places: then the program has its activation_bytes.
void ls_builder_place(ls_builder *b);
// Cuts the nodes into the blocks that need the least activation memory (recompute.c).
LS_CHECKED ls_status ls_builder_choose_blocks(ls_builder *b);
// Emits what the backward pass of nodes first..end-1 reads and the forward pass did not keep.
LS_CHECKED ls_status ls_builder_recompute(ls_builder *b, int first, int end);

typedef enum {
    LS_READS_INPUT = 1,
    LS_READS_OUTPUT = 2,
    LS_READS_RELU = 4,  // its output where a relu is fused, and no pooling (which has its index)
    LS_READS_INPUTS = 8 // all of them
} ls_backward_reads;

// A layer kind's operators, by ls_layer_kind (lower.c).
typedef struct {
    ls_status (*forward)(ls_builder *b, ls_node *node);
    ls_status (*backward)(ls_builder *b, ls_node *node);
    int reads; // what backward reads of the forward pass: a set of ls_backward_reads
} ls_lowering;
extern const ls_lowering ls_lowerings[LS_LAYER_COUNT];

#endif
