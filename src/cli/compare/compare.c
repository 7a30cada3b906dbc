#include "cli/compare/compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "files/manifest.h"

enum { VALUE_BYTES = 256 };

typedef struct {
    const ls_run_files *a, *b;
    cJSON *sections, *section, *differences; // the one that is being made
    int known, different;                    // its items: compared; differing
    int computed, computed_different;        // of the sections that decide
    char first[VALUE_BYTES];                 // where they differ first: "configuration: optimizer.lr"
} comparison;

// --- building ------------------------------------------------------------------------------------

static void begin(comparison *c, const char *name) {
    c->section = ls_json_append(c->sections, cJSON_CreateObject());
    ls_json_add_text(c->section, "name", name);
    c->differences = cJSON_CreateArray();
    c->known = c->different = 0;
}

static void end(comparison *c, int decides, const char *text) {
    const char *verdict = c->different ? "different" : c->known ? "same" : "unknown";
    ls_json_add_text(c->section, "verdict", verdict);
    ls_json_add_text(c->section, "text", text);
    ls_json_add_item(c->section, "differences", c->differences);
    if (decides) c->computed += c->known;
    if (decides) c->computed_different += c->different;
}

static void add_difference(comparison *c, const char *what, const char *a, const char *b, const char *note) {
    cJSON *difference = ls_json_append(c->differences, cJSON_CreateObject());
    ls_json_add_text(difference, "what", what);
    ls_json_add_text(difference, "a", a);
    ls_json_add_text(difference, "b", b);
    if (note) ls_json_add_text(difference, "note", note);
    c->different++;
    if (!note && !c->first[0])
        ls_text_cut(c->first, sizeof c->first, "%s: %s", ls_json_get_text(c->section, "name"), what);
}

// A number as it stands in the file, or a text; "none".
static char *text_of(const cJSON *item, char dst[VALUE_BYTES]) {
    char *text = item && !cJSON_IsString(item) ? cJSON_PrintUnformatted(item) : NULL;
    ls_text_cut(dst, VALUE_BYTES, "%s", text ? text : cJSON_IsString(item) ? item->valuestring : "none");
    cJSON_free(text);
    return dst;
}

// Not cJSON_Compare, to which numbers that differ in their last bits are equal.
static int is_same(const cJSON *a, const cJSON *b) {
    if (cJSON_IsNumber(a) && cJSON_IsNumber(b)) return a->valuedouble == b->valuedouble;
    return cJSON_Compare(a, b, 1);
}

// Members of two objects. What neither has is not compared.
static void compare_members(comparison *c, const cJSON *a, const cJSON *b, const char *const *names, int count) {
    char x[VALUE_BYTES], y[VALUE_BYTES];
    for (int i = 0; i < count; i++) {
        const cJSON *left = ls_json_get(a, names[i]), *right = ls_json_get(b, names[i]);
        if (!left && !right) continue;
        c->known++;
        if (!left || !right || !is_same(left, right))
            add_difference(c, names[i], text_of(left, x), text_of(right, y), NULL);
    }
}

#define MEMBERS(c, a, b, names) compare_members(c, a, b, names, (int)(sizeof(names) / sizeof(names)[0]))

// --- why -----------------------------------------------------------------------------------------

static void compare_version(comparison *c) {
    static const char *const names[] = { "version" };
    char text[VALUE_BYTES];
    begin(c, "version");
    MEMBERS(c, c->a->start, c->b->start, names);
    end(c, 0, text_of(ls_json_get(c->a->start, "version"), text));
}

static int first_differing_line(const char *a, const char *b) {
    int line = 1;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return line;
}

static void compare_network(comparison *c) {
    char where[64];
    if (!c->a->network || !c->b->network) return;
    c->known++;
    if (strcmp(c->a->network, c->b->network) == 0) return;
    snprintf(where, sizeof where, "line %d", first_differing_line(c->a->network, c->b->network));
    add_difference(c, "network.ini", where, where, NULL);
}

static void compare_options(comparison *c, int deciding) {
    char x[LS_TEXT_BYTES], y[LS_TEXT_BYTES];
    const char *name;
    for (int i = 0; ls_config_value(c->a->config, i, &name, x, sizeof x); i++) {
        ls_config_value(c->b->config, i, NULL, y, sizeof y);
        c->known++;
        if (strcmp(x, y) == 0 || ls_manifest_decides(i) != deciding) continue;
        add_difference(c, name, x[0] ? x : "empty", y[0] ? y : "empty", deciding ? NULL : "decides no result");
    }
}

static void compare_configuration(comparison *c) {
    begin(c, "configuration");
    if (c->a->config && c->b->config) compare_options(c, 1);
    compare_network(c);
    if (c->a->config && c->b->config) compare_options(c, 0);
    end(c, 0, "");
}

static void compare_data(comparison *c) {
    static const char *const of_start[] = { "dataset", "train_samples", "val_samples", "train_broken", "val_broken",
        "test_broken", "train_data", "val_data", "test_data" };
    static const char *const sets[] = { "data", "validation_data", "test_data" };
    static const char *const of_set[] = { "samples", "checksum", "content", "decoder" };
    begin(c, "data");
    MEMBERS(c, c->a->start, c->b->start, of_start);
    const int manifests = c->a->manifest && c->b->manifest;
    const int hashed = manifests || (ls_json_get(c->a->start, "train_data") && ls_json_get(c->b->start, "train_data"));
    for (size_t i = 0; manifests && i < sizeof sets / sizeof sets[0]; i++)
        MEMBERS(c, ls_json_get(c->a->manifest, sets[i]), ls_json_get(c->b->manifest, sets[i]), of_set);
    end(c, 0, hashed ? "" : "by names and counts: an earlier version wrote no identity of the data");
}

static void compare_device(comparison *c) {
    static const char *const names[] = { "device", "device_name", "libraries", "communicator", "gradient_sums",
        "world_size", "threads_per_rank", "micro_batch", "accumulation_steps" };
    char x[VALUE_BYTES], y[VALUE_BYTES];
    begin(c, "device");
    MEMBERS(c, c->a->start, c->b->start, names);
    snprintf(x, sizeof x, "%d", c->a->parts);
    snprintf(y, sizeof y, "%d", c->b->parts);
    if (c->a->parts != c->b->parts)
        add_difference(c, "parts", x, y, "a run that went on from a checkpoint has several");
    end(c, 0, "");
}

// --- what was computed ---------------------------------------------------------------------------

// The next events of both with the same update, from those at *i and *j on; 0: there are none.
static int next_common(const ls_event_list *a, const ls_event_list *b, int *i, int *j) {
    while (*i < a->count && *j < b->count) {
        const int64_t x = ls_event_update(a->event[*i]), y = ls_event_update(b->event[*j]);
        if (x == y) return 1;
        ++*(x < y ? i : j);
    }
    return 0;
}

// Up to the first event in which they differ; what: "checkpoint".
static void compare_events(comparison *c, ls_event_kind kind, const char *what, const char *const *names, int count) {
    const ls_event_list *a = &c->a->events[kind], *b = &c->b->events[kind];
    char text[VALUE_BYTES] = "";
    ls_text_room room = { text, sizeof text };
    int same = 0;
    for (int i = 0, j = 0; !c->different && next_common(a, b, &i, &j); i++, j++) {
        const int known = c->known;
        compare_members(c, a->event[i], b->event[j], names, count);
        same += c->known > known && !c->different;
        if (c->different)
            ls_text_put(&room, "differ at the %s of update %" PRId64 " (epochs done: %.0f), ", what,
                ls_event_update(a->event[i]), cJSON_GetNumberValue(ls_json_get(a->event[i], "epoch")));
    }
    if (c->known)
        ls_text_put(&room, "the same at %d %s%s%s", same, what, same == 1 ? "" : "s", c->different ? " before it" : "");
    else
        ls_text_put(&room, "no %s of the same update in both", what);
    end(c, 1, text);
}

static void compare_weights(comparison *c) {
    static const char *const names[] = { "weights_hash" };
    begin(c, "weights");
    compare_events(c, LS_EVENT_CHECKPOINT, "checkpoint", names, 1);
}

static void compare_evaluations(comparison *c) {
    static const char *const names[] = { "val_loss", "val_accuracy", "test_loss", "test_accuracy", "tta_loss",
        "tta_accuracy" };
    begin(c, "evaluations");
    compare_events(c, LS_EVENT_EVAL, "evaluation", names, (int)(sizeof names / sizeof names[0]));
}

// A loss is the mean since the event before: of two runs it is that of the same updates where these were the same.
static int same_window(const ls_event_list *lists[2], const int at[2]) {
    if (at[0] == 0 || at[1] == 0) return at[0] == at[1];
    return ls_event_update(lists[0]->event[at[0] - 1]) == ls_event_update(lists[1]->event[at[1] - 1]);
}

static double difference_at(const ls_event_list *lists[2], const int at[2], const char *name) {
    return fabs(cJSON_GetNumberValue(ls_json_get(lists[0]->event[at[0]], name)) -
                cJSON_GetNumberValue(ls_json_get(lists[1]->event[at[1]], name)));
}

static void compare_losses(comparison *c) {
    static const char *const at_update[] = { "grad_norm", "loss_scale", "learning_rate", "skipped", "samples_seen" };
    static const char *const of_window[] = { "train_loss", "train_accuracy" };
    const ls_event_list *lists[2] = { &c->a->events[LS_EVENT_TRAIN], &c->b->events[LS_EVENT_TRAIN] };
    int at[2] = { 0, 0 }, last[2] = { -1, -1 }, common = 0;
    char text[VALUE_BYTES] = "";
    ls_text_room room = { text, sizeof text };
    begin(c, "losses");
    for (; next_common(lists[0], lists[1], &at[0], &at[1]); at[0]++, at[1]++) {
        const cJSON *x = lists[0]->event[at[0]], *y = lists[1]->event[at[1]];
        const int comparable = same_window(lists, at), before = c->different;
        common++;
        if (comparable) memcpy(last, at, sizeof last);
        if (before) continue;
        if (comparable) MEMBERS(c, x, y, of_window);
        MEMBERS(c, x, y, at_update);
        if (!c->different) continue;
        const char *what = ls_json_get_text(cJSON_GetArrayItem(c->differences, 0), "what");
        ls_text_put(&room, "differ first at update %" PRId64 ", %s by %.3g; ", ls_event_update(x), what ? what : "?",
            difference_at(lists, at, what ? what : ""));
    }
    if (c->different && last[0] >= 0)
        ls_text_put(&room, "at the last of both, %" PRId64 ", train_loss by %.3g",
            ls_event_update(lists[0]->event[last[0]]), difference_at(lists, last, of_window[0]));
    else
        ls_text_put(&room, "at %d update%s of both metrics.jsonl", common, common == 1 ? "" : "s");
    end(c, 1, text);
}

static void compare_results(comparison *c) {
    static const char *const names[] = { "weights_hash", "updates", "skipped_updates", "samples_seen", "train_loss",
        "val_loss", "val_accuracy", "test_loss", "test_accuracy", "tta_loss", "tta_accuracy" };
    const cJSON *a = c->a->summary, *b = c->b->summary;
    begin(c, "results");
    if (a && b) MEMBERS(c, a, b, names);
    if (!a != !b) {
        c->known++;
        add_difference(c, "summary.json", a ? "complete" : "not complete", b ? "complete" : "not complete", NULL);
    }
    end(c, 1, a || b ? "" : "neither run is complete");
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status compare_all(comparison *c, cJSON *report) {
    ls_json_add_text(report, "a", c->a->path);
    ls_json_add_text(report, "b", c->b->path);
    c->sections = cJSON_CreateArray();
    compare_version(c);
    compare_configuration(c);
    compare_data(c);
    compare_device(c);
    compare_weights(c);
    compare_losses(c);
    compare_evaluations(c);
    compare_results(c);
    ls_json_add_bool(report, "same", c->computed_different == 0);
    c->first[0] ? ls_json_add_text(report, "first", c->first) : ls_json_add_null(report, "first");
    ls_json_add_item(report, "sections", c->sections);
    if (!ls_json_is_whole(report)) return ls_no_memory(0, "what differs between two runs");
    if (c->computed) return LS_SUCCESS;
    return ls_fail(LS_STORAGE,
        "%s and %s have nothing to compare: no update or checkpoint in both, and no result of either", c->a->path,
        c->b->path);
}

ls_status ls_compare(const ls_run_files *a, const ls_run_files *b, cJSON **report) {
    comparison c = { .a = a, .b = b };
    cJSON *tree = cJSON_CreateObject();
    ls_status status = compare_all(&c, tree);
    return LS_GIVE(status, tree, report, cJSON_Delete);
}

static const char *member(const cJSON *object, const char *name) {
    const char *text = ls_json_get_text(object, name);
    return text ? text : "";
}

void ls_compare_print(const cJSON *report, FILE *file) {
    const cJSON *section, *difference;
    cJSON_ArrayForEach(section, ls_json_get(report, "sections")) {
        const char *text = member(section, "text");
        fprintf(file, "%-13s  %s%s", member(section, "name"), member(section, "verdict"), text[0] ? ": " : "");
        ls_text_print(file, text);
        fputc('\n', file);
        cJSON_ArrayForEach(difference, ls_json_get(section, "differences")) {
            const char *note = member(difference, "note");
            fputs("    ", file);
            ls_text_print(file, member(difference, "what"));
            fputs("  ", file);
            ls_text_print(file, member(difference, "a"));
            fputs("  |  ", file);
            ls_text_print(file, member(difference, "b"));
            fprintf(file, "%s%s%s\n", note[0] ? "  (" : "", note, note[0] ? ")" : "");
        }
    }
    if (!cJSON_IsTrue(ls_json_get(report, "same"))) return;
    const char *first = member(report, "first");
    fputs(first[0] ? "the same weights and losses, though they differ in " : "the same weights and losses", file);
    ls_text_print(file, first);
    fputc('\n', file);
}

ls_status ls_compare_outcome(const cJSON *report) {
    if (cJSON_IsTrue(ls_json_get(report, "same"))) return LS_SUCCESS;
    return ls_fail(
        LS_NUMERIC, "%s and %s differ, first in %s", member(report, "a"), member(report, "b"), member(report, "first"));
}
