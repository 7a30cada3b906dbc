// layer_conv2d.c - convolution as torch.nn.Conv2d, with the same dilation in both directions.
#include "model/layer.h"
#include "model/whiten.h"

#define AT(field) offsetof(ls_layer, attr.conv2d.field)
static const ls_layer_key keys[] = {
    { "out_channels", LS_KEY_OUTPUTS, AT(out_channels), 1, 0, 1, LS_SIZE_MAX, "channels of the output" },
    { "kernel", LS_KEY_PAIR, AT(kernel), 1, 0, 1, 1024, "rows and columns of the kernel" },
    { "stride", LS_KEY_PAIR, AT(stride), 0, 1, 1, 1024, "distance between positions of the kernel" },
    { "padding", LS_KEY_PADDING, AT(padding), 0, 0, 0, LS_PADDING_MAX,
        "zeros on each side; `same`: as many as keep the size of the map" },
    { "dilation", LS_KEY_INT, AT(dilation), 0, 1, 1, 1024, "distance between elements of the kernel" },
    { "groups", LS_KEY_INT, AT(groups), 0, 1, 1, LS_SIZE_MAX,
        "groups of channels, convolved separately; divides the channels of input and output" },
    { "bias", LS_KEY_BOOL, AT(bias), 0, 1, 0, 1, "a number added to each channel of the output" },
    { "matrix", LS_KEY_BOOL, AT(matrix), 0, 0, 0, 1,
        "weight files have the weight of a 1x1 kernel as a matrix, as torch.nn.Linear over channels" },
    { "weight_init", LS_KEY_INITIAL, AT(weight_init), 0, LS_INIT_DEFAULT, LS_INIT_DEFAULT, LS_INIT_WHITEN,
        "initial values of the weight" },
    { "bias_init", LS_KEY_INITIAL, AT(bias_init), 0, LS_INIT_DEFAULT, LS_INIT_DEFAULT, LS_INIT_DEFAULT,
        "initial values of the bias" },
    { "whiten_samples", LS_KEY_INT, AT(whiten_samples), 0, 0, 1, INT32_MAX,
        "`weight_init = whiten` reads this many of the first training pictures (5000 without the key)" },
    { "whiten_eps", LS_KEY_REAL, AT(whiten_eps), 0, 0, 1e-9, 1e3,
        "`weight_init = whiten` adds this to each eigenvalue (0.0005 without the key)" },
};

enum { WHITEN_SAMPLES = 5000 };
static const double whiten_eps = 5e-4;

// Refuses impossible uses of weight_init = whiten, and sets the numbers of whitening that the file leaves out.
static ls_status check_whitening(const ls_graph *graph, ls_layer *layer) {
    ls_layer_conv2d *a = &layer->attr.conv2d;
    if (a->weight_init.kind != LS_INIT_WHITEN) {
        if (a->whiten_samples == 0 && a->whiten_eps == 0) return LS_SUCCESS;
        return ls_layer_fail(graph, layer, "%s has no effect without weight_init = whiten",
            a->whiten_samples ? "whiten_samples" : "whiten_eps");
    }
    const int patch = layer->in.c * a->kernel.h * a->kernel.w;
    if (layer->inputs[0] >= 0)
        return ls_layer_fail(graph, layer,
            "weight_init = whiten is for patches of the network's input, but its input is layer '%s': choose another "
            "weight_init",
            graph->layers[layer->inputs[0]].name);
    if (a->groups != 1 || a->dilation != 1)
        return ls_layer_fail(graph, layer, "weight_init = whiten needs groups = 1 and dilation = 1");
    if (patch > LS_WHITEN_PATCH_MAX)
        return ls_layer_fail(graph, layer,
            "weight_init = whiten: a patch of the input's %d channels has %d values, and at most %d are possible: "
            "choose a smaller kernel",
            layer->in.c, patch, LS_WHITEN_PATCH_MAX);
    if (a->out_channels > 2 * patch)
        return ls_layer_fail(graph, layer,
            "weight_init = whiten makes %d filters of patches of %d values (an eigenvector each, and its negative): "
            "out_channels = %d is more",
            2 * patch, patch, a->out_channels);
    if (a->whiten_samples == 0) a->whiten_samples = WHITEN_SAMPLES;
    if (a->whiten_eps == 0) a->whiten_eps = whiten_eps;
    return LS_SUCCESS;
}

// Sets the numbers that padding = same stands for.
static ls_status pad_same(const ls_graph *graph, ls_layer *layer) {
    ls_layer_conv2d *a = &layer->attr.conv2d;
    const int rows = a->dilation * (a->kernel.h - 1), columns = a->dilation * (a->kernel.w - 1);
    char kernel[LS_PAIR_BYTES];
    if (a->stride.h != 1 || a->stride.w != 1)
        return ls_layer_fail(graph, layer, "padding = same needs stride = 1: write the padding as a number");
    if (rows % 2 || columns % 2)
        return ls_layer_fail(graph, layer,
            "padding = same: kernel = %s with dilation = %d would need more zeros on one side than on the other, which "
            "is not possible: choose an odd kernel",
            ls_pair_text(a->kernel, kernel), a->dilation);
    a->padding = (ls_pair){ rows / 2, columns / 2 };
    return LS_SUCCESS;
}

static ls_status infer(const ls_graph *graph, ls_layer *layer) {
    const ls_layer_conv2d *a = &layer->attr.conv2d;
    if (a->padding.h == LS_PADDING_SAME) LS_TRY(pad_same(graph, layer));
    if (layer->in.c % a->groups != 0 || a->out_channels % a->groups != 0) {
        return ls_layer_fail(graph, layer,
            "groups = %d must divide both the %d channels of its input (%dx%dx%d) and out_channels = %d", a->groups,
            layer->in.c, layer->in.c, layer->in.h, layer->in.w, a->out_channels);
    }
    if (a->matrix && (a->kernel.h != 1 || a->kernel.w != 1 || a->groups != 1))
        return ls_layer_fail(graph, layer, "matrix = true needs kernel = 1 and groups = 1");
    LS_TRY(ls_layer_check_bias(graph, layer, a->bias, a->bias_init));
    LS_TRY(check_whitening(graph, layer));
    const ls_sliding_window window = { a->kernel, a->stride, a->padding, a->dilation, 0 };
    LS_TRY(ls_layer_slide(graph, layer, window, &layer->out));
    layer->out.c = a->out_channels;
    layer->physical = layer->out;
    return LS_SUCCESS;
}

static void add_params(ls_graph *graph, int index) {
    const ls_layer *layer = &graph->layers[index];
    const ls_layer_conv2d *a = &layer->attr.conv2d;
    const int depth = layer->in.c / a->groups;
    const double fan_in = (double)depth * a->kernel.h * a->kernel.w;
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "weight",
            .role = LS_ROLE_WEIGHT,
            .shape = { LS_PARAM_CONV, { a->out_channels, depth, a->kernel.h, a->kernel.w }, a->groups },
            .rank = a->matrix ? 2 : 0,
            .fan_in = fan_in,
            .init = a->weight_init });
    if (!a->bias) return;
    ls_graph_add_param(graph, index,
        (ls_param_spec){ .name = "bias",
            .role = LS_ROLE_BIAS,
            .shape = { LS_PARAM_VECTOR, { a->out_channels, 1, 1, 1 }, 1 },
            .fan_in = fan_in,
            .init = a->bias_init });
}

static double multiply_adds(const ls_layer *layer) {
    const ls_layer_conv2d *a = &layer->attr.conv2d;
    return (double)ls_chw_count(layer->out) * (layer->in.c / a->groups) * a->kernel.h * a->kernel.w;
}

const ls_layer_type ls_layer_type_conv2d = {
    .name = "conv2d",
    .what = "Convolution as torch.nn.Conv2d, with the same dilation both ways",
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
