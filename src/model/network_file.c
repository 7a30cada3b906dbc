// network_file.c - reads a network file: turns sections into layers, keys into attributes, and names into indices.
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "config/file_type.h"
#include "base/text.h"
#include "config/aliases.h"
#include "config/ini.h"
#include "model/layer.h"
#include "model/network_blocks.h"

// LAYER_NAME_MAX leaves room for the longest parameter suffix, ".running_mean".
enum { LAYER_NAME_MAX = LS_NAME_BYTES - 16, KEYS_MAX = 32, INIT_CONSTANT_MAX = 1000000 };

// Sizes of the numbers that replace words. Only the shape can make a network's text longer: a number of classes is
// never longer than the word `classes`.
enum { SHAPE_BYTES = 40, CLASSES_BYTES = 12 };
static const char classes_word[] = "classes";

typedef struct {
    ls_ini *ini;
    const int *uses; // by section: see network_blocks.h
    ls_graph *graph;
    const char **names; // "input", then the layers' names in order
    const ls_graph_data *data;
    int followed; // 1: `shape` and `classes` are filled in from the data set
    char shape[SHAPE_BYTES], classes[CLASSES_BYTES];
    ptrdiff_t grown; // how much longer graph->text is than the file's text, up to the last replaced word
} reader;

// Writes "; did you mean 'x'?" to dst for a name that the network file itself defines, or "".
static const char *suggest(char *dst, size_t bytes, const char *word, const char *const *candidates, int count) {
    const char *nearest = ls_text_nearest(word, candidates, count);
    dst[0] = 0;
    if (nearest) snprintf(dst, bytes, "; did you mean '%s'?", nearest);
    return dst;
}

// Parses "CxHxW", each from 1 to LS_SIZE_MAX, without other text.
static int parse_shape(const char *text, ls_chw *shape) {
    int *dims[3] = { &shape->c, &shape->h, &shape->w };
    for (int i = 0; i < 3; i++) {
        if (!isdigit((unsigned char)*text)) return 0;
        char *end;
        const long value = strtol(text, &end, 10);
        if (value < 1 || value > LS_SIZE_MAX) return 0;
        *dims[i] = (int)value;
        if (*end != (i < 2 ? 'x' : '\0')) return 0;
        text = end + 1;
    }
    return ls_chw_count(*shape) <= INT32_MAX;
}

// --- following the data --------------------------------------------------------------------------

static ls_status find_data(reader *r, const ls_ini_entry *entry) {
    if (r->followed) return LS_SUCCESS;
    ls_chw shape = { 0 };
    int classes = 0;
    if (!r->data) {
        return ls_fail(LS_USAGE, "%s:%d: %s.%s = %s: there is no data set here that it could follow; write numbers",
            r->ini->path, entry->line, entry->section, entry->key, entry->value);
    }
    LS_TRY(r->data->find(r->data->context, &shape, &classes));
    snprintf(r->shape, sizeof r->shape, "%dx%dx%d", shape.c, shape.h, shape.w);
    snprintf(r->classes, sizeof r->classes, "%d", classes);
    assert(strlen(r->classes) < sizeof classes_word);
    r->followed = 1;
    return LS_SUCCESS;
}

// Replaces the word `data` or `classes` by `number`, in the entry and in the network's text. Entries must come in the
// order of the file.
static void replace(reader *r, ls_ini_entry *entry, const char *number) {
    const ptrdiff_t was = (ptrdiff_t)strlen(entry->value), is = (ptrdiff_t)strlen(number);
    char *at = r->graph->text + (entry->value - r->ini->text) + r->grown;
    memmove(at + is, at + was, strlen(at + was) + 1);
    memcpy(at, number, (size_t)is);
    r->grown += is - was;
    entry->value = number;
}

static ls_status follow_data(reader *r, ls_ini_entry *entry, const char *number) {
    LS_TRY(find_data(r, entry));
    replace(r, entry, number);
    return LS_SUCCESS;
}

// --- sections ------------------------------------------------------------------------------------

static ls_status read_network_section(reader *r, const ls_ini_section *section) {
    static const char *const known[] = { "input" };
    char hint[160];
    int seen = 0;
    for (int i = section->first_entry; i < section->first_entry + section->entry_count; i++) {
        ls_ini_entry *entry = &r->ini->entries[i];
        if (strcmp(entry->key, "input") != 0) {
            return ls_fail(LS_USAGE, "%s:%d: [network] has no key '%s', only 'input'%s", r->ini->path, entry->line,
                entry->key, suggest(hint, sizeof hint, entry->key, known, 1));
        }
        if (strcmp(entry->value, "data") == 0) LS_TRY(follow_data(r, entry, r->shape));
        if (!parse_shape(entry->value, &r->graph->input)) {
            return ls_fail(LS_USAGE,
                "%s:%d: network.input = '%s': expected data, or channels x height x width of a sample, such as "
                "3x32x32, each from 1 to %d",
                r->ini->path, entry->line, entry->value, LS_SIZE_MAX);
        }
        seen = 1;
    }
    if (seen) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s:%d: [network] lacks 'input', the shape of a sample, such as input = 3x32x32, or input = data", r->ini->path,
        section->line);
}

static ls_status check_name(const reader *r, const ls_ini_section *section) {
    const char *name = section->name;
    const size_t length = strlen(name);
    if (length == 0 || length > LAYER_NAME_MAX) {
        return ls_fail(LS_USAGE, "%s:%d: layer name '%s' has %zu characters; 1 to %d are possible", r->ini->path,
            section->line, name, length, LAYER_NAME_MAX);
    }
    if (strcmp(name, "input") == 0 || strcmp(name, "network") == 0) {
        return ls_fail(LS_USAGE, "%s:%d: a layer cannot be called '%s': %s", r->ini->path, section->line, name,
            name[0] == 'i' ? "that is the network's input" : "[network] comes once, first");
    }
    for (const char *at = name; *at; at++) {
        if (isalnum((unsigned char)*at) || strchr("._-", *at)) continue;
        return ls_fail(LS_USAGE, "%s:%d: layer name '%s' contains '%c'; letters, digits, '.', '_' and '-' are possible",
            r->ini->path, section->line, name, *at);
    }
    return LS_SUCCESS;
}

static ls_ini_entry *find_entry(const reader *r, const ls_ini_section *section, const char *key) {
    for (int i = section->first_entry; i < section->first_entry + section->entry_count; i++) {
        if (strcmp(r->ini->entries[i].key, key) == 0) return &r->ini->entries[i];
    }
    return NULL;
}

static ls_status read_kind(const reader *r, const ls_ini_section *section, ls_layer *layer) {
    const char *names[LS_LAYER_COUNT];
    char list[512] = "", hint[LS_HINT_BYTES];
    for (int k = 0; k < LS_LAYER_COUNT; k++) {
        names[k] = ls_layer_kind_name((ls_layer_kind)k);
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", names[k]);
    }
    const ls_ini_entry *entry = find_entry(r, section, "layer");
    if (!entry) {
        return ls_fail(LS_USAGE, "%s:%d: layer '%s' lacks the key 'layer', its kind: one of %s", r->ini->path,
            section->line, section->name, list);
    }
    for (int k = 0; k < LS_LAYER_COUNT; k++) {
        if (strcmp(entry->value, names[k]) != 0) continue;
        layer->kind = (ls_layer_kind)k;
        return LS_SUCCESS;
    }
    return ls_fail(LS_USAGE, "%s:%d: layer '%s': there is no kind '%s'%s (kinds: %s)", r->ini->path, entry->line,
        section->name, entry->value, ls_hint(LS_ALIAS_LAYER, "", entry->value, names, LS_LAYER_COUNT, "''", hint),
        list);
}

// Finds the index of the earlier layer `name` for layer `index`; -1: the network's input.
static ls_status find_input(const reader *r, int index, int line, const char *name, int *found) {
    const char *own = r->names[index + 1];
    for (int i = 0; i <= index; i++) {
        if (strcmp(r->names[i], name) != 0) continue;
        *found = i - 1;
        return LS_SUCCESS;
    }
    if (strcmp(own, name) == 0)
        return ls_fail(LS_USAGE, "%s:%d: layer '%s' names itself as its input", r->ini->path, line, own);
    for (int i = index + 1; i < r->graph->layer_count; i++) {
        if (strcmp(r->names[i + 1], name) != 0) continue;
        return ls_fail(LS_USAGE, "%s:%d: layer '%s': its input '%s' comes later (line %d); inputs must come before",
            r->ini->path, line, own, name, r->ini->sections[i + 1].line);
    }
    char hint[160];
    return ls_fail(LS_USAGE, "%s:%d: layer '%s': there is no layer '%s' for its input%s", r->ini->path, line, own, name,
        suggest(hint, sizeof hint, name, r->names, index + 1));
}

static ls_status read_inputs(const reader *r, const ls_ini_section *section, int index) {
    ls_layer *layer = &r->graph->layers[index];
    const ls_layer_type *type = ls_layer_type_of(layer->kind);
    const int wanted = type->input_count, most = type->inputs_max ? type->inputs_max : wanted;
    char takes[32];
    snprintf(takes, sizeof takes, most > wanted ? "%d to %d" : "%d", wanted, most);
    const ls_ini_entry *entry = find_entry(r, section, "inputs");
    if (!entry) {
        if (wanted != 1)
            return ls_layer_fail(
                r->graph, layer, "it needs the key 'inputs' with %s names, such as inputs = a, b", takes);
        layer->inputs[0] = index - 1;
        layer->input_count = 1;
        return LS_SUCCESS;
    }
    int count = 1;
    for (const char *at = entry->value; *at; at++) count += *at == ',';
    if (count < wanted || count > most) {
        return ls_fail(LS_USAGE, "%s:%d: layer '%s' (%s): inputs = '%s' has %d name%s; it takes %s", r->ini->path,
            entry->line, layer->name, type->name, entry->value, count, count == 1 ? "" : "s", takes);
    }
    const char *at = entry->value;
    for (int i = 0; i < count; i++) {
        char name[LS_NAME_BYTES];
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        LS_TRY(find_input(r, index, entry->line, ls_text_trim(name), &layer->inputs[i]));
        at += length + 1;
    }
    layer->input_count = count;
    return LS_SUCCESS;
}

static void store(ls_layer *layer, const ls_layer_key *key, double value) {
    void *at = (char *)layer + key->offset;
    if (key->type == LS_KEY_REAL) {
        *(double *)at = value;
    } else if (key->type == LS_KEY_INITIAL) {
        *(ls_init *)at = (ls_init){ .kind = (ls_init_kind)value };
    } else if (key->type == LS_KEY_PAIR || key->type == LS_KEY_PADDING) {
        *(ls_pair *)at = (ls_pair){ (int)value, (int)value };
    } else {
        *(int *)at = (int)value;
    }
}

// Reads "rows x columns", two numbers with an x between them. *is_pair: 0 if the value has no x or is too long.
static ls_status read_pair(
    const reader *r, const ls_ini_entry *entry, const ls_layer_key *key, ls_pair *out, int *is_pair) {
    const char *x = strchr(entry->value, 'x');
    char parts[2][LS_PAIR_BYTES];
    int64_t numbers[2];
    *is_pair = x && (size_t)(x - entry->value) < sizeof parts[0] && strlen(x + 1) < sizeof parts[1];
    if (!*is_pair) return LS_SUCCESS;
    snprintf(parts[0], sizeof parts[0], "%.*s", (int)(x - entry->value), entry->value);
    snprintf(parts[1], sizeof parts[1], "%s", x + 1);
    for (int i = 0; i < 2; i++) {
        ls_ini_entry part = *entry;
        part.value = parts[i];
        if (!ls_failed(ls_ini_int(r->ini, &part, (int64_t)key->minimum, (int64_t)key->maximum, &numbers[i]))) continue;
        char where[LS_STATUS_TEXT_BYTES / 2];
        return ls_fail(LS_USAGE, "%s: expected a whole number from %g to %g, or two, rows x columns, such as 3x5",
            ls_ini_where(r->ini, entry, where, sizeof where), key->minimum, key->maximum);
    }
    *out = (ls_pair){ (int)numbers[0], (int)numbers[1] };
    return LS_SUCCESS;
}

// Reads a word of initialisations.def or a number.
static ls_status read_init(const reader *r, const ls_ini_entry *entry, const ls_layer_key *key, ls_init *out) {
    const char *words[LS_INIT_CONSTANT];
    char list[160] = "", hint[LS_HINT_BYTES];
    ls_text_room room = { list, sizeof list };
    int count = 0;
    for (int kind = (int)key->minimum; kind <= (int)key->maximum; kind++) {
        *out = (ls_init){ .kind = (ls_init_kind)kind };
        words[count++] = ls_init_word(out->kind);
        if (strcmp(entry->value, words[count - 1]) == 0) return LS_SUCCESS;
        ls_text_put(&room, "%s, ", words[count - 1]);
    }
    *out = (ls_init){ .kind = LS_INIT_CONSTANT };
    if (!ls_failed(ls_ini_real(r->ini, entry, -INIT_CONSTANT_MAX, INIT_CONSTANT_MAX, &out->value))) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s:%d: %s.%s = %s: expected %sor a number from %d to %d%s", r->ini->path, entry->line,
        entry->section, entry->key, entry->value, list, -INIT_CONSTANT_MAX, INIT_CONSTANT_MAX,
        ls_hint(LS_ALIAS_INIT, "", entry->value, words, count, "''", hint));
}

static ls_status read_value(reader *r, ls_ini_entry *entry, const ls_layer_key *key, ls_layer *layer);

static ls_status read_padding(reader *r, ls_ini_entry *entry, const ls_layer_key *key, ls_layer *layer) {
    ls_layer_key pair = *key;
    pair.type = LS_KEY_PAIR;
    if (!isalpha((unsigned char)entry->value[0])) return read_value(r, entry, &pair, layer);
    char where[LS_STATUS_TEXT_BYTES / 2];
    store(layer, key, LS_PADDING_SAME);
    if (strcmp(entry->value, "same") == 0) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: expected a whole number from %g to %g, or two, such as 3x5, or same: the input's size",
        ls_ini_where(r->ini, entry, where, sizeof where), key->minimum, key->maximum);
}

static ls_status read_value(reader *r, ls_ini_entry *entry, const ls_layer_key *key, ls_layer *layer) {
    int64_t whole = 0;
    int yes = 0;
    double real = 0;
    if (key->type == LS_KEY_INITIAL) return read_init(r, entry, key, (ls_init *)(void *)((char *)layer + key->offset));
    if (key->type == LS_KEY_PADDING) return read_padding(r, entry, key, layer);
    if (key->type == LS_KEY_OUTPUTS && isalpha((unsigned char)entry->value[0])) {
        if (strcmp(entry->value, classes_word) != 0) {
            char where[LS_STATUS_TEXT_BYTES / 2];
            return ls_fail(LS_USAGE, "%s: expected a whole number from %g to %g, or classes: the data set's number",
                ls_ini_where(r->ini, entry, where, sizeof where), key->minimum, key->maximum);
        }
        LS_TRY(follow_data(r, entry, r->classes));
    }
    if (key->type == LS_KEY_PAIR) {
        int is_pair;
        LS_TRY(read_pair(r, entry, key, (ls_pair *)(void *)((char *)layer + key->offset), &is_pair));
        if (is_pair) return LS_SUCCESS;
    }
    if (key->type == LS_KEY_INT || key->type == LS_KEY_PAIR || key->type == LS_KEY_OUTPUTS) {
        LS_TRY(ls_ini_int(r->ini, entry, (int64_t)key->minimum, (int64_t)key->maximum, &whole));
        real = (double)whole;
    } else if (key->type == LS_KEY_BOOL) {
        LS_TRY(ls_ini_bool(r->ini, entry, &yes));
        real = yes;
    } else {
        LS_TRY(ls_ini_real(r->ini, entry, key->minimum, key->maximum, &real));
    }
    store(layer, key, real);
    return LS_SUCCESS;
}

static ls_status refuse_key(const reader *r, const ls_ini_entry *entry, const ls_layer *layer) {
    const ls_layer_type *type = ls_layer_type_of(layer->kind);
    const char *names[KEYS_MAX] = { "layer", "inputs" };
    char list[512] = "layer, inputs", hint[LS_HINT_BYTES];
    for (int i = 0; i < type->key_count; i++) {
        names[2 + i] = type->keys[i].name;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, ", %s", type->keys[i].name);
    }
    return ls_fail(LS_USAGE, "%s:%d: layer '%s' (%s) has no key '%s'%s (keys: %s)", r->ini->path, entry->line,
        layer->name, type->name, entry->key,
        ls_hint(LS_ALIAS_LAYER_KEY, "", entry->key, names, 2 + type->key_count, "''", hint), list);
}

static ls_status read_keys(reader *r, const ls_ini_section *section, ls_layer *layer) {
    const ls_layer_type *type = ls_layer_type_of(layer->kind);
    for (int i = section->first_entry; i < section->first_entry + section->entry_count; i++) {
        const ls_ini_entry *entry = &r->ini->entries[i];
        int known = strcmp(entry->key, "layer") == 0 || strcmp(entry->key, "inputs") == 0;
        for (int k = 0; k < type->key_count && !known; k++) known = strcmp(entry->key, type->keys[k].name) == 0;
        if (!known) return refuse_key(r, entry, layer);
    }
    for (int k = 0; k < type->key_count; k++) {
        const ls_layer_key *key = &type->keys[k];
        ls_ini_entry *entry = find_entry(r, section, key->name);
        if (entry) {
            LS_TRY(read_value(r, entry, key, layer));
        } else if (key->required) {
            return ls_layer_fail(r->graph, layer, "it lacks the key '%s', %s (%s from %g to %g%s)", key->name,
                key->what, key->type == LS_KEY_REAL ? "a number" : "a whole number", key->minimum, key->maximum,
                key->type == LS_KEY_OUTPUTS ? ", or classes: the data set's number" : "");
        } else {
            store(layer, key, key->preset);
        }
    }
    return LS_SUCCESS;
}

static ls_status read_layer(reader *r, int i) {
    const ls_ini_section *section = &r->ini->sections[i + 1];
    ls_layer *layer = &r->graph->layers[i];
    layer->line = section->line;
    layer->use_line = r->uses ? r->uses[i + 1] : 0;
    LS_TRY(check_name(r, section));
    snprintf(layer->name, sizeof layer->name, "%s", section->name);
    LS_TRY(read_kind(r, section, layer));
    LS_TRY(read_keys(r, section, layer));
    return read_inputs(r, section, i);
}

static ls_status read_layers(reader *r) {
    for (int i = 0; i < r->graph->layer_count; i++) LS_TRY(ls_layer_note_use(&r->graph->layers[i], read_layer(r, i)));
    return LS_SUCCESS;
}

static ls_status read_sections(reader *r) {
    const ls_ini *ini = r->ini;
    if (ini->section_count == 0 || strcmp(ini->sections[0].name, "network") != 0) {
        return ls_fail(LS_USAGE,
            "%s:%d: a network file begins with the section [network], with input = CxHxW; found %s%s%s", ini->path,
            ini->section_count ? ini->sections[0].line : 1, ini->section_count ? "[" : "no section",
            ini->section_count ? ini->sections[0].name : "", ini->section_count ? "]" : "");
    }
    LS_TRY(read_network_section(r, &ini->sections[0]));
    r->graph->layer_count = ini->section_count - 1;
    if (r->graph->layer_count == 0) {
        return ls_fail(LS_USAGE, "%s: the network has no layers: every section after [network] is one", ini->path);
    }
    r->graph->layers = ls_new(r->graph->layer_count, sizeof *r->graph->layers, "layers of %s", ini->path);
    r->names = ls_new(ini->section_count, sizeof *r->names, "names of layers of %s", ini->path);
    r->names[0] = "input";
    for (int i = 1; i < ini->section_count; i++) r->names[i] = ini->sections[i].name;
    LS_TRY(read_layers(r));
    return ls_graph_infer(r->graph);
}

static uint64_t hash_of(const ls_ini *ini) {
    uint64_t hash = 0;
    for (int s = 0; s < ini->section_count; s++)
        hash = ls_hash_more(hash, ini->sections[s].name, strlen(ini->sections[s].name));
    for (int e = 0; e < ini->entry_count; e++) {
        const char *texts[] = { ini->entries[e].section, ini->entries[e].key, ini->entries[e].value };
        for (int i = 0; i < 3; i++) hash = ls_hash_more(hash, texts[i], strlen(texts[i]));
    }
    return hash;
}

static ls_status parse(const char *path, const char *text, size_t bytes, const ls_graph_data *data, ls_graph **out) {
    ls_network_plain plain;
    LS_TRY(ls_network_plain_parse(path, text, bytes, &plain));
    reader r = { .ini = plain.ini, .uses = plain.uses, .data = data, .graph = ls_new(1, sizeof *r.graph, "%s", path) };
    r.graph->text = ls_new(strlen(plain.text) + SHAPE_BYTES + 1, 1, "%s", path);
    memcpy(r.graph->text, plain.text, strlen(plain.text));
    snprintf(r.graph->path, sizeof r.graph->path, "%s", path);
    ls_status status = read_sections(&r);
    if (!ls_failed(status)) r.graph->hash = hash_of(plain.ini);
    free(r.names);
    ls_network_plain_free(&plain);
    return LS_GIVE_OR_FREE(status, r.graph, out, ls_graph_free);
}

ls_status ls_graph_parse(const char *path, const char *text, ls_graph **out) {
    return parse(path, text, strlen(text), NULL, out);
}

ls_status ls_graph_read(const char *path, ls_graph **out) {
    return ls_graph_read_for(path, NULL, out);
}

ls_status ls_graph_read_for(const char *path, const ls_graph_data *data, ls_graph **out) {
    char *text;
    size_t bytes;
    LS_TRY(ls_expect_file_type(path,
        1u << LS_FILE_TYPE_NETWORK | 1u << LS_FILE_TYPE_CONFIGURATION | 1u << LS_FILE_TYPE_MISSING,
        "a network file, which begins with [network]"));
    LS_TRY(ls_ini_read_text(path, &text, &bytes));
    ls_status status = parse(path, text, bytes, data, out);
    free(text);
    return status;
}
