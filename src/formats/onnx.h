// onnx.h - writes a network with its weights as an ONNX file, for inference. The node that ends a layer has the layer's
// name; parameters have their names in the weights file (one with its layer's own name NAME is called NAME/factors).
//   input    "input", float32 (batch, C, H, W): pixels from 0 to 255, as they are in the picture; any batch size
//   output   logits, float32 (batch, classes), named after the last layer NAME, or NAME/flat if its output is a map;
//            softmax of them gives probabilities, or their sigmoid if pictures have several labels ("labels" in the
//            model's metadata)
// The graph contains the normalisation (nodes "input/shifted" and "input/normalised"), so that users cannot forget it.
// Batch norm is in inference form, and dropout does nothing. The model's metadata has the names of the classes
// ("classes", a JSON list), the data set and a description of the input.
//
// protobuf-c writes the file, with code made from third_party/onnx/onnx.proto. The program can be built without that
// library; an export to ONNX then fails with a message.
#ifndef LS_FORMATS_ONNX_H
#define LS_FORMATS_ONNX_H

#include "formats/weights_metadata.h"

// Writes the network and its weights to `path`. *operator_set: the operator set that the model names: the lowest that
// has the network's operators, at least 11, so that old readers can read it. LS_STORAGE: a weight is missing or
// not finite, or path cannot be written. LS_USAGE: the network has quantise layers; a layer has the name of another
// layer's parameter; the file would be larger than protobuf allows; or this program was built without protobuf-c.
LS_CHECKED ls_status ls_onnx_write(
    const char *path, const ls_weights_info *info, const ls_safetensors *weights, int *operator_set);

#endif
