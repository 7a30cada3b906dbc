// layer_sigmoid.c - 1 / (1 + exp(-x)), as torch.nn.Sigmoid().
#include "model/layer.h"

const ls_layer_type ls_layer_type_sigmoid = {
    .name = "sigmoid",
    .what = "1 / (1 + exp(-x)), as torch.nn.Sigmoid()",
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};
