// onnx_graph.h - nodes and constants of an ONNX graph, and its file: for networks in floats (formats/onnx.c) and in
// int8 (deploy/write_onnx.c). Without protobuf-c (LOCKSTEP_WITHOUT_ONNX) these functions are not there.
//
// A node has one output, which has the node's name. Nodes are added in the order of computation. Inputs and attributes
// are added to the newest node. The graph copies names and values; names that it returns are its own.
#ifndef LS_FORMATS_ONNX_GRAPH_H
#define LS_FORMATS_ONNX_GRAPH_H

#include "config/activation.h"
#include "formats/weights_metadata.h"

// The ONNX operators that are written: X(operator, first operator set that has the operator in the form used here)
#define LS_ONNX_OPERATORS(X) \
    X(Add, 7) \
    X(AveragePool, 7) \
    X(BatchNormalization, 9) \
    X(Clip, 11) \
    X(Concat, 4) \
    X(Conv, 1) \
    X(DequantizeLinear, 13) \
    X(Div, 7) \
    X(Elu, 6) \
    X(Flatten, 9) \
    X(Gelu, 20) \
    X(Gemm, 11) \
    X(GlobalAveragePool, 1) \
    X(GlobalMaxPool, 1) \
    X(HardSigmoid, 6) \
    X(Identity, 1) \
    X(InstanceNormalization, 6) \
    X(LayerNormalization, 17) \
    X(LeakyRelu, 6) \
    X(MatMul, 9) \
    X(MaxPool, 1) \
    X(Mul, 7) \
    X(Pad, 11) \
    X(QuantizeLinear, 13) \
    X(Relu, 6) \
    X(Reshape, 5) \
    X(Sigmoid, 6) \
    X(Slice, 10) \
    X(Softplus, 1) \
    X(Sub, 7) \
    X(Tanh, 6) \
    X(Transpose, 1)
typedef enum {
#define X(name, since) LS_ONNX_##name,
    LS_ONNX_OPERATORS(X)
#undef X
} ls_onnx_operator;

typedef enum { LS_ONNX_FLOAT, LS_ONNX_UINT8, LS_ONNX_INT8, LS_ONNX_INT32, LS_ONNX_INT64 } ls_onnx_type;

typedef struct ls_onnx_graph ls_onnx_graph;

ls_onnx_graph *ls_onnx_graph_new(void);
void ls_onnx_graph_free(ls_onnx_graph *graph);
// Add a node and its first input, or a constant. name: a format. Return the name. No layer has a name with '/', so
// "LAYER/..." is free.
const char *ls_onnx_node(ls_onnx_graph *graph, ls_onnx_operator op, const char *input, const char *name, ...)
    LS_PRINTF(4, 5);
const char *ls_onnx_tensor(ls_onnx_graph *graph, ls_onnx_type type, int rank, const int *dims, const void *values,
    const char *name, ...) LS_PRINTF(6, 7);
const char *ls_onnx_number(ls_onnx_graph *graph, float value, const char *of, const char *part); // "OF/PART"
// Add to the newest node.
void ls_onnx_input(ls_onnx_graph *graph, const char *name);
void ls_onnx_int(ls_onnx_graph *graph, const char *attribute, int64_t value);
void ls_onnx_float(ls_onnx_graph *graph, const char *attribute, float value);
void ls_onnx_ints(ls_onnx_graph *graph, const char *attribute, int count, const int64_t *values);
void ls_onnx_window(ls_onnx_graph *graph, ls_pair kernel, ls_pair stride, ls_pair pad_before, ls_pair pad_after);
// Adds a node that reshapes the input. shape: 0 keeps the dimension; -1 is computed from the others. Returns its name.
const char *ls_onnx_reshape(
    ls_onnx_graph *graph, const char *input, int rank, const int64_t *shape, const char *name, ...) LS_PRINTF(5, 6);
const char *ls_onnx_slice(ls_onnx_graph *graph, int from, int channels, const char *input, const char *name);
// Add one or more nodes. Return the name of the last one, which is `name` if the function has this argument.
const char *ls_onnx_activation(
    ls_onnx_graph *graph, ls_activation kind, double parameter, const char *input, const char *name);
const char *ls_onnx_normalisation(ls_onnx_graph *graph, const ls_weights_info *info);
// A max pooling with a 1x1 window takes every stride-th row and column; padding adds zero channels.
const char *ls_onnx_shortcut(
    ls_onnx_graph *graph, int stride, int in_channels, int out_channels, const char *input, const char *name);
// The first and the second half of the channels take turns. out: shape of the result; rank: 2 for vectors, 4 for maps.
const char *ls_onnx_interleave(ls_onnx_graph *graph, ls_chw out, int rank, const char *input, const char *name);
// Writes the graph's file; call it once. output: the node that gives the logits. *operator_set: the lowest set from 11
// on that has all operators. LS_STORAGE: the file cannot be written. LS_USAGE: it would be larger than protobuf allows.
LS_CHECKED ls_status ls_onnx_graph_write(
    const ls_onnx_graph *graph, const char *path, const ls_weights_info *info, const char *output, int *operator_set);

#endif
