// compile_internal.h - the builder that compile.c (values, fusion, gradients), lower.c (operators), head.c (the loss)
// and recompute.c (blocks) share.
#ifndef LS_PROGRAM_COMPILE_INTERNAL_H
#define LS_PROGRAM_COMPILE_INTERNAL_H

#include "program/compile.h"

enum { LS_GRADS_MAX = 2 };

typedef struct ls_node ls_node;

// The output of a node, or the network's input: its buffer in the forward pass, and the gradients that its readers have
// contributed so far.
typedef struct {
    ls_nchw shape; // as it lies in memory: flatten does not change it
    ls_ref ref;
    int needs_grad;
    ls_ref grads[LS_GRADS_MAX];
    int grad_count;
    int sliced_from, sliced_end; // range with all channels of the newest gradient that slices wrote; 0, 0: no slice did
    int wanted;                  // recomputation: the current block's backward pass needs this value
    int rectified;               // the value's producer also computes the relu that reads the value
    const ls_node *biased_by;    // node whose bias the max pooling after this value adds; NULL: the bias is not moved
} ls_value;

// A node is one layer with the layers that are fused into it.
struct ls_node {
    const ls_layer *layer;
    int layer_index;
    // Indices of values. If an add is fused into a batch norm, input[1] is the add's other operand.
    int input[LS_INPUTS_MAX], input_count;
    int output;               // index of the value that the node computes
    ls_activation activation; // fused activation
    double parameter;         // parameter of the fused activation
    int residual, adds_last;  // residual: an add is fused; adds_last: the add follows the activation
    const ls_layer *pool;     // fused max pooling after a batch norm's relu; NULL: none is fused
    ls_ref saved, index; // kept for the backward pass: statistics of batch norm or group norm; index of max pooling
    ls_ref weight;       // convolution and linear layer: the weights that its operators read
    // Synchronised batch norm: its sums over all ranks. Recomputation reads them a second time.
    ls_ref sums;
};

typedef struct ls_builder {
    const ls_param_store *store;
    const ls_graph *graph;
    const ls_compile_options *options;
    ls_device *device;
    int quantises; // weights of convolutions and linear layers are rounded
    ls_program *program;
    ls_value *values; // values[0]: the network's input; then one value for each node
    int value_count;
    int *value_of;    // by layer: index of the value that holds its output
    int *readers;     // by layer: how often other layers and the loss read it
    int *absorbed_by; // by layer: the layer into which it is fused, or -1
    ls_node *nodes;
    int node_count;
    // The linear layer that the loss computes, and the pooling before it; NULL: the loss computes no such layer.
    const ls_node *head, *head_pool;
    int *block_end;             // by block of recomputation: one more than the index of its last node
    int block_count;            // 1: no recomputation
    int emitted;                // number of instructions emitted so far
    int measuring;              // no plans are made and no instructions are kept; only the buffer planner is filled
    int again;                  // recomputation: the forward pass of a block is being emitted a second time
    int again_at;               // recomputation: index where the search for the next plan to reuse starts
    struct ls_builder *teacher; // builder of the teacher's part of the program; NULL: there is no teacher
    ls_ref_kind params;         // kind of references to parameters: LS_REF_PARAM or LS_REF_TEACHER
    int completed; // number of trained parameters whose gradients are complete after the instructions so far
} ls_builder;

// Books a buffer whose lifetime begins with the next instruction. ls_builder_emit extends it to those that use it.
LS_CHECKED ls_status ls_builder_slot(ls_builder *b, const char *name, size_t bytes, ls_ref *out);
LS_CHECKED ls_status ls_builder_activation(ls_builder *b, const char *name, ls_nchw shape, ls_ref *out);
// Appends an instruction, and extends the lifetimes of the slots in refs to it. refs: its arguments, in the operator's
// order.
LS_CHECKED ls_status ls_builder_emit(ls_builder *b, const ls_op_desc *desc, const ls_ref *refs, int count);
// Returns the gradient of a node's output as one buffer. Two contributions are added by an extra operator.
LS_CHECKED ls_status ls_builder_grad(ls_builder *b, const ls_node *node, ls_ref *out);
// Contributes a gradient to a value. It is ignored if the value needs no gradient.
LS_CHECKED ls_status ls_builder_give_grad(ls_builder *b, int value, ls_ref grad);

// Records that the instruction just emitted was the last one to add to the gradients of the node's parameters.
void ls_builder_completes(ls_builder *b, const ls_node *node);
// Records that the first `count` doubles of argument `arg` of the instruction just emitted are summed over all ranks
// before the next instruction.
void ls_builder_reduces(ls_builder *b, int arg, size_t count);

ls_ref ls_ref_input(ls_program_input input);
// Returns the reference to a copy (working, master, gradient...) of a layer's parameter. It is absent if the layer has
// no parameter of this role, or if a gradient is asked for and the parameter gets no gradient.
ls_ref ls_builder_param(const ls_builder *b, const ls_node *node, ls_param_role role, ls_param_copy copy);
// Whether the node's operator writes its output over its input.
int ls_node_in_place(const ls_builder *b, const ls_node *node);

// Whether layer l is a scale at the end of the network that the loss computes.
int ls_builder_joins_loss(const ls_builder *b, int l);
// Sets head and head_pool if the loss can compute the network's last layers. Returns 1 if so; the program must then be
// emitted anew. Needs the shapes of all values, so the program must have been emitted once.
int ls_builder_find_head(ls_builder *b);
LS_CHECKED ls_status ls_builder_emit_loss(ls_builder *b);

// Emits the whole program, with recomputation by the blocks in b->block_end, into a new buffer planner, and places the
// buffers.
LS_CHECKED ls_status ls_builder_emit_program(ls_builder *b);
// Like ls_builder_emit_program, but places no buffers. *bytes: ls_buffer_planner_peak; no slab can be smaller.
LS_CHECKED ls_status ls_builder_emit_unplaced(ls_builder *b, size_t *bytes);
// Places the buffers and sets the program's activation_bytes.
void ls_builder_place(ls_builder *b);
// Cuts the nodes into blocks of recomputation: of the cuts that it tries, the one with the least activation memory.
LS_CHECKED ls_status ls_builder_choose_blocks(ls_builder *b);
// Emits a second time those forward operators of nodes first..end-1 whose outputs the forward pass did not keep, but
// which the backward pass, or another of these operators, reads.
LS_CHECKED ls_status ls_builder_recompute(ls_builder *b, int first, int end);

typedef enum {
    // bits of a set
    LS_READS_INPUT = 1, // its first input
    LS_READS_OUTPUT = 2,
    LS_READS_RELU = 4,  // its output if a relu is fused as the last step
    LS_READS_INPUTS = 8 // all inputs
} ls_backward_reads;

// The operators of each kind of layer, by ls_layer_kind (lower.c).
typedef struct {
    ls_status (*forward)(ls_builder *b, ls_node *node);
    ls_status (*backward)(ls_builder *b, ls_node *node);
    int reads; // values of the forward pass that backward reads: a set of ls_backward_reads
} ls_lowering;
extern const ls_lowering ls_lowerings[LS_LAYER_COUNT];

#endif
