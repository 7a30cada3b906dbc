#include "model/layers_help.h"

#include <string.h>
#include "base/paragraph.h"
#include "base/text.h"
#include "config/aliases.h"
#include "model/layer.h"

enum { INDENT = 2, KEY_COLUMNS = 16, KIND_COLUMNS = 16 };

static const char about[] =
    "A network file begins with [network] and the shape of a sample: input = data takes the data set's shape, input = "
    "3x32x32 (channels, height, width) allows that shape only. Each further section is a layer, in order, with the "
    "section's name. Its key `layer` is the kind. `inputs` names earlier layers, or `input`; without it, the input is "
    "the section before. The other keys belong to the kind. The word `classes` stands for the data set's number of "
    "classes. Blocks of sections: docs/layers.md.\n";

const char *ls_layer_key_values(const ls_layer_key *key, const char *quote, char *dst, size_t bytes) {
    static const char *const words[] = {
        [LS_KEY_INT] = "whole",
        [LS_KEY_PAIR] = "whole",
        [LS_KEY_PADDING] = "whole",
        [LS_KEY_OUTPUTS] = "whole",
        [LS_KEY_REAL] = "number",
        [LS_KEY_BOOL] = "true, false",
        [LS_KEY_INITIAL] = "",
    };
    ls_text_room room = { dst, bytes };
    ls_text_put(&room, "%s", words[key->type]);
    for (int i = (int)key->minimum; key->type == LS_KEY_INITIAL && i <= (int)key->maximum; i++)
        ls_text_put(&room, "%s%s%s, ", quote, ls_init_word((ls_init_kind)i), quote);
    if (key->type == LS_KEY_INITIAL)
        ls_text_put(&room, "a number");
    else if (key->type != LS_KEY_BOOL)
        ls_text_put(&room, ", %.10g to %.10g", key->minimum, key->maximum);
    if (key->type == LS_KEY_PAIR || key->type == LS_KEY_PADDING) ls_text_put(&room, ", or rows x columns");
    if (key->type == LS_KEY_PADDING) ls_text_put(&room, ", or %ssame%s", quote, quote);
    if (key->type == LS_KEY_OUTPUTS) ls_text_put(&room, ", or %sclasses%s", quote, quote);
    return dst;
}

const char *ls_layer_key_default(const ls_layer_key *key, const char *quote, char *dst, size_t bytes) {
    if (key->required)
        snprintf(dst, bytes, "needed");
    else if (key->type == LS_KEY_INITIAL)
        snprintf(dst, bytes, "%s%s%s", quote, ls_init_word((ls_init_kind)key->preset), quote);
    else if (key->type == LS_KEY_BOOL)
        snprintf(dst, bytes, "%s", key->preset != 0 ? "true" : "false");
    else if (key->preset < key->minimum || key->preset > key->maximum)
        dst[0] = '\0';
    else
        snprintf(dst, bytes, "%g", key->preset);
    return dst;
}

const char *ls_layer_inputs(const ls_layer_type *type, char *dst, size_t bytes) {
    static const char *const takes[] = {
        [LS_TAKES_MAP] = "a map", [LS_TAKES_VECTOR] = "a vector", [LS_TAKES_ANY] = "a map or a vector"
    };
    snprintf(dst, bytes, "Input%s %s. Output: %s.",
        type->inputs_max         ? "s: two or more, each"
        : type->input_count == 2 ? "s: two, each"
                                 : ":",
        takes[type->domain], type->infer ? type->shape : "of the same shape");
    return dst;
}

static void print_keys(FILE *file, const ls_layer_type *type) {
    if (type->key_count) fputs("\nKeys\n", file);
    for (int k = 0; k < type->key_count; k++) {
        const ls_layer_key *key = &type->keys[k];
        char text[512], values[256], preset[32];
        ls_text_room room = { text, sizeof text };
        ls_layer_key_default(key, "", preset, sizeof preset);
        ls_text_put(&room, "%s: %s", key->what, ls_layer_key_values(key, "", values, sizeof values));
        if (preset[0]) ls_text_put(&room, " (%s%s)", key->required ? "" : "default ", preset);
        ls_paragraph_row(file, key->name, text, INDENT, KEY_COLUMNS);
    }
}

static void print_kind(FILE *file, const ls_layer_type *type) {
    char text[512];
    fprintf(file, "%s\n\n", type->name);
    snprintf(text, sizeof text, "%s.", type->what);
    ls_paragraph(file, text, 0, 0);
    ls_paragraph(file, ls_layer_inputs(type, text, sizeof text), 0, 0);
    print_keys(file, type);
    fprintf(file, "\nExample\n  [name]\n  layer = %s\n", type->name);
    for (const char *line = type->example ? type->example : ""; *line; line += strcspn(line, "\n") + 1)
        fprintf(file, "  %.*s\n", (int)strcspn(line, "\n"), line);
}

ls_status ls_layers_help(FILE *file, const char *kind) {
    const char *names[LS_LAYER_COUNT];
    if (!kind) ls_paragraph(file, about, 0, 0);
    for (int i = 0; i < LS_LAYER_COUNT; i++) {
        const ls_layer_type *type = ls_layer_type_of((ls_layer_kind)i);
        names[i] = type->name;
        if (!kind) ls_paragraph_row(file, type->name, type->what, INDENT, KIND_COLUMNS);
        if (!kind || strcmp(type->name, kind) != 0) continue;
        print_kind(file, type);
        return LS_SUCCESS;
    }
    if (!kind) return LS_SUCCESS;
    char hint[LS_HINT_BYTES];
    ls_hint(LS_ALIAS_LAYER, "", kind, names, LS_LAYER_COUNT, "''", hint);
    return ls_fail(LS_USAGE, "no kind of layer '%s'%s", kind, hint[0] ? hint : "; 'train help layers' lists all");
}
