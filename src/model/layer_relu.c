// layer_relu.c - max(x, 0).
#include "model/layer.h"

const ls_layer_type ls_layer_type_relu = {
    .name = "relu",
    .what = "max(x, 0)",
    .input_count = 1,
    .domain = LS_TAKES_ANY,
};
