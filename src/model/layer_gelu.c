// layer_gelu.c - x * Phi(x), where Phi is the normal distribution function: PyTorch's nn.GELU(), the exact form.
#include "model/layer.h"

const ls_layer_type ls_layer_type_gelu = {
    .name = "gelu",
    .what = "x Phi(x), where Phi is the normal distribution function: exact, as torch.nn.GELU()",
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};
