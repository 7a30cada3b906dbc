#include "formats/weights_map.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/weights.h"

enum { RULES_MAX = 64, PATTERN_BYTES = 256, NAME_BYTES = 1100 };

typedef struct {
    char pattern[PATTERN_BYTES], name[PATTERN_BYTES]; // name "": a rule "new"
    int used;
} rule;

typedef struct {
    const char *path;
    const ls_safetensors *file;
    const ls_graph *graph;
    rule rules[RULES_MAX];
    int rule_count;
    char **names;              // by tensor of the file: its name after the rules; NULL: a counter, left out
    int *takers;               // by tensor of the file: number of parameters that take it
    const ls_weights_fit *fit; // NULL: no parameter starts anew because of the classes
    int *by_name;              // indices of the file's tensors with a name in `names`, sorted by this name
    int named;                 // length of by_name
    const char *prefix;        // of the names in the file
} search;

// --- rules ------------------------------------------------------------------------------------------

static int count_stars(const char *text) {
    int stars = 0;
    for (; *text; text++) stars += *text == '*';
    return stars;
}

static ls_status parse_rule(char *text, rule *out) {
    char *arrow = strstr(text, "->");
    const char *name = arrow ? arrow + 2 : "";
    int is_new = strncmp(text, "new ", 4) == 0;
    if (arrow) *arrow = '\0';
    const char *pattern = ls_text_trim(text + (is_new && !arrow ? 4 : 0));
    while (*name == ' ') name++;
    if (arrow ? !*name || !*pattern : !is_new || !*pattern)
        return ls_fail(LS_USAGE,
            "model.init_rules: '%s%s%s' is no rule: expected 'NAME IN THE FILE -> NAME IN THE NETWORK' or 'new NAME IN "
            "THE NETWORK', with '*' for any characters",
            pattern, arrow ? " -> " : "", name);
    if (count_stars(name) > count_stars(pattern))
        return ls_fail(
            LS_USAGE, "model.init_rules: '%s -> %s' has more '*' on its right than on its left", pattern, name);
    if (count_stars(pattern) > LS_TEXT_STARS_MAX)
        return ls_fail(LS_USAGE, "model.init_rules: '%s' has more than %d '*'", pattern, LS_TEXT_STARS_MAX);
    snprintf(out->pattern, sizeof out->pattern, "%s", pattern);
    snprintf(out->name, sizeof out->name, "%s", name);
    return LS_SUCCESS;
}

static ls_status parse_rules(const char *text, search *s) {
    for (;;) {
        char one[PATTERN_BYTES];
        const size_t length = strcspn(text, ";");
        if (length >= sizeof one)
            return ls_fail(LS_USAGE, "model.init_rules: a rule of more than %zu characters", sizeof one - 1);
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        char *trimmed = ls_text_trim(one);
        if (*trimmed && s->rule_count == RULES_MAX)
            return ls_fail(LS_USAGE, "model.init_rules: expected at most %d rules", RULES_MAX);
        if (*trimmed) LS_TRY(parse_rule(trimmed, &s->rules[s->rule_count++]));
        if (!text[length]) return LS_SUCCESS;
        text += length + 1;
    }
}

static ls_status check_used(const search *s) {
    for (int r = 0; r < s->rule_count; r++) {
        const rule *one = &s->rules[r];
        if (one->used) continue;
        if (!one->name[0])
            return ls_fail(
                LS_USAGE, "model.init_rules: 'new %s' matches no tensor of %s", one->pattern, s->graph->path);
        return ls_fail(LS_USAGE,
            "model.init_rules: '%s -> %s' matches no tensor of %s (or only ones that an earlier rule renames)",
            one->pattern, one->name, s->path);
    }
    return LS_SUCCESS;
}

// --- names ------------------------------------------------------------------------------------------

static int ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// Returns the network's name for the file's tensor `name`, by the rules. The caller frees it with free().
static char *rename_tensor(search *s, const char *name) {
    char renamed[NAME_BYTES];
    snprintf(renamed, sizeof renamed, "%s", name);
    for (int r = 0; r < s->rule_count; r++) {
        rule *one = &s->rules[r];
        if (!one->name[0] || !ls_text_replace(one->pattern, one->name, name, renamed, sizeof renamed)) continue;
        one->used = 1;
        break;
    }
    return ls_new_text(renamed);
}

static int by_new_name(const void *a, const void *b, void *names) {
    const int x = *(const int *)a, y = *(const int *)b, order = strcmp(((char **)names)[x], ((char **)names)[y]);
    return order ? order : x - y;
}

static ls_status rename_all(search *s) {
    const int count = ls_safetensors_count(s->file);
    for (int i = 0; i < count; i++) {
        const char *name = ls_safetensors_name(s->file, i);
        if (ends_with(name, ".num_batches_tracked")) continue;
        s->names[i] = rename_tensor(s, name);
        s->by_name[s->named++] = i;
    }
    if (s->named) qsort_r(s->by_name, (size_t)s->named, sizeof *s->by_name, by_new_name, s->names);
    int first = INT_MAX; // first tensor whose name an earlier tensor has, too
    for (int n = 1; n < s->named; n++) {
        const int i = s->by_name[n - 1], k = s->by_name[n];
        if (k < first && strcmp(s->names[i], s->names[k]) == 0) first = k;
    }
    if (first == INT_MAX) return LS_SUCCESS;
    int other = 0;
    while (!s->names[other] || strcmp(s->names[other], s->names[first]) != 0) other++;
    return ls_fail(LS_USAGE, "%s: by model.init_rules both '%s' and '%s' are '%s' in the network", s->path,
        ls_safetensors_name(s->file, other), ls_safetensors_name(s->file, first), s->names[first]);
}

// Returns the index of the file's tensor that the network calls `name`; -1: not found.
static int find_renamed(const search *s, const char *name) {
    int low = 0, high = s->named;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = strcmp(s->names[s->by_name[middle]], name);
        if (order == 0) return s->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

// Returns the index of the file's tensor for the network's `name`, which has `prefix` before it; -1: not found.
static int find_prefixed(const search *s, const char *prefix, const char *name) {
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return find_renamed(s, whole);
}

// Returns the first of `prefixes` with which the file has a tensor of the network; "" if there is no such prefix.
static const char *find_prefix(const search *s) {
    static const char *const prefixes[] = { "", "module.", "model.", "backbone.", "module.model.", "module.backbone.",
        "model.backbone.", "model.module.", "backbone.model." };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        for (int p = 0; p < s->graph->param_count; p++)
            if (find_prefixed(s, prefixes[i], s->graph->params[p].name) >= 0) return prefixes[i];
    return "";
}

// --- tensors ----------------------------------------------------------------------------------------

static char *shape_text(int rank, const int64_t *dim, char text[128]) {
    ls_text_room room = { text, 128 };
    for (int i = 0; i < rank; i++) ls_text_put(&room, "%s%" PRId64, i ? "x" : "", dim[i]);
    if (rank == 0) ls_text_put(&room, "a single number");
    return text;
}

static int is_new(search *s, const char *name) {
    for (int r = 0; r < s->rule_count; r++) {
        if (s->rules[r].name[0] || !ls_text_glob(s->rules[r].pattern, name)) continue;
        s->rules[r].used = 1;
        return 1;
    }
    return 0;
}

static ls_status refuse_missing(const search *s, const ls_safetensors_tensor *wanted) {
    const int count = ls_safetensors_count(s->file);
    char shape[128];
    int known = 0;
    const char **names = ls_new(count + 1, sizeof *names, "names of weights");
    for (int i = 0; i < count; i++)
        if (s->names[i]) names[known++] = ls_safetensors_name(s->file, i);
    const char *near = ls_text_nearest(wanted->name, names, known);
    ls_status status = ls_fail(LS_USAGE,
        "%s: has no tensor '%s' (%s), which the network %s needs (%s '%s'): by model.init_rules another one is it, as "
        "'%s -> %s', or it is made from nothing, as 'new %s'",
        s->path, wanted->name, shape_text(wanted->rank, wanted->dim, shape), s->graph->path,
        near ? "the nearest is" : "the first of the file's is",
        near    ? near
        : known ? names[0]
                : "",
        near ? near : "NAME IN THE FILE", wanted->name, wanted->name);
    free(names);
    return status;
}

static ls_status check_tensor(const search *s, int i, const ls_safetensors_tensor *wanted) {
    ls_safetensors_tensor there;
    char found[128], expected[128];
    const char *name = ls_safetensors_name(s->file, i);
    if (!ls_safetensors_get(s->file, i, &there) ||
        (there.dtype != LS_F32 && there.dtype != LS_F16 && there.dtype != LS_BF16 && there.dtype != LS_F64))
        return ls_fail(
            LS_USAGE, "%s: tensor '%s' is of no type that weights can have: fp32, fp16, bf16 or fp64", s->path, name);
    if (there.rank == wanted->rank && memcmp(there.dim, wanted->dim, (size_t)there.rank * sizeof *there.dim) == 0)
        return LS_SUCCESS;
    const char *dot = strrchr(wanted->name, '.'); // NULL: a layer scale outside all blocks
    return ls_fail(LS_USAGE,
        "%s: tensor '%s' is %s, but '%s' of the network %s is %s: other classes or another network? To make it from "
        "nothing, add 'new %.*s%s' to model.init_rules",
        s->path, name, shape_text(there.rank, there.dim, found), wanted->name, s->graph->path,
        shape_text(wanted->rank, wanted->dim, expected), dot ? (int)(dot - wanted->name) : (int)strlen(wanted->name),
        wanted->name, dot ? ".*" : "");
}

// Whether the file's tensor i has rows of the wanted shape, but another number of them (*rows).
static int has_other_rows(const search *s, int i, const ls_safetensors_tensor *wanted, int64_t *rows) {
    ls_safetensors_tensor there;
    if (i < 0 || !ls_safetensors_get(s->file, i, &there) || there.rank != wanted->rank || there.rank == 0) return 0;
    *rows = there.dim[0];
    return *rows != wanted->dim[0] &&
           memcmp(there.dim + 1, wanted->dim + 1, (size_t)(there.rank - 1) * sizeof *there.dim) == 0;
}

static ls_status find_source(search *s, int p, ls_weights_map *map) {
    ls_safetensors_tensor wanted;
    ls_weights_describe(&s->graph->params[p], &wanted);
    if (is_new(s, wanted.name)) return LS_SUCCESS;
    const int i = find_prefixed(s, s->prefix, wanted.name), has_rows = s->fit && s->fit->rows[p];
    int64_t rows;
    const int other = has_rows && s->fit->compares_rows && has_other_rows(s, i, &wanted, &rows);
    if (other) map->classes = rows;
    if (other || (has_rows && s->fit->starts_anew)) {
        map->started_anew++;
        return LS_SUCCESS;
    }
    if (i < 0) return refuse_missing(s, &wanted);
    LS_TRY(check_tensor(s, i, &wanted));
    s->takers[i]++;
    map->taken++;
    map->source[p] = ls_new_text(ls_safetensors_name(s->file, i));
    return LS_SUCCESS;
}

static void list_left(const search *s, ls_weights_map *map) {
    for (int i = 0; i < ls_safetensors_count(s->file); i++)
        if (s->names[i] && !s->takers[i]) map->left[map->left_count++] = ls_new_text(ls_safetensors_name(s->file, i));
}

static ls_status make(search *s, const char *rules, ls_weights_map *map) {
    const int count = ls_safetensors_count(s->file) + 1;
    s->names = ls_new(count, sizeof *s->names, "names of weights");
    s->takers = ls_new(count, sizeof *s->takers, "names of weights");
    s->by_name = ls_new(count, sizeof *s->by_name, "names of weights");
    map->left = ls_new(count, sizeof *map->left, "names of weights");
    map->source = ls_new(s->graph->param_count + 1, sizeof *map->source, "names of weights");
    LS_TRY(parse_rules(rules, s));
    LS_TRY(rename_all(s));
    s->prefix = find_prefix(s);
    for (int p = 0; p < s->graph->param_count; p++) LS_TRY(find_source(s, p, map));
    LS_TRY(check_used(s));
    list_left(s, map);
    return LS_SUCCESS;
}

ls_status ls_weights_map_new(const char *path, const ls_safetensors *file, const ls_graph *graph, const char *rules,
    const ls_weights_fit *fit, ls_weights_map **out) {
    search *s = ls_new(1, sizeof *s, "names of weights");
    *s = (search){ .path = path, .file = file, .graph = graph, .fit = fit };
    ls_weights_map *map = ls_new(1, sizeof *map, "names of weights");
    map->graph = graph;
    ls_status status = make(s, rules, map);
    for (int i = 0; i < ls_safetensors_count(file); i++) free(s->names[i]);
    free(s->names);
    free(s->takers);
    free(s->by_name);
    free(s);
    return LS_GIVE_OR_FREE(status, map, out, ls_weights_map_free);
}

void ls_weights_map_free(ls_weights_map *map) {
    if (!map) return;
    for (int p = 0; map->source && p < map->graph->param_count; p++) free(map->source[p]);
    for (int i = 0; i < map->left_count; i++) free(map->left[i]);
    free(map->source);
    free(map->left);
    free(map);
}

// --- uses of a map ------------------------------------------------------------------------------------

void ls_weights_map_values(const ls_weights_map *map, const ls_safetensors *file, int p, float *values) {
    const int64_t count = ls_param_count(&map->graph->params[p].shape);
    ls_safetensors_tensor tensor = { .data = NULL };
    ls_safetensors_get(file, ls_safetensors_index(file, map->source[p]), &tensor);
    const double *wide = tensor.data;
    for (int64_t k = 0; k < count; k++)
        values[k] = tensor.dtype == LS_F64 ? (float)wide[k] : ls_load_float(tensor.data, tensor.dtype, k);
}

void ls_weights_map_print(const ls_weights_map *map, FILE *file) {
    for (int p = 0; p < map->graph->param_count; p++) {
        const char *name = map->graph->params[p].name, *source = map->source[p];
        if (!source)
            fprintf(file, "  %-32s new\n", name);
        else if (strcmp(name, source) == 0)
            fprintf(file, "  %-32s of the file\n", name);
        else {
            fprintf(file, "  %-32s of the file's ", name);
            ls_text_print(file, source);
            fputc('\n', file);
        }
    }
    for (int i = 0; i < map->left_count; i++) {
        fputs("  left out                         ", file);
        ls_text_print(file, map->left[i]);
        fputc('\n', file);
    }
}

static int starts_alike(const char *a, const char *b, size_t length) {
    return strncmp(a, b, length) == 0 && (a[length] == '.' || a[length] == '\0');
}

// Lists the parameters that come from the file. Parameters whose names are equal up to the first '.' are listed as
// "layer1.*" if all of them come from the file.
static void put_groups(const ls_weights_map *map, ls_text_room *room) {
    const ls_graph *graph = map->graph;
    const char *comma = "";
    for (int p = 0; p < graph->param_count; p++) {
        const size_t length = strcspn(graph->params[p].name, ".");
        int first = 1, whole = 1;
        for (int k = 0; k < graph->param_count; k++) {
            if (!starts_alike(graph->params[k].name, graph->params[p].name, length)) continue;
            first = first && k >= p;
            whole = whole && map->source[k];
        }
        if (whole && !first) continue;
        if (!map->source[p]) continue;
        if (whole)
            ls_text_put(room, "%s%.*s.*", comma, (int)length, graph->params[p].name);
        else
            ls_text_put(room, "%s%s", comma, graph->params[p].name);
        comma = ", ";
    }
}

char *ls_weights_map_text(const ls_weights_map *map, char *dst, size_t bytes) {
    ls_text_room room = { dst, bytes };
    const char *before = "; new: ";
    dst[0] = '\0';
    put_groups(map, &room);
    for (int p = 0; p < map->graph->param_count; p++) {
        if (map->source[p]) continue;
        ls_text_put(&room, "%s%s", before, map->graph->params[p].name);
        before = ", ";
    }
    before = "; left out of the file: ";
    for (int i = 0; i < map->left_count; i++) {
        ls_text_put(&room, "%s%s", before, map->left[i]);
        before = ", ";
    }
    return dst;
}
