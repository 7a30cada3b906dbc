// write_onnx.h - writes a quantised network as an ONNX file with QuantizeLinear and DequantizeLinear (QDQ) nodes.
//
// Each value has both nodes, with its scale and zero point (quantise.h). Between them operators compute in floats, or a
// reader joins them to operators of integers. Values are uint8, q + 128, because onnxruntime joins all operators of
// uint8 on x86, but leaves int8 values with two readers in floats. Weights are int8 constants with a scale for each
// output channel, biases int32 constants. A linear layer is a convolution whose kernel is its whole input, so all
// values but the logits are maps. Input, logits and metadata: formats/onnx.h; the logits are called "LAYER/logits".
//
// A reader's numbers differ from kernels_int8.h by rounding only. QuantizeLinear rounds once, from a float, halves to
// even. `rescale` rounds twice, the second time halves away from zero: so 0.1 to 1.4 % of a convolution's outputs are
// one step further from zero. An add of two inputs rounds three times; a table rounds in double.
#ifndef LS_DEPLOY_WRITE_ONNX_H
#define LS_DEPLOY_WRITE_ONNX_H

#include "deploy/network.h"

// Writes the network, which must be quantised. Otherwise as ls_onnx_write, except that names of parameters may be names
// of layers.
LS_CHECKED ls_status ls_write_onnx(const char *path, const ls_network *network, int *operator_set);

#endif
