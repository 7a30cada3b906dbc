#include "deploy/write_c.h"

#include <ctype.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/memory.h"
#include "base/version.h"
#include "deploy/write_arrays.h"

// The kernels as text (cmake/embed.cmake).
extern const unsigned char ls_kernels_layer_h[], ls_kernels_float_h[], ls_kernels_int8_h[];
extern const size_t ls_kernels_layer_h_bytes, ls_kernels_float_h_bytes, ls_kernels_int8_h_bytes;

enum { LINE = 100 }; // columns of the list of classes

typedef struct {
    FILE *file;
    const ls_network *network;
    const char *name;
    int index;           // number of the step that is written
    const ls_step *step; // the step
} writer;

// --- kernels ---------------------------------------------------------------------------------------

// Copies a part of a kernel file: the lines after "//: name" up to the next such line.
static void put_part(FILE *file, const unsigned char *kernels, size_t bytes, const char *name) {
    const char *at = (const char *)kernels, *end = at + bytes;
    const size_t length = strlen(name);
    int inside = 0;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        const char *next = line ? line + 1 : end, *text = at;
        while (text < next && *text == ' ') text++;
        if (next - text > 4 && memcmp(text, "//: ", 4) == 0)
            inside = (size_t)(next - text) == length + 5 && memcmp(text + 4, name, length) == 0;
        else if (inside)
            fwrite(at, 1, (size_t)(next - at), file);
        at = next;
    }
}

static int uses(const ls_network *n, ls_step_kind kind) {
    for (int i = 0; i < n->step_count; i++)
        if (n->steps[i].kind == kind) return 1;
    return 0;
}

static int uses_activation(const ls_network *n, int activation) {
    for (int i = 0; i < n->step_count; i++)
        if (n->steps[i].floats.activation == activation) return 1;
    return 0;
}

static int has_window(const ls_step *s) {
    return s->kind == LS_STEP_CONV || s->kind == LS_STEP_DEPTHWISE || s->kind == LS_STEP_MAX_POOL ||
           s->kind == LS_STEP_MEAN_POOL || s->kind == LS_STEP_SHORTCUT;
}

static const char *const step_names[LS_STEP_COUNT] = {
#define X(NAME, name) #name,
    LS_STEPS(X)
#undef X
};
static const char *const activations[LS_ACTIVATION_COUNT] = {
    "none",
    "relu",
#define ACTIVATION(NAME, name, zero, text) #name,
#include "config/activations.def"
};

static int needs_math(const ls_network *n) {
    int needs = uses(n, LS_STEP_GROUP_NORM);
    for (int i = 0; i < n->step_count && !n->integer; i++)
        needs = needs || n->steps[i].floats.activation > LS_ACTIVATION_RELU;
    return needs;
}

static void put_layer_part(const writer *w, const char *name) {
    put_part(w->file, ls_kernels_layer_h, ls_kernels_layer_h_bytes, name);
}

static void put_kernel(const writer *w, const char *name) {
    if (w->network->integer)
        put_part(w->file, ls_kernels_int8_h, ls_kernels_int8_h_bytes, name);
    else
        put_part(w->file, ls_kernels_float_h, ls_kernels_float_h_bytes, name);
}

// A part that the network does not need is left out, so that no compiler warns about an unused function.
static void put_kernels(const writer *w) {
    const ls_network *n = w->network;
    int windows = 0, activates = 0, rescales = 0;
    for (int i = 0; i < n->step_count; i++) {
        windows = windows || has_window(&n->steps[i]);
        activates = activates || (i > 0 && i < n->step_count - 1 && n->steps[i].kind != LS_STEP_JOIN);
        rescales = rescales || n->steps[i].number_count > 0;
    }
    put_layer_part(w, "window");
    if (windows) put_layer_part(w, "position");
    put_layer_part(w, n->integer ? "int8_layer" : "float_layer");
    if (rescales) put_kernel(w, "rescale");
    if (!n->integer && activates) {
        put_kernel(w, "activate");
        for (int a = LS_ACTIVATION_RELU; a < LS_ACTIVATION_COUNT; a++)
            if (uses_activation(n, a)) put_kernel(w, activations[a]);
        put_kernel(w, "activated");
    }
    for (int k = 0; k < LS_STEP_COUNT; k++)
        if (uses(n, (ls_step_kind)k)) put_kernel(w, step_names[k]);
}

// --- constants -------------------------------------------------------------------------------------

// Writes the name of a step's array, or 0 if the step has no such array.
static void put_name(const writer *w, const char *name, int64_t count) {
    if (count > 0)
        fprintf(w->file, "%s_%d, ", name, w->index);
    else
        fputs("0, ", w->file);
}

static void put_window(const writer *w) {
    const window *s = &w->step->floats.w;
    fprintf(w->file, "static const %s layer_%d = { { %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d },\n    ",
        w->network->integer ? "int8_layer" : "float_layer", w->index, s->in_h, s->in_w, s->in_c, s->out_h, s->out_w,
        s->out_c, s->kernel_h, s->kernel_w, s->stride_h, s->stride_w, s->pad_h, s->pad_w, s->dilation, s->groups);
}

static void put_float_constants(const writer *w) {
    const ls_step *s = w->step;
    if (s->weight_count > 0) ls_write_floats(w->file, "weight", w->index, s->weight, s->weight_count);
    if (s->bias_count > 0) ls_write_floats(w->file, "bias", w->index, s->bias, s->bias_count);
    put_window(w);
    put_name(w, "weight", s->weight_count);
    put_name(w, "bias", s->bias_count);
    ls_write_float(w->file, s->floats.factor);
    fputs(", ", w->file);
    ls_write_float(w->file, s->floats.parameter);
    fprintf(w->file, ", %d, %d };\n", s->floats.activation, s->floats.first);
}

static void put_int8_constants(const writer *w) {
    const ls_step *s = w->step;
    const int8_layer *l = &s->integers;
    if (s->table_count > 0) ls_write_bytes(w->file, "int8_t", "weight", w->index, l->weight, s->table_count);
    if (s->number_count > 0) {
        ls_write_ints(w->file, "bias", w->index, l->bias, s->number_count);
        ls_write_ints(w->file, "multiplier", w->index, l->multiplier, s->number_count);
        ls_write_ints(w->file, "shift", w->index, l->shift, s->number_count);
    }
    put_window(w);
    put_name(w, "weight", s->table_count);
    put_name(w, "bias", s->number_count);
    put_name(w, "multiplier", s->number_count);
    put_name(w, "shift", s->number_count);
    ls_write_float(w->file, l->scale);
    fprintf(w->file, ", %d, %d, %d, %d, %d };\n", l->a, l->b, l->out, l->low, l->first);
}

static void put_constants(writer *w) {
    for (w->index = 0; w->index < w->network->step_count; w->index++) {
        w->step = &w->network->steps[w->index];
        if (w->network->integer)
            put_int8_constants(w);
        else
            put_float_constants(w);
    }
}

// --- the function ----------------------------------------------------------------------------------

static void put_place(const writer *w, int value) {
    fprintf(w->file, "slab + %lld", (long long)w->network->values[value].offset);
}

static void put_call(const writer *w) {
    const ls_step *s = w->step;
    const int ends = s->kind == LS_STEP_LOGITS, begins = s->kind == LS_STEP_NORMALISE;
    fprintf(w->file, "    %s(&layer_%d, ", ends ? "write_logits" : step_names[s->kind], w->index);
    if (begins)
        fputs("pixels", w->file);
    else
        put_place(w, s->inputs[0]);
    fputs(", ", w->file);
    if (s->input_count > 1)
        put_place(w, s->inputs[1]);
    else if (!begins && !ends)
        fputc('0', w->file);
    if (!begins && !ends) fputs(", ", w->file);
    if (ends)
        fputs("logits", w->file);
    else
        put_place(w, s->output);
    fputs("); /* ", w->file);
    ls_write_plain(w->file, s->name);
    fputs(" */\n", w->file);
}

static void put_predict(writer *w) {
    const ls_network *n = w->network;
    fprintf(w->file,
        "\nstatic %s slab[%lld];\n\n"
        "int %s_predict(const uint8_t *pixels, float *logits);\n\n"
        "int %s_predict(const uint8_t *pixels, float *logits) {\n"
        "    int best = 0;\n",
        n->integer ? "int8_t" : "float", (long long)n->slab_elements, w->name, w->name);
    for (w->index = 0; w->index < n->step_count; w->index++) {
        w->step = &n->steps[w->index];
        put_call(w);
    }
    fprintf(w->file,
        "    for (int i = 1; i < %d; i++)\n"
        "        if (logits[i] > logits[best]) best = i;\n"
        "    return best;\n}\n",
        n->info->graph->classes);
}

// --- comment and test ------------------------------------------------------------------------------

static void put_classes(const writer *w) {
    const ls_weights_info *info = w->network->info;
    int column = LINE;
    for (int i = 0; i < info->graph->classes; i++) {
        const int length = (int)strlen(info->classes[i]) + 8;
        if (column + length > LINE) {
            fputs("\n *   ", w->file);
            column = 4;
        }
        column += length;
        fprintf(w->file, "%d ", i);
        ls_write_plain(w->file, info->classes[i]);
        fputs(i + 1 < info->graph->classes ? ", " : "\n", w->file);
    }
}

static void put_comment(const writer *w) {
    const ls_network *n = w->network;
    const ls_chw in = n->info->graph->input;
    fprintf(w->file, "/* %s_predict: a network for ", w->name);
    ls_write_plain(w->file, n->info->dataset[0] ? n->info->dataset : "pictures");
    fprintf(w->file,
        ", written by Lockstep %s\n *\n"
        " *   int %s_predict(const uint8_t *pixels, float *logits);\n *\n"
        " * pixels   %d x %d x %d bytes from 0 to 255: channels%s, rows, columns. The normalisation is inside.\n"
        " * logits   %d numbers, one for each class; their %s gives probabilities.\n"
        " * returns  the class with the largest logit. The buffers are static: one call at a time.\n *\n"
        " * multiplications  %lld\n"
        " * flash            %lld bytes of constants, and the code\n"
        " * RAM              %lld bytes of buffers, and a small stack. Layer '",
        ls_version(), w->name, in.c, in.h, in.w, in.c == 3 ? " (red, green, blue)" : "", n->info->graph->classes,
        n->info->several ? "sigmoid" : "softmax", (long long)ls_network_multiplications(n),
        (long long)ls_network_constant_bytes(n), (long long)ls_network_slab_bytes(n));
    ls_write_plain(w->file, n->steps[n->peak_step].name);
    fputs("' needs the most.\n *\n * Classes:", w->file);
    put_classes(w);
    fputs(" */\n", w->file);
}

static void put_test(const writer *w, const ls_write_c_test *test) {
    const ls_graph *g = w->network->info->graph;
    fputs("\n#include <stdio.h>\n", w->file);
    ls_write_bytes(w->file, "uint8_t", "test_pixels", -1, test->pixels, ls_chw_count(g->input));
    ls_write_floats(w->file, "test_logits", -1, test->logits, g->classes);
    fprintf(w->file,
        "\nint main(void) {\n"
        "    float logits[%d], largest = 0, limit;\n"
        "    %s_predict(test_pixels, logits);\n"
        "    for (int i = 0; i < %d; i++) {\n"
        "        const float size = test_logits[i] < 0 ? -test_logits[i] : test_logits[i];\n"
        "        if (size > largest) largest = size;\n"
        "    }\n"
        "    limit = %s * largest;\n"
        "    for (int i = 0; i < %d; i++) {\n"
        "        const float difference = logits[i] - test_logits[i];\n"
        "        if (difference <= limit && -difference <= limit) continue;\n"
        "        printf(\"logit %%d is %%.9g, expected is %%.9g\\n\", i, (double)logits[i], (double)test_logits[i]);\n"
        "        return 1;\n"
        "    }\n"
        "    printf(\"%d logits are as expected\\n\");\n"
        "    return 0;\n}\n",
        g->classes, w->name, g->classes, w->network->integer ? "0.0f" : "1e-5f", g->classes, g->classes);
}

// --- the whole -------------------------------------------------------------------------------------

ls_status ls_write_c(const char *path, const char *name, const ls_network *n, const ls_write_c_test *test) {
    char *text;
    size_t bytes;
    writer w = { .file = ls_text_stream(&text, &bytes), .network = n, .name = name };
    put_comment(&w);
    fputs("#include <stdint.h>\n", w.file);
    if (needs_math(n)) fputs("#include <math.h>\n", w.file);
    fputc('\n', w.file);
    put_kernels(&w);
    put_constants(&w);
    put_predict(&w);
    if (test->pixels) put_test(&w, test);
    ls_text_stream_close(w.file);
    ls_status status = ls_write_file(path, text, bytes);
    free(text);
    return status;
}

ls_status ls_write_c_name(const char *given, const char *path, char name[LS_WRITE_C_NAME_BYTES]) {
    const char *slash = strrchr(path, '/'), *from = given ? given : slash ? slash + 1 : path;
    const char *dot = given ? NULL : strrchr(from, '.');
    const size_t length = dot ? (size_t)(dot - from) : strlen(from);
    int good = length > 0 && length < LS_WRITE_C_NAME_BYTES && !isdigit((unsigned char)from[0]);
    for (size_t i = 0; i < length && good; i++)
        good = (from[i] >= 'a' && from[i] <= 'z') || (from[i] >= 'A' && from[i] <= 'Z') || from[i] == '_' ||
               (from[i] >= '0' && from[i] <= '9');
    if (!good)
        return ls_fail(LS_USAGE,
            "%s '%.*s' is no C identifier, which the name of the function NAME_predict begins with: %sletters, digits "
            "and _, at most %d, not a digit first",
            given ? "--name" : "the file's name", (int)length, from,
            given ? "" : "give one by --name NAME: ", LS_WRITE_C_NAME_BYTES - 1);
    snprintf(name, LS_WRITE_C_NAME_BYTES, "%.*s", (int)length, from);
    return LS_SUCCESS;
}
