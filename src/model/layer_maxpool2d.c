// layer_maxpool2d.c - maximum over a sliding window, as torch.nn.MaxPool2d; and code that the pooling layers share.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.maxpool2d.field)
static const ls_layer_key keys[] = {
    { "kernel", LS_KEY_PAIR, AT(kernel), 1, 0, 1, LS_POOL_KERNEL_MAX, "rows and columns of the window" },
    { "stride", LS_KEY_PAIR, AT(stride), 0, 0, 1, 1024, "distance between windows; without it, the kernel" },
    { "padding", LS_KEY_PAIR, AT(padding), 0, 0, 0, LS_PADDING_MAX, "on each side, at most half of the kernel" },
    { "ceil_mode", LS_KEY_BOOL, AT(ceil_mode), 0, 0, 0, 1, "round H' and W' up: the last window may reach beyond" },
};

ls_status ls_pool_infer(const ls_graph *graph, ls_layer *layer) {
    ls_layer_pool *a = &layer->attr.maxpool2d; // the attributes of avgpool2d have the same address
    if (a->stride.h == 0) a->stride = a->kernel;
    if (2 * a->padding.h > a->kernel.h || 2 * a->padding.w > a->kernel.w) { // a window could lie outside the map
        const ls_pair most = { a->kernel.h / 2, a->kernel.w / 2 };
        char padding[LS_PAIR_BYTES], kernel[LS_PAIR_BYTES], half[LS_PAIR_BYTES];
        return ls_layer_fail(graph, layer, "padding = %s is more than half of kernel = %s: at most %s is possible",
            ls_pair_text(a->padding, padding), ls_pair_text(a->kernel, kernel), ls_pair_text(most, half));
    }
    const ls_sliding_window window = { a->kernel, a->stride, a->padding, 1, a->ceil_mode };
    LS_TRY(ls_layer_slide(graph, layer, window, &layer->out));
    layer->physical = layer->out;
    return LS_SUCCESS;
}

ls_status ls_pool_check_window(const ls_graph *graph, const ls_layer *layer, int rows, int columns) {
    if ((int64_t)rows * columns <= 65534) return LS_SUCCESS; // the devices' limit, LS_POOL_WINDOW_MAX
    return ls_layer_fail(
        graph, layer, "a window of %dx%d is larger than 65534 elements: reduce the map before", rows, columns);
}

ls_status ls_global_pool_infer(const ls_graph *graph, ls_layer *layer) {
    const ls_chw in = layer->in;
    LS_TRY(ls_pool_check_window(graph, layer, in.h, in.w));
    layer->out = (ls_chw){ in.c, 1, 1 };
    layer->physical = layer->out;
    return LS_SUCCESS;
}

const ls_layer_type ls_layer_type_maxpool2d = {
    .name = "maxpool2d",
    .what = "Maximum over a sliding window as torch.nn.MaxPool2d",
    .shape = "(C, H', W'), H' = floor((H + 2 padding - kernel) / stride) + 1, and W' alike",
    .example = "kernel = 2\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = ls_pool_infer,
};
