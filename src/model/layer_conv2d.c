// layer_conv2d.c - convolution as torch.nn.Conv2d: square kernel, the same stride, padding and dilation both ways.
#include "model/layer.h"

#define AT(field) offsetof(ls_layer, attr.conv2d.field)
static const ls_layer_key keys[] = {
    { "out_channels", LS_KEY_OUTPUTS, AT(out_channels), 1, 0, 1, LS_SIZE_MAX, "channels of the output" },
    { "kernel", LS_KEY_INT, AT(kernel), 1, 0, 1, 1024, "rows and columns of the kernel" },
    { "stride", LS_KEY_INT, AT(stride), 0, 1, 1, 1024, "distance between positions of the kernel" },
    { "padding", LS_KEY_INT, AT(padding), 0, 0, 0, LS_PADDING_MAX, "zeros on each side" },
    { "dilation", LS_KEY_INT, AT(dilation), 0, 1, 1, 1024, "distance between elements of the kernel" },
    { "groups", LS_KEY_INT, AT(groups), 0, 1, 1, LS_SIZE_MAX,
        "of channels, each convolved by itself; divides those of input and output" },
    { "bias", LS_KEY_BOOL, AT(bias), 0, 1, 0, 1, "a number added to each channel of the output" },
};

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const ls_layer_conv2d *a = &layer->attr.conv2d;
    if (layer->in.c % a->groups != 0 || a->out_channels % a->groups != 0) {
        return ls_layer_fail(graph, layer,
            "groups = %d must divide both the %d channels of its input (%dx%dx%d) and out_channels = %d", a->groups,
            layer->in.c, layer->in.c, layer->in.h, layer->in.w, a->out_channels);
    }
    const ls_sliding_window window = { a->kernel, a->stride, a->padding, a->dilation };
    LS_TRY(ls_layer_slide(graph, layer, window, &layer->out));
    layer->out.c = a->out_channels;
    layer->physical = layer->out;
    return LS_SUCCESS;
}

static void add_params(ls_graph *graph, int index) {
    const ls_layer *layer = &graph->layers[index];
    const ls_layer_conv2d *a = &layer->attr.conv2d;
    const int depth = layer->in.c / a->groups;
    const double fan_in = (double)depth * a->kernel * a->kernel;
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "weight",
            .role = LS_ROLE_WEIGHT,
            .shape = { LS_PARAM_CONV, { a->out_channels, depth, a->kernel, a->kernel }, a->groups },
            .fan_in = fan_in });
    if (!a->bias) return;
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "bias",
            .role = LS_ROLE_BIAS,
            .shape = { LS_PARAM_VECTOR, { a->out_channels, 1, 1, 1 }, 1 },
            .fan_in = fan_in });
}

static double multiply_adds(const ls_layer *layer) {
    const ls_layer_conv2d *a = &layer->attr.conv2d;
    return (double)ls_chw_count(layer->out) * (layer->in.c / a->groups) * a->kernel * a->kernel;
}

const ls_layer_type ls_layer_type_conv2d = {
    .name = "conv2d",
    .what = "Convolution as torch.nn.Conv2d, with a square kernel and the same stride, padding and dilation both ways",
    .shape =
        "(out_channels, H', W'), H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, and W' alike",
    .example = "out_channels = 32\nkernel = 3\nstride = 2\npadding = 1\n",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .input_count = 1,
    .domain = LS_TAKES_MAP,
    .infer = infer,
    .add_params = add_params,
    .multiply_adds = multiply_adds,
};
