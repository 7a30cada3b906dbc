// onnx.h - a network with its weights as an ONNX file, for inference: one node a layer, named like it, parameters named
// as in the weights file.
//   input    "input", float32 (batch, C, H, W): pixels from 0 to 255, as they are in the picture; any batch size
//   output   logits, float32 (batch, classes), named after the last layer; softmax of them gives probabilities
// Normalisation is part of the graph (two nodes, "input/shifted" and "input/normalised"), so that it cannot be forgotten.
// Batch norm is in inference form, dropout does nothing. The model's metadata has the classes' names ("classes", a JSON
// list), the data set and what the input is.
//
// Written by protobuf-c from third_party/onnx/onnx.proto; without that library the build works, and export ends with a message.
#ifndef LS_FORMATS_ONNX_H
#define LS_FORMATS_ONNX_H

#include "formats/weights_metadata.h"

// *operator_set: the lowest one that has the network's operators, 11 at least; the model names this one and the file
// format that came with it, so that old readers take what they can.
// LS_STORAGE: a weight is missing, or path cannot be written; LS_USAGE: a layer has no counterpart, or a name that an
// ONNX file cannot have beside the others; or this program was built without protobuf-c.
LS_CHECKED ls_status ls_onnx_write(
    const char *path, const ls_weights_info *info, const ls_safetensors *weights, int *operator_set);

#endif
