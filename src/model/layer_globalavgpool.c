// layer_globalavgpool.c - mean of each channel's map: (C,H,W) to (C,1,1).
#include "model/layer.h"

const ls_layer_type ls_layer_type_globalavgpool = {
    .name = "globalavgpool",
    .what = "Mean of each channel's map",
    .shape = "(C, 1, 1)",
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = ls_global_pool_infer,
};
