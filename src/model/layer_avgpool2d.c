// layer_avgpool2d.c - mean over a sliding window, where padding counts as zeros, as torch.nn.AvgPool2d; or over windows
// that make an output of a given size, as torch.nn.AdaptiveAvgPool2d.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.avgpool2d.field)
static const ls_layer_key keys[] = {
    { "kernel", LS_KEY_PAIR, AT(kernel), 0, 0, 1, LS_POOL_KERNEL_MAX, "rows and columns of the window" },
    { "stride", LS_KEY_PAIR, AT(stride), 0, 0, 1, 1024, "distance between windows; without it, the kernel" },
    { "padding", LS_KEY_PAIR, AT(padding), 0, 0, 0, LS_PADDING_MAX, "on each side, at most half of the kernel" },
    { "output", LS_KEY_PAIR, AT(output), 0, 0, 1, 1024, "instead of these keys: rows and columns of the output" },
};

// Sets the windows that make an output of a->output.
static ls_status infer_output(const ls_graph *graph, ls_layer *layer) {
    ls_layer_pool *a = &layer->attr.avgpool2d;
    const ls_chw in = layer->in;
    char output[LS_PAIR_BYTES];
    if (!a->from_output && (a->kernel.h || a->stride.h || a->padding.h || a->padding.w))
        return ls_layer_fail(graph, layer,
            "output = %s gives the windows, so kernel, stride and padding have no effect: remove them, or output",
            ls_pair_text(a->output, output));
    a->from_output = 1; // ls_graph_resize infers a layer again, whose kernel is set then
    a->kernel = (ls_pair){ (in.h + a->output.h - 1) / a->output.h, (in.w + a->output.w - 1) / a->output.w };
    a->stride = in.h % a->output.h || in.w % a->output.w ? (ls_pair){ 0, 0 } : a->kernel;
    layer->out = layer->physical = (ls_chw){ in.c, a->output.h, a->output.w };
    return ls_pool_check_window(graph, layer, a->kernel.h, a->kernel.w);
}

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const ls_layer_pool *a = &layer->attr.avgpool2d;
    if (a->output.h) return infer_output(graph, layer);
    if (!a->kernel.h) return ls_layer_fail(graph, layer, "it lacks the key 'kernel', or 'output'");
    return ls_pool_infer(graph, layer);
}

const ls_layer_type ls_layer_type_avgpool2d = {
    .name = "avgpool2d",
    .what = "Mean over a sliding window as torch.nn.AvgPool2d, padding counted as zeros; with `output` as "
            "torch.nn.AdaptiveAvgPool2d",
    .shape = "(C, H', W'), H' = floor((H + 2 padding - kernel) / stride) + 1, and W' alike",
    .example = "kernel = 3\nstride = 2\npadding = 1\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = infer,
};
