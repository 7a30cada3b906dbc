#include "model/network_blocks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "config/values.h"
#include "model/graph.h"

enum { VALUE_BYTES = LS_INPUTS_MAX * LS_NAME_BYTES, DEPTH_MAX = 8, SECTIONS_MAX = LS_INI_SECTIONS_MAX - 1 };

static const char block_word[] = "block ";
static const char *const own_keys[] = { "layer", "block", "repeat", "inputs", "if" };
enum { OWN_KEYS = sizeof own_keys / sizeof own_keys[0] };

// A section's whole name, and the name of the layer that gives its output.
typedef struct {
    char name[LS_NAME_BYTES], output[LS_NAME_BYTES];
    int line;
} wire;

// The network, or one repetition of a block.
typedef struct scope {
    const struct scope *outer; // the scope that contains `use`; NULL: this is the network
    const ls_ini_section *block, *use;
    int depth, number, repeats;   // number: index of this repetition, from 0; repeats: number of repetitions
    char prefix[LS_NAME_BYTES];   // put before the names of the sections
    char input[LS_NAME_BYTES];    // the layer that the word `input` stands for
    char previous[LS_NAME_BYTES]; // the layer that gives the output of the section before
} scope;

typedef struct {
    const ls_ini *ini;
    FILE *text;
    int64_t bytes;
    int *lines, line_count; // for each section and entry of the text, in order: its line in the file
    int *uses, use_count;   // as in ls_network_plain
    wire *wires;
    int wire_count;
    int sections;             // number of sections expanded so far
    int use_line;             // line of the use outside all blocks that is being expanded; 0: none
    unsigned char *is_used;   // by section of the file: whether it is a block that is used
    char last[LS_NAME_BYTES]; // the last layer of the text
} expansion;

static const ls_ini_entry *find_entry(const expansion *e, const ls_ini_section *section, const char *key) {
    for (int i = section->first_entry; i < section->first_entry + section->entry_count; i++)
        if (strcmp(e->ini->entries[i].key, key) == 0) return &e->ini->entries[i];
    return NULL;
}

static const char *block_name(const ls_ini_section *section) {
    const size_t length = sizeof block_word - 1;
    return strncmp(section->name, block_word, length) == 0 ? section->name + length : NULL;
}

// Returns the name that the section has in the block, or NULL if it belongs elsewhere.
static const char *name_within(const ls_ini_section *section, const ls_ini_section *block) {
    const size_t length = strlen(block_name(block));
    if (strncmp(section->name, block_name(block), length) != 0 || section->name[length] != '/') return NULL;
    return section->name + length + 1;
}

static int is_own_key(const char *key) {
    for (int i = 0; i < OWN_KEYS; i++)
        if (strcmp(key, own_keys[i]) == 0) return 1;
    return 0;
}

static int is_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// --- values ---------------------------------------------------------------------------------------------------------

static ls_status substitute(const expansion *e, const scope *s, int line, const char *text, char dst[VALUE_BYTES]);

// Writes the value for this repetition from a list "2, 1" to dst. outer: has the values of $PARAMETERS; NULL: the list
// is a default, which reads none. The item is chosen before its parameters are read, because blocks in blocks would
// multiply the work for unused items.
static ls_status pick(
    const expansion *e, const scope *s, const scope *outer, const ls_ini_entry *entry, char dst[VALUE_BYTES]) {
    const char *list = entry->value;
    const int line = entry->line;
    char item[VALUE_BYTES];
    int count = 1;
    for (const char *at = list; *at; at++) count += *at == ',';
    if (count > s->repeats)
        return ls_fail(LS_USAGE, "%s:%d: '%s' has %d values for %d repetition%s of block '%s'", e->ini->path, line,
            list, count, s->repeats, s->repeats == 1 ? "" : "s", block_name(s->block));
    for (int i = 0; i < s->number && i < count - 1; i++) list = strchr(list, ',') + 1;
    if (snprintf(item, sizeof item, "%.*s", (int)strcspn(list, ","), list) >= VALUE_BYTES)
        return ls_fail(
            LS_USAGE, "%s:%d: '%.40s...' has more than %d characters", e->ini->path, line, item, VALUE_BYTES - 1);
    if (outer)
        LS_TRY(substitute(e, outer, line, ls_text_trim(item), dst));
    else
        snprintf(dst, VALUE_BYTES, "%s", ls_text_trim(item));
    const size_t good = strspn(dst, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+");
    if (good && !dst[good]) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s:%d: '%s' is no value of a parameter: letters, digits, '.', '_', '-' and '+' are",
        e->ini->path, line, dst);
}

// Writes the value of the parameter whose name begins at `name` to dst.
static ls_status find_value(
    const expansion *e, const scope *s, int line, const char *name, size_t length, char dst[VALUE_BYTES]) {
    const char *names[LS_INI_KEYS_MAX];
    char word[LS_NAME_BYTES];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    if (!s->outer) return ls_fail(LS_USAGE, "%s:%d: '$%s': only blocks have parameters", e->ini->path, line, word);
    const ls_ini_entry *declared = find_entry(e, s->block, word), *given = find_entry(e, s->use, word);
    if (declared) return given ? pick(e, s, s->outer, given, dst) : pick(e, s, NULL, declared, dst);
    for (int i = 0; i < s->block->entry_count; i++) names[i] = e->ini->entries[s->block->first_entry + i].key;
    const char *near = ls_text_nearest(word, names, s->block->entry_count);
    return ls_fail(LS_USAGE, "%s:%d: '$%s': block '%s' has no parameter '%s'%s%s%s", e->ini->path, line, word,
        block_name(s->block), word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

// Writes the text to dst, with values in place of $PARAMETERS.
static ls_status substitute(const expansion *e, const scope *s, int line, const char *text, char dst[VALUE_BYTES]) {
    ls_text_room room = { dst, VALUE_BYTES };
    char value[VALUE_BYTES];
    dst[0] = 0;
    for (const char *at = text; *at && room.left > 1;) {
        const size_t plain = strcspn(at, "$");
        ls_text_put(&room, "%.*s", (int)plain, at);
        at += plain;
        if (!*at) break;
        size_t length = 0;
        while (is_name(at[1 + length])) length++;
        LS_TRY(find_value(e, s, line, at + 1, length, value));
        ls_text_put(&room, "%s", value);
        at += 1 + length;
    }
    if (room.left > 1) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s:%d: '%.40s...' has more than %d characters", e->ini->path, line, dst, VALUE_BYTES - 2);
}

// --- names and inputs -----------------------------------------------------------------------------------------------

static ls_status put_name(const expansion *e, int line, const char *before, const char *name, char dst[LS_NAME_BYTES]) {
    const int length = snprintf(dst, LS_NAME_BYTES, "%s%s", before, name);
    if (length < LS_NAME_BYTES) return LS_SUCCESS;
    return ls_fail(
        LS_USAGE, "%s:%d: the name '%s...' has more than %d characters", e->ini->path, line, dst, LS_NAME_BYTES - 1);
}

static const wire *find_wire(const expansion *e, const char *name) {
    for (int i = e->wire_count - 1; i >= 0; i--)
        if (strcmp(e->wires[i].name, name) == 0) return &e->wires[i];
    return NULL;
}

static ls_status add_wire(expansion *e, int line, const char *name, const char *output) {
    const wire *other = find_wire(e, name);
    if (other)
        return ls_fail(LS_USAGE, "%s:%d: there is a second section '%s', besides the one at line %d", e->ini->path,
            line, name, other->line);
    e->wires = ls_grow(e->wires, e->wire_count, sizeof *e->wires, "%s", e->ini->path);
    wire *added = &e->wires[e->wire_count++];
    added->line = line;
    snprintf(added->name, sizeof added->name, "%s", name);
    snprintf(added->output, sizeof added->output, "%s", output);
    return LS_SUCCESS;
}

// Writes the names of the layers that a section reads to dst, "a, b". *count: their number.
static ls_status find_inputs(
    const expansion *e, const scope *s, const ls_ini_section *section, char dst[VALUE_BYTES], int *count) {
    const ls_ini_entry *entry = find_entry(e, section, "inputs");
    ls_text_room room = { dst, VALUE_BYTES };
    char list[VALUE_BYTES], one[VALUE_BYTES], whole[LS_NAME_BYTES];
    *count = 1;
    snprintf(dst, VALUE_BYTES, "%s", s->previous);
    if (!entry) return LS_SUCCESS;
    LS_TRY(substitute(e, s, entry->line, entry->value, list));
    *count = 0;
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, at);
        const char *name = ls_text_trim(one);
        LS_TRY(put_name(e, entry->line, s->prefix, name, whole));
        const wire *found = find_wire(e, whole);
        ls_text_put(&room, "%s%s", (*count)++ ? ", " : "",
            strcmp(name, "input") == 0 ? s->input
            : found                    ? found->output
                                       : whole);
        at += length;
        if (!*at) break;
    }
    if (room.left > 1) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s:%d: its inputs have more than %d characters", e->ini->path, entry->line, VALUE_BYTES);
}

// --- layers ---------------------------------------------------------------------------------------------------------

static void add_number(int **list, int *count, int number) {
    *list = ls_grow(*list, *count, sizeof **list, "lines of a network");
    (*list)[(*count)++] = number;
}

static void put_section(expansion *e, int line, const char *name) {
    e->bytes += fprintf(e->text, "%s[%s]\n", e->use_count ? "\n" : "", name);
    add_number(&e->lines, &e->line_count, line);
    add_number(&e->uses, &e->use_count, e->use_line);
}

static void put_entry(expansion *e, int line, const char *key, const char *value) {
    e->bytes += fprintf(e->text, "%s = %s\n", key, value);
    add_number(&e->lines, &e->line_count, line);
}

static ls_status put_layer(expansion *e, scope *s, const ls_ini_section *section, const char *name) {
    char inputs[VALUE_BYTES], value[VALUE_BYTES];
    int count;
    LS_TRY(find_inputs(e, s, section, inputs, &count));
    put_section(e, section->line, name);
    for (int i = section->first_entry; i < section->first_entry + section->entry_count; i++) {
        const ls_ini_entry *entry = &e->ini->entries[i];
        const int is_inputs = strcmp(entry->key, "inputs") == 0;
        if (s->outer && strcmp(entry->key, "if") == 0) continue;
        LS_TRY(substitute(e, s, entry->line, entry->value, value));
        put_entry(e, entry->line, entry->key, is_inputs ? inputs : value);
    }
    if (!find_entry(e, section, "inputs") && strcmp(inputs, e->last) != 0)
        put_entry(e, section->line, "inputs", inputs);
    if (e->bytes > LS_INI_BYTES_MAX)
        return ls_fail(LS_USAGE, "%s:%d: with this layer, the network without blocks has more than %d bytes",
            e->ini->path, section->line, LS_INI_BYTES_MAX);
    LS_TRY(add_wire(e, section->line, name, name));
    snprintf(e->last, sizeof e->last, "%s", name);
    snprintf(s->previous, sizeof s->previous, "%s", name);
    return LS_SUCCESS;
}

// Decides whether a block's section is there. The output of a section that is left out is its (first) input.
static ls_status find_presence(expansion *e, scope *s, const ls_ini_section *section, const char *name, int *is_there) {
    const ls_ini_entry *entry = s->outer ? find_entry(e, section, "if") : NULL;
    char value[VALUE_BYTES], inputs[VALUE_BYTES];
    int count;
    *is_there = 1;
    if (!entry) return LS_SUCCESS;
    LS_TRY(substitute(e, s, entry->line, entry->value, value));
    ls_ini_entry parsed = *entry;
    parsed.value = value;
    LS_TRY(ls_ini_bool(e->ini, &parsed, is_there));
    if (*is_there) return LS_SUCCESS;
    LS_TRY(find_inputs(e, s, section, inputs, &count));
    inputs[strcspn(inputs, ",")] = 0;
    snprintf(s->previous, sizeof s->previous, "%.*s", LS_NAME_BYTES - 1, inputs);
    return add_wire(e, section->line, name, s->previous);
}

// --- uses of blocks -------------------------------------------------------------------------------------------------

// Finds the block that a section uses. The block must end before this section, so no block contains itself.
static ls_status find_block(expansion *e, const scope *s, const ls_ini_section *section, const ls_ini_section **block) {
    const ls_ini_section *end = s->outer ? s->block : section;
    const ls_ini_entry *entry = find_entry(e, section, "block");
    const char **names = ls_new(e->ini->section_count, sizeof *names, "names of blocks");
    int count = 0;
    char name[VALUE_BYTES];
    *block = NULL;
    ls_status status = substitute(e, s, entry->line, entry->value, name);
    for (const ls_ini_section *at = e->ini->sections; at < end && !ls_failed(status); at++) {
        if (!block_name(at)) continue;
        names[count++] = block_name(at);
        if (strcmp(block_name(at), name) == 0) *block = at;
    }
    const char *near = *block || ls_failed(status) ? NULL : ls_text_nearest(name, names, count);
    free(names);
    if (ls_failed(status)) return status;
    if (*block) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s:%d: [%s]: no block '%s' is defined before it%s%s%s", e->ini->path, entry->line,
        section->name, name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static ls_status check_use(const expansion *e, const scope *s, const ls_ini_section *use, const ls_ini_section *block) {
    for (int i = use->first_entry; i < use->first_entry + use->entry_count; i++) {
        const ls_ini_entry *entry = &e->ini->entries[i];
        if (strcmp(entry->key, "layer") == 0)
            return ls_fail(LS_USAGE, "%s:%d: [%s] has both 'layer' and 'block'; keep one of them", e->ini->path,
                entry->line, use->name);
        if (!s->outer && strcmp(entry->key, "if") == 0)
            return ls_fail(LS_USAGE, "%s:%d: [%s] has no key 'if': only sections of a block have it", e->ini->path,
                entry->line, use->name);
        if (is_own_key(entry->key) || find_entry(e, block, entry->key)) continue;
        return ls_fail(LS_USAGE, "%s:%d: [%s]: block '%s' (line %d) has no parameter '%s'", e->ini->path, entry->line,
            use->name, block_name(block), block->line, entry->key);
    }
    for (int i = block->first_entry; i < block->first_entry + block->entry_count; i++) {
        const ls_ini_entry *entry = &e->ini->entries[i];
        if (entry->value[0] || find_entry(e, use, entry->key)) continue;
        return ls_fail(LS_USAGE, "%s:%d: [%s] lacks '%s', a parameter of block '%s' (line %d)", e->ini->path, use->line,
            use->name, entry->key, block_name(block), entry->line);
    }
    return LS_SUCCESS;
}

// Reads "3" or "1..6". *first: number of the first repetition; *count: how many there are; 0: no key `repeat`.
static ls_status read_repeat(
    const expansion *e, const scope *s, const ls_ini_section *section, int64_t *first, int64_t *count) {
    const ls_ini_entry *entry = find_entry(e, section, "repeat");
    char value[VALUE_BYTES];
    *first = *count = 0;
    if (!entry) return LS_SUCCESS;
    LS_TRY(substitute(e, s, entry->line, entry->value, value));
    ls_ini_entry part = *entry;
    part.value = value;
    char *range = strstr(value, "..");
    if (!range) return ls_ini_int(e->ini, &part, 1, SECTIONS_MAX, count);
    *range = 0;
    LS_TRY(ls_ini_int(e->ini, &part, 0, SECTIONS_MAX, first));
    part.value = range + 2;
    LS_TRY(ls_ini_int(e->ini, &part, *first, SECTIONS_MAX, count));
    *count += 1 - *first;
    return LS_SUCCESS;
}

static ls_status expand_section(expansion *e, scope *s, const ls_ini_section *section);

// Expands one repetition. name: the use's name; the number replaces its '*' or is put at its end. -1: no number.
static ls_status expand_once(expansion *e, scope *inner, const char *name, int number) {
    const char *star = strchr(name, '*');
    const int line = inner->use->line;
    char text[LS_NAME_BYTES + 16];
    if (number < 0)
        snprintf(text, sizeof text, "%s", name);
    else if (star)
        snprintf(text, sizeof text, "%.*s%d%s", (int)(star - name), name, number, star + 1);
    else
        snprintf(text, sizeof text, "%s.%d", name, number);
    LS_TRY(put_name(e, line, text, ".", inner->prefix));
    snprintf(inner->input, sizeof inner->input, "%s", inner->previous);
    const ls_ini_section *end = e->ini->sections + e->ini->section_count;
    for (const ls_ini_section *at = inner->block + 1; at < end && name_within(at, inner->block); at++)
        LS_TRY(expand_section(e, inner, at));
    return number < 0 ? LS_SUCCESS : add_wire(e, line, text, inner->previous);
}

static ls_status expand_use(expansion *e, scope *s, const ls_ini_section *section, const char *name) {
    scope inner = { .outer = s, .use = section, .depth = s->depth + 1 };
    char inputs[VALUE_BYTES];
    int64_t first, count;
    int input_count;
    LS_TRY(find_block(e, s, section, &inner.block));
    e->is_used[inner.block - e->ini->sections] = 1;
    LS_TRY(check_use(e, s, section, inner.block));
    if (inner.depth > DEPTH_MAX)
        return ls_fail(LS_USAGE, "%s:%d: [%s]: blocks are more than %d deep", e->ini->path, section->line,
            section->name, DEPTH_MAX);
    LS_TRY(read_repeat(e, s, section, &first, &count));
    LS_TRY(find_inputs(e, s, section, inputs, &input_count));
    if (input_count != 1)
        return ls_fail(LS_USAGE, "%s:%d: [%s]: a block has one input, not '%s'", e->ini->path, section->line,
            section->name, inputs);
    snprintf(inner.previous, sizeof inner.previous, "%.*s", LS_NAME_BYTES - 1, inputs);
    inner.repeats = count ? (int)count : 1;
    for (; inner.number < inner.repeats; inner.number++)
        LS_TRY(expand_once(e, &inner, name, count ? (int)first + inner.number : -1));
    snprintf(s->previous, sizeof s->previous, "%s", inner.previous);
    return add_wire(e, section->line, name, inner.previous);
}

static ls_status expand_section(expansion *e, scope *s, const ls_ini_section *section) {
    char local[VALUE_BYTES], name[LS_NAME_BYTES];
    int is_there;
    if (++e->sections > SECTIONS_MAX)
        return ls_fail(LS_USAGE, "%s:%d: with this section, the blocks give more than %d", e->ini->path, section->line,
            SECTIONS_MAX);
    LS_TRY(substitute(e, s, section->line, s->outer ? name_within(section, s->block) : section->name, local));
    LS_TRY(put_name(e, section->line, s->prefix, local, name));
    LS_TRY(find_presence(e, s, section, name, &is_there));
    if (!is_there) return LS_SUCCESS;
    return find_entry(e, section, "block") ? expand_use(e, s, section, name) : put_layer(e, s, section, name);
}

// --- definitions ----------------------------------------------------------------------------------------------------

static int reads(const char *text, const char *parameter) {
    const size_t length = strlen(parameter);
    for (const char *at = text; (at = strchr(at, '$')); at++)
        if (strncmp(at + 1, parameter, length) == 0 && !is_name(at[1 + length])) return 1;
    return 0;
}

// Checks the parameters of a block with sections from `block` + 1 to before `end`.
static ls_status check_parameters(const expansion *e, const ls_ini_section *block, const ls_ini_section *end) {
    for (int i = block->first_entry; i < block->first_entry + block->entry_count; i++) {
        const ls_ini_entry *entry = &e->ini->entries[i];
        const char *key = entry->key;
        if (is_own_key(key))
            return ls_fail(LS_USAGE,
                "%s:%d: [%s]: a parameter cannot be called '%s', a key of the sections that use it", e->ini->path,
                entry->line, block->name, key);
        int is_read = 0;
        for (const ls_ini_section *at = block + 1; at < end && !is_read; at++) {
            is_read = reads(at->name, key);
            for (int k = at->first_entry; k < at->first_entry + at->entry_count && !is_read; k++)
                is_read = reads(e->ini->entries[k].value, key);
        }
        if (!is_read)
            return ls_fail(LS_USAGE, "%s:%d: [%s]: no section of the block reads its parameter, as $%s", e->ini->path,
                entry->line, block->name, key);
    }
    return LS_SUCCESS;
}

static ls_status expand_all(expansion *e) {
    const ls_ini_section *sections = e->ini->sections, *end = sections + e->ini->section_count;
    scope network = { .repeats = 1, .input = "input", .previous = "input" };
    put_section(e, sections->line, sections->name);
    for (int i = sections->first_entry; i < sections->first_entry + sections->entry_count; i++)
        put_entry(e, e->ini->entries[i].line, e->ini->entries[i].key, e->ini->entries[i].value);
    for (const ls_ini_section *at = sections + 1; at < end; at++) {
        if (!block_name(at)) {
            e->use_line = find_entry(e, at, "block") ? at->line : 0;
            LS_TRY(expand_section(e, &network, at));
            continue;
        }
        const ls_ini_section *block = at;
        while (at + 1 < end && name_within(at + 1, block)) at++;
        if (at == block)
            return ls_fail(LS_USAGE, "%s:%d: [%s] has no sections: they follow it, such as [%s/conv]", e->ini->path,
                block->line, block->name, block_name(block));
        LS_TRY(check_parameters(e, block, at + 1));
    }
    for (const ls_ini_section *at = sections; at < end; at++)
        if (block_name(at) && !e->is_used[at - sections])
            return ls_fail(LS_USAGE, "%s:%d: [%s] is never used: remove it", e->ini->path, at->line, at->name);
    return LS_SUCCESS;
}

// --- the whole ------------------------------------------------------------------------------------------------------

// Gives the plain file's sections and entries their line numbers in the file with blocks.
static void set_lines(ls_ini *ini, const int *lines) {
    for (int s = 0; s < ini->section_count; s++) {
        ls_ini_section *section = &ini->sections[s];
        section->line = *lines++;
        for (int i = 0; i < section->entry_count; i++) ini->entries[section->first_entry + i].line = *lines++;
    }
}

static int has_blocks(const ls_ini *ini) {
    int found = 0;
    for (int s = 0; s < ini->section_count && !found; s++) found = block_name(&ini->sections[s]) != NULL;
    for (int i = 0; i < ini->entry_count && !found; i++) found = strcmp(ini->entries[i].key, "block") == 0;
    return found && strcmp(ini->sections[0].name, "network") == 0;
}

static ls_status expand(const ls_ini *ini, ls_network_plain *out) {
    size_t bytes = 0;
    expansion e = { .ini = ini, .last = "input" };
    e.is_used = ls_new(ini->section_count, 1, "blocks of %s", ini->path);
    e.text = ls_text_stream(&out->text, &bytes);
    ls_status status = expand_all(&e);
    ls_text_stream_close(e.text);
    out->uses = e.uses;
    LS_THEN(status, ls_ini_parse(ini->path, out->text, bytes, &out->ini));
    if (!ls_failed(status)) set_lines(out->ini, e.lines);
    free(e.is_used);
    free(e.lines);
    free(e.wires);
    return status;
}

ls_status ls_network_plain_parse(const char *path, const char *text, size_t bytes, ls_network_plain *out) {
    ls_ini *ini;
    *out = (ls_network_plain){ .ini = NULL };
    LS_TRY(ls_ini_parse(path, text, bytes, &ini));
    if (has_blocks(ini)) {
        ls_status status = expand(ini, out);
        ls_ini_free(ini);
        if (ls_failed(status)) ls_network_plain_free(out);
        return status;
    }
    out->ini = ini;
    out->text = ls_new(bytes + 1, 1, "%s", path);
    memcpy(out->text, text, bytes);
    return LS_SUCCESS;
}

void ls_network_plain_free(ls_network_plain *plain) {
    ls_ini_free(plain->ini);
    free(plain->text);
    free(plain->uses);
}
