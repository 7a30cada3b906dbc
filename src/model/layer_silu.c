// layer_silu.c - x * sigmoid(x): PyTorch's nn.SiLU(), also called swish.
#include "model/layer.h"

const ls_layer_type ls_layer_type_silu = {
    .name = "silu",
    .what = "x / (1 + exp(-x)), as torch.nn.SiLU(), also called swish",
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};
