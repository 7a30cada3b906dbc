// Compares docs/layers.md with the tables of layers. To renew the page after a change of layers.def or a layer's keys:
// LOCKSTEP_UPDATE=1 build/.../test_model_layers_page, in the root.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "model/layer.h"
#include "support/cmocka.h"
#include "support/must.h"

static const char page[] = "docs/layers.md";

static const char head[] =
    "# Layers\n"
    "\n"
    "For people who write network files: every kind of layer with its keys.\n"
    "\n"
    "<!-- Generated from src/model/layers.def and src/model/layer_*.c; tests/model/test_layers_page.c checks and "
    "renews it. -->\n"
    "\n"
    "A network file ([configs/models](../configs/models)) begins with `[network]` and the shape of a sample. `input = "
    "data` takes the data\n"
    "set's shape; `input = 3x32x32` (channels, height, width) allows that shape only. Each further section is a layer, "
    "in order. Its name has\n"
    "letters, digits, `.`, `_` and `-`. The word `classes` stands for the data set's number of classes, so one network "
    "trains on any data. A\n"
    "run's folder and its weights have the network with numbers in place of both words.\n"
    "\n"
    "- `layer` is the kind, one of those below.\n"
    "- `inputs` names earlier layers, or `input`. Without it, a layer's input is the section before.\n"
    "- The other keys belong to the kind.\n"
    "\n"
    "Shapes are (C, H, W): channels, rows and columns of one sample. A *vector* of K is (K, 1, 1), as `flatten`, "
    "`linear` and the global\n"
    "poolings give it. After `flatten` and `linear` there are only vectors; the other shapes are *maps*. The last "
    "layer "
    "gives a vector with an\n"
    "element per class. Every layer must lead to it.\n"
    "\n"
    "In each example `conv2` (16x32x32) comes before the layer, and `relu1` of the same shape before that.\n"
    "\n"
    "Initial values follow from `run.seed`, with the same bits on every machine, rank and device. `weight_init` and "
    "`bias_init` are a\n"
    "number, or:\n"
    "\n"
#define X(NAME, word, what) "- `" word "`: " what ".\n"
#include "model/initialisations.def"
#undef X
    "\n"
    "## Blocks\n"
    "\n"
    "Sections that occur several times are written once, as a block with parameters:\n"
    "\n"
    "```ini\n"
    "[block unit]          ; its parameters; a use must give those without a value\n"
    "channels =\n"
    "stride = 1\n"
    "project = false\n"
    "\n"
    "[unit/conv]           ; its sections follow\n"
    "layer = conv2d\n"
    "out_channels = $channels\n"
    "kernel = 3\n"
    "stride = $stride\n"
    "padding = 1\n"
    "\n"
    "[unit/short]\n"
    "if = $project         ; if it is false, `short` stands for its input\n"
    "layer = conv2d\n"
    "inputs = input        ; the block's input\n"
    "out_channels = $channels\n"
    "kernel = 1\n"
    "stride = $stride\n"
    "\n"
    "[unit/add]\n"
    "layer = add\n"
    "inputs = conv, short\n"
    "\n"
    "[stage2]              ; stage2.0.conv, stage2.0.short, stage2.0.add, stage2.1.conv, ...\n"
    "block = unit\n"
    "repeat = 3\n"
    "channels = 128\n"
    "stride = 2, 1         ; 2 the first time, then 1\n"
    "project = true, false\n"
    "```\n"
    "\n"
    "- `inputs` in a block has names of its sections, or `input`. A use takes the section before it, or its own "
    "`inputs`.\n"
    "- Other layers name `stage2` (its last output), `stage2.0` or `stage2.0.conv`.\n"
    "- `repeat = 1..6` counts from 1 to 6. In `[features.layer*]` the number takes the place of the `*`. Without "
    "`repeat` there is none.\n"
    "- `$channels` may also stand in `layer`, in `inputs` and in the name of a section.\n"
    "- A block may use blocks that are defined before it, up to 8 deep. A network has at most 4095 sections.\n"
    "\n"
    "`--dry-run` prints all layers. A run's folder and its weights have the network without blocks. Messages name the "
    "line in the\n"
    "block and the line of its use.\n"
    "\n"
    "## Known networks\n"
    "\n"
    "`models/NAME.ini` is torchvision's network of that name: resnet18, resnet34, resnet50, wide_resnet50_2, "
    "densenet121,\n"
    "convnext_tiny, efficientnet_b0, mobilenet_v2, mobilenet_v3_small, mobilenet_v3_large, shufflenet_v2_x1_0, "
    "squeezenet1_1,\n"
    "vgg11_bn.\n"
    "wrn-16-4 and wrn-28-10 are those of github.com/xternalz/WideResNet-pytorch, for CIFAR. Tensors have the names of "
    "their\n"
    "`state_dict`, so [weights saved there](your-pictures.md#5-starting-from-weights) are taken without rules. Those "
    "for "
    "ImageNet\n"
    "want `data.mean = 0.485, 0.456, 0.406` and `data.std = 0.229, 0.224, 0.225`.\n";

// The example's place in a network; %s: a flatten where the layer takes a vector; the kind; its lines.
static const char network[] =
    "[network]\ninput = 3x32x32\n"
    "[conv1]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n[relu1]\nlayer = relu\n"
    "[conv2]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\n"
    "%s[example]\nlayer = %s\n%s"
    "[flat]\nlayer = flatten\n[fc]\nlayer = linear\nout_features = 10\n";

static void print_keys(const ls_layer_type *type, FILE *file) {
    if (!type->key_count) return;
    fputs("\n| key | value | default | |\n| --- | --- | --- | --- |\n", file);
    for (int k = 0; k < type->key_count; k++) {
        const ls_layer_key *key = &type->keys[k];
        char values[256], preset[32];
        if (!key->what) fail_msg("%s: key '%s' is not explained", type->name, key->name);
        ls_layer_key_values(key, "`", values, sizeof values);
        ls_layer_key_default(key, "`", preset, sizeof preset);
        fprintf(file, "| `%s` | %s |%s%s | %s |\n", key->name, values, preset[0] ? " " : "", preset, key->what);
    }
}

static void print_shape(ls_chw shape, int flat, FILE *file) {
    if (flat)
        fprintf(file, "%d", shape.c);
    else
        fprintf(file, "%dx%dx%d", shape.c, shape.h, shape.w);
}

// The example as lines of a network file, and what the program makes of them.
static void print_example(const ls_layer_type *type, FILE *file) {
    const char *lines = type->example ? type->example : "";
    char text[2 * sizeof network];
    snprintf(text, sizeof text, network, type->domain == LS_TAKES_VECTOR ? "[flat2]\nlayer = flatten\n" : "",
        type->name, lines);
    ls_graph *graph = NULL;
    must(ls_graph_parse(type->name, text, &graph));
    int index = 0;
    while (strcmp(graph->layers[index].name, "example") != 0) index++;
    const ls_layer *layer = &graph->layers[index];
    fprintf(file, "\n```ini\n[example]\nlayer = %s\n%s```\n\n", type->name, lines);
    print_shape(layer->in, type->domain == LS_TAKES_VECTOR, file);
    fputs(" becomes ", file);
    print_shape(layer->out, layer->flat, file);
    for (int i = 0; i < layer->param_count; i++) {
        const ls_param *param = &graph->params[layer->first_param + i];
        const char *dot = strchr(param->name, '.');
        fprintf(file, "%s `%s` ", i ? "," : "; parameters", dot ? dot + 1 : param->name);
        for (int d = 0; d < param->rank; d++) fprintf(file, "%s%d", d ? "x" : "", param->file_dim[d]);
    }
    fputs(".\n", file);
    ls_graph_free(graph);
}

static void print_kind(const ls_layer_type *type, FILE *file) {
    char inputs[512];
    if (!type->what || (type->infer && !type->shape)) fail_msg("%s: is not explained", type->name);
    fprintf(file, "\n## %s\n\n%s.\n\n%s\n", type->name, type->what, ls_layer_inputs(type, inputs, sizeof inputs));
    print_keys(type, file);
    print_example(type, file);
}

static void page_is_current(void **state) {
    (void)state;
    char *text = NULL, *committed = NULL;
    size_t length = 0, bytes = 0;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    fputs(head, file);
    for (int kind = 0; kind < LS_LAYER_COUNT; kind++) print_kind(ls_layer_type_of((ls_layer_kind)kind), file);
    fclose(file);
    if (getenv("LOCKSTEP_UPDATE")) must(ls_write_file(page, text, length));
    must(ls_read_file(page, &committed, &bytes));
    if (strcmp(text, committed) != 0)
        fail_msg(
            "%s is not what the tables of layers say; LOCKSTEP_UPDATE=1 and this program in the root renew it", page);
    free(text);
    free(committed);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(page_is_current) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
