// layer_avgpool2d.c - mean over a sliding window, where padding counts as zeros, as torch.nn.AvgPool2d.
#include "model/layer.h"

const ls_layer_type ls_layer_type_avgpool2d = {
    .name = "avgpool2d",
    .what = "Mean over a sliding window as torch.nn.AvgPool2d, padding counted as zeros",
    .shape = "(C, H', W'), H' = floor((H + 2 padding - kernel) / stride) + 1, and W' alike",
    .example = "kernel = 3\nstride = 2\npadding = 1\n",
    .keys = ls_pool_keys,
    .key_count = sizeof ls_pool_keys / sizeof ls_pool_keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = ls_pool_infer,
};
