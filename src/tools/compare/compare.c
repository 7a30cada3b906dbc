#include "tools/compare/compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/text.h"
#include "run/manifest.h"
#include "train/diagnose/state_diff.h"

enum { VALUE_BYTES = 256, PRINTED_MAX = 12 };

typedef struct {
    ls_side *a, *b;
    int are_runs;                            // whether both sides are runs
    cJSON *sections, *section, *differences; // all sections; the current section and its list
    int decides;                             // whether the current section decides if the sides are the same
    int known, different, counting;   // numbers of items of the section: compared; differing; differing and counted
    int computed, computed_different; // sums of known and of counting over the sections that decide
    int64_t differs_at;               // first update whose checkpoints have different weights; -1: not found
    int in_tensors;                   // whether section "tensors" has begun
    int only_in_b;                    // number of tensors that only b has
    char first[VALUE_BYTES];          // "configuration: optimizer.lr"
} comparison;

// --- building ------------------------------------------------------------------------------------

static void begin(comparison *c, const char *name, int decides) {
    c->section = ls_json_append(c->sections, cJSON_CreateObject());
    ls_json_add_text(c->section, "name", name);
    c->differences = cJSON_CreateArray();
    c->known = c->different = c->counting = 0;
    c->decides = decides;
}

static void end(comparison *c, const char *text) {
    const char *verdict = c->different ? "different" : c->known ? "same" : "unknown";
    ls_json_add_text(c->section, "verdict", verdict);
    ls_json_add_text(c->section, "text", text);
    ls_json_add_item(c->section, "differences", c->differences);
    if (c->decides) c->computed += c->known;
    if (c->decides) c->computed_different += c->counting;
}

// Adds a difference of two values to the section. counts: 1 if it shows that the computations differ; 0 if it is
// possible between two sides with the same computation.
static void add_difference(
    comparison *c, int counts, const char *what, const char *a, const char *b, const char *note) {
    cJSON *difference = ls_json_append(c->differences, cJSON_CreateObject());
    ls_json_add_text(difference, "what", what);
    ls_json_add_text(difference, "a", a);
    ls_json_add_text(difference, "b", b);
    if (note && note[0]) ls_json_add_text(difference, "note", note);
    c->different++;
    c->counting += counts;
    if (counts && !c->first[0])
        ls_text_cut(c->first, sizeof c->first, "%s: %s", ls_json_get_text(c->section, "name"), what);
}

// Compares the named members of two objects. A member that both objects lack is skipped.
static void compare_members(comparison *c, const cJSON *a, const cJSON *b, const char *const *names, int count) {
    char x[VALUE_BYTES], y[VALUE_BYTES];
    for (int i = 0; i < count && names[i]; i++) {
        const cJSON *left = ls_json_get(a, names[i]), *right = ls_json_get(b, names[i]);
        if (!left && !right) continue;
        c->known++;
        if (!left || !right || !ls_fact_same(left, right))
            add_difference(c, 1, names[i], ls_fact_text(left, x, sizeof x), ls_fact_text(right, y, sizeof y), NULL);
    }
}

#define MEMBERS(c, a, b, names) compare_members(c, a, b, names, (int)(sizeof(names) / sizeof(names)[0]))

// --- causes: version, configuration, data, device ------------------------------------------------

// Returns the manifest that describes a side: of the run's newest checkpoint if both sides are runs, otherwise of the
// open checkpoint; NULL if there is no manifest.
static const cJSON *manifest_of(const comparison *c, const ls_side *side) {
    if (c->are_runs) return side->manifest;
    return side->checkpoint ? side->checkpoint->manifest : NULL;
}

static int first_differing_line(const char *a, const char *b) {
    int line = 1;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return line;
}

static void compare_network(comparison *c) {
    char where[64];
    if (!c->are_runs || !c->a->network || !c->b->network) return;
    c->known++;
    if (strcmp(c->a->network, c->b->network) == 0) return;
    snprintf(where, sizeof where, "line %d", first_differing_line(c->a->network, c->b->network));
    add_difference(c, 1, "network.ini", where, where, NULL);
}

// Writes the value of an option into dst. Returns 0 if the side does not have it.
static int option_of(const comparison *c, const ls_side *side, int option, const char *name, char *dst, size_t bytes) {
    if (c->are_runs) return side->config && ls_config_value(side->config, option, NULL, dst, bytes);
    const char *text = ls_json_get_text(ls_json_get(manifest_of(c, side), "config"), name);
    ls_text_cut(dst, bytes, "%s", text ? text : "");
    return text != NULL;
}

static void compare_options(comparison *c, int deciding) {
    char x[LS_TEXT_BYTES], y[LS_TEXT_BYTES];
    ls_config defaults; // only for the names of the options
    const char *name;
    ls_config_defaults(&defaults);
    for (int i = 0; ls_config_value(&defaults, i, &name, x, sizeof x); i++) {
        if (!option_of(c, c->a, i, name, x, sizeof x) || !option_of(c, c->b, i, name, y, sizeof y)) continue;
        c->known++;
        if (strcmp(x, y) == 0 || ls_manifest_decides(i) != deciding) continue;
        add_difference(
            c, deciding, name, x[0] ? x : "empty", y[0] ? y : "empty", deciding ? NULL : "decides no result");
    }
}

static void compare_configuration(comparison *c) {
    begin(c, "configuration", 0);
    compare_options(c, 1);
    compare_network(c);
    compare_options(c, 0);
    end(c, "");
}

enum { OF_RUNS = 1, OF_STATES = 2 };
#define OF_SET \
    { "name", "samples", "checksum", "content", "decoder" }

static const struct {
    const char *section;
    int of;             // pairs that use the row: OF_RUNS alone reads start events, every other value reads manifests
    const char *object; // member that holds the names; "": the names are at the top
    const char *names[9];
} whys[] = {
    { "version", OF_RUNS, "", { "version" } },
    { "version", OF_STATES, "", { "program" } },
    { "data", OF_RUNS, "",
        { "dataset", "train_samples", "val_samples", "train_broken", "val_broken", "test_broken", "train_data",
            "val_data", "test_data" } },
    { "data", OF_RUNS | OF_STATES, "data", OF_SET },
    { "data", OF_RUNS | OF_STATES, "validation_data", OF_SET },
    { "data", OF_RUNS | OF_STATES, "test_data", OF_SET },
    { "device", OF_RUNS, "",
        { "device", "device_name", "libraries", "communicator", "gradient_sums", "world_size", "threads_per_rank",
            "micro_batch", "accumulation_steps" } },
    { "device", OF_STATES, "", { "device", "libraries" } },
    { "device", OF_STATES, "batches", { "world_size", "micro_batch" } },
};

static void compare_why(comparison *c, const char *section, const char *text) {
    char x[VALUE_BYTES], y[VALUE_BYTES];
    begin(c, section, 0);
    for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
        if (strcmp(whys[i].section, section) != 0 || !(whys[i].of & (c->are_runs ? OF_RUNS : OF_STATES))) continue;
        const cJSON *a = whys[i].of == OF_RUNS ? c->a->start : manifest_of(c, c->a);
        const cJSON *b = whys[i].of == OF_RUNS ? c->b->start : manifest_of(c, c->b);
        if (!a || !b) continue;
        if (whys[i].object[0]) a = ls_json_get(a, whys[i].object), b = ls_json_get(b, whys[i].object);
        MEMBERS(c, a, b, whys[i].names);
    }
    snprintf(x, sizeof x, "%d", c->a->parts);
    snprintf(y, sizeof y, "%d", c->b->parts);
    if (strcmp(section, "device") == 0 && c->are_runs && c->a->parts != c->b->parts)
        add_difference(c, 0, "parts", x, y, "a run that went on from a checkpoint has several");
    end(c, text);
}

static int is_data_hashed(const comparison *c) {
    return (manifest_of(c, c->a) && manifest_of(c, c->b)) ||
           (ls_json_get(c->a->start, "train_data") && ls_json_get(c->b->start, "train_data"));
}

static const char *version_of(const comparison *c, char text[VALUE_BYTES]) {
    const cJSON *start = c->a->start, *manifest = manifest_of(c, c->a);
    return ls_fact_text(
        c->are_runs ? ls_json_get(start, "version") : ls_json_get(manifest, "program"), text, VALUE_BYTES);
}

// --- the history of two runs ---------------------------------------------------------------------

// Moves *i and *j forward to the next pair of events with the same update. Returns 0 if there is no further pair.
static int next_common(const ls_event_list *a, const ls_event_list *b, int *i, int *j) {
    while (*i < a->count && *j < b->count) {
        const int64_t x = ls_event_update(a->event[*i]), y = ls_event_update(b->event[*j]);
        if (x == y) return 1;
        ++*(x < y ? i : j);
    }
    return 0;
}

// Compares the events of one kind, up to the first pair that differs. what: the kind in words, "checkpoint".
static void compare_events(comparison *c, ls_event_kind kind, const char *what, const char *const *names, int count) {
    const ls_event_list *a = &c->a->events[kind], *b = &c->b->events[kind];
    char text[VALUE_BYTES] = "";
    ls_text_room room = { text, sizeof text };
    int same = 0;
    for (int i = 0, j = 0; !c->different && next_common(a, b, &i, &j); i++, j++) {
        const int known = c->known;
        compare_members(c, a->event[i], b->event[j], names, count);
        same += c->known > known && !c->different;
        if (c->different && kind == LS_EVENT_CHECKPOINT) c->differs_at = ls_event_update(a->event[i]);
        if (c->different)
            ls_text_put(&room, "differ at the %s of update %" PRId64 " (epochs done: %.0f), ", what,
                ls_event_update(a->event[i]), cJSON_GetNumberValue(ls_json_get(a->event[i], "epoch")));
    }
    if (c->known)
        ls_text_put(&room, "the same at %d %s%s%s", same, what, same == 1 ? "" : "s", c->different ? " before it" : "");
    else
        ls_text_put(&room, "no %s of the same update in both", what);
    end(c, text);
}

static void compare_weights(comparison *c) {
    static const char *const names[] = { "weights_hash" };
    begin(c, "weights", 1);
    compare_events(c, LS_EVENT_CHECKPOINT, "checkpoint", names, 1);
}

static void compare_evaluations(comparison *c) {
    static const char *const names[] = { "val_loss", "val_accuracy", "test_loss", "test_accuracy", "tta_loss",
        "tta_accuracy" };
    begin(c, "evaluations", 1);
    compare_events(c, LS_EVENT_EVAL, "evaluation", names, (int)(sizeof names / sizeof names[0]));
}

// Returns 1 if the losses of two events cover the same updates. A loss is the mean since the previous event, so the
// previous events must have the same update.
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
    begin(c, "losses", 1);
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
    end(c, text);
}

static void compare_results(comparison *c) {
    static const char *const names[] = { "weights_hash", "updates", "skipped_updates", "samples_seen", "train_loss",
        "val_loss", "val_accuracy", "test_loss", "test_accuracy", "tta_loss", "tta_accuracy" };
    const cJSON *a = c->a->summary, *b = c->b->summary;
    begin(c, "results", 1);
    if (a && b) MEMBERS(c, a, b, names);
    if (!a != !b) {
        c->known++;
        add_difference(c, 1, "summary.json", a ? "complete" : "not complete", b ? "complete" : "not complete", NULL);
    }
    end(c, a || b ? "" : "neither run is complete");
}

// --- states --------------------------------------------------------------------------------------

static int is_open(const ls_side *side) {
    return side->checkpoint || side->weights;
}

// Returns an update at which both runs have a checkpoint: the first one at or after differs_at, or else the last one.
// Returns -1 if the runs have no such update.
static int64_t common_update(const comparison *c) {
    int64_t found = -1;
    for (int i = 0, j = 0; i < c->a->saved_count && j < c->b->saved_count;) {
        const int64_t x = c->a->saved[i], y = c->b->saved[j];
        if (x == y) found = x;
        if (x == y && c->differs_at >= 0 && x >= c->differs_at) break;
        if (x <= y) i++;
        if (y <= x) j++;
    }
    return found;
}

static ls_status open_runs(comparison *c, int64_t *update) {
    *update = common_update(c);
    if (*update >= 0) {
        LS_TRY(ls_side_open_checkpoint(c->a, *update));
        LS_TRY(ls_side_open_checkpoint(c->b, *update));
        if (is_open(c->a) && is_open(c->b)) return LS_SUCCESS;
    }
    *update = -1;
    LS_TRY(ls_side_open_weights(c->a));
    return ls_side_open_weights(c->b);
}

// Opens the state of a run that is compared with a checkpoint or a weights file. Prefers the checkpoint of the same
// update, and then the newest one; against a weights file the final weights, and then the newest checkpoint.
static ls_status open_beside(ls_side *run, const ls_side *other) {
    if (other->checkpoint) {
        LS_TRY(ls_side_open_checkpoint(run, other->checkpoint->counters.update));
        if (!run->checkpoint) LS_TRY(ls_side_open_newest(run));
    }
    if (!is_open(run)) LS_TRY(ls_side_open_weights(run));
    if (!is_open(run)) LS_TRY(ls_side_open_newest(run));
    if (is_open(run)) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: has no weights.safetensors and no checkpoint to compare", run->path);
}

static void begin_tensors(comparison *c) {
    if (c->in_tensors++) return;
    if (c->section) end(c, "");
    begin(c, "tensors", 1);
}

static void take_difference(void *context, const ls_state_difference *d) {
    comparison *c = context;
    if (d->is_tensor) begin_tensors(c);
    c->only_in_b += d->is_tensor && strcmp(d->a, "none") == 0;
    add_difference(c, !c->are_runs || d->is_tensor, d->name, d->a, d->b, d->note);
}

static void end_tensors(comparison *c, const ls_state *a, int64_t update) {
    char text[VALUE_BYTES] = "", where[64] = "";
    c->known = a->count + c->only_in_b;
    if (c->are_runs)
        snprintf(where, sizeof where, update < 0 ? "final weights" : "checkpoints of update %" PRId64, update);
    ls_text_cut(text, sizeof text, "%d of %d %s%s", c->different ? c->different : c->known, c->known,
        c->different ? "differ" : "are the same", where[0] ? ", in the " : "");
    ls_text_cut(text + strlen(text), sizeof text - strlen(text), "%s", where);
    end(c, text);
}

static void compare_states(comparison *c, int64_t update) {
    const ls_checkpoint *x = c->a->checkpoint, *y = c->b->checkpoint;
    const int whole = x && y; // otherwise only weights are compared
    ls_state a = ls_state_of_files(x ? x->weights : c->a->weights, whole ? x->state : NULL, whole ? x->manifest : NULL);
    ls_state b = ls_state_of_files(y ? y->weights : c->b->weights, whole ? y->state : NULL, whole ? y->manifest : NULL);
    c->section = NULL;
    if (whole) begin(c, "counters", !c->are_runs); // log.every changes some counters, so they do not decide for runs
    c->known = whole;
    ls_state_diff(&a, &b, take_difference, c);
    begin_tensors(c);
    end_tensors(c, &a, update);
    ls_state_free(&a);
    ls_state_free(&b);
}

// --- the whole -----------------------------------------------------------------------------------

static const char *compared(const comparison *c) {
    return c->are_runs ? "weights and losses" : c->a->checkpoint && c->b->checkpoint ? "state" : "weights";
}

static ls_status compare_all(comparison *c, cJSON *report) {
    char version[VALUE_BYTES];
    int64_t update = -1;
    ls_json_add_text(report, "a", c->a->path);
    ls_json_add_text(report, "b", c->b->path);
    c->sections = ls_json_add_array(report, "sections");
    if (c->a->kind == LS_SIDE_RUN && !c->are_runs) LS_TRY(open_beside(c->a, c->b));
    if (c->b->kind == LS_SIDE_RUN && !c->are_runs) LS_TRY(open_beside(c->b, c->a));
    if (c->are_runs || (c->a->checkpoint && c->b->checkpoint)) {
        compare_why(c, "version", version_of(c, version));
        compare_configuration(c);
        compare_why(c, "data", is_data_hashed(c) ? "" : "by names and counts: an earlier version wrote no identity");
        compare_why(c, "device", "");
    }
    if (c->are_runs) {
        compare_weights(c);
        compare_losses(c);
        compare_evaluations(c);
        compare_results(c);
        LS_TRY(open_runs(c, &update));
    }
    if (is_open(c->a) && is_open(c->b)) compare_states(c, update);
    ls_json_add_text(report, "of", compared(c));
    ls_json_add_bool(report, "same", c->computed_different == 0);
    c->first[0] ? ls_json_add_text(report, "first", c->first) : ls_json_add_null(report, "first");
    if (c->computed) return LS_SUCCESS;
    return ls_fail(LS_STORAGE,
        "%s and %s have nothing to compare: no update or checkpoint in both, and no result of either", c->a->path,
        c->b->path);
}

ls_status ls_compare(ls_side *a, ls_side *b, cJSON **report) {
    comparison c = { .a = a, .b = b, .differs_at = -1, .are_runs = a->kind == LS_SIDE_RUN && b->kind == LS_SIDE_RUN };
    cJSON *tree = cJSON_CreateObject();
    ls_status status = compare_all(&c, tree);
    return LS_GIVE_OR_FREE(status, tree, report, cJSON_Delete);
}

static const char *member(const cJSON *object, const char *name) {
    const char *text = ls_json_get_text(object, name);
    return text ? text : "";
}

static void print_difference(const cJSON *difference, FILE *file) {
    const char *note = member(difference, "note");
    fputs("    ", file);
    ls_text_print(file, member(difference, "what"));
    fputs("  ", file);
    ls_text_print(file, member(difference, "a"));
    fputs("  |  ", file);
    ls_text_print(file, member(difference, "b"));
    fprintf(file, "%s%s%s\n", note[0] ? "  (" : "", note, note[0] ? ")" : "");
}

static void print_section(const cJSON *section, FILE *file) {
    const char *text = member(section, "text");
    const cJSON *differences = ls_json_get(section, "differences"), *difference;
    const int count = cJSON_GetArraySize(differences);
    int printed = 0;
    fprintf(file, "%-13s  %s%s", member(section, "name"), member(section, "verdict"), text[0] ? ": " : "");
    ls_text_print(file, text);
    fputc('\n', file);
    cJSON_ArrayForEach(difference, differences) {
        if (printed++ < PRINTED_MAX) print_difference(difference, file);
    }
    if (count > PRINTED_MAX) fprintf(file, "    and %d more (--json has all)\n", count - PRINTED_MAX);
}

void ls_compare_print(const cJSON *report, FILE *file) {
    const cJSON *section;
    cJSON_ArrayForEach(section, ls_json_get(report, "sections")) {
        print_section(section, file);
    }
    if (!cJSON_IsTrue(ls_json_get(report, "same"))) return;
    const char *first = member(report, "first");
    fprintf(file, "the same %s%s", member(report, "of"), first[0] ? ", though they differ in " : "");
    ls_text_print(file, first);
    fputc('\n', file);
}

ls_status ls_compare_outcome(const cJSON *report) {
    if (cJSON_IsTrue(ls_json_get(report, "same"))) return LS_SUCCESS;
    return ls_fail(
        LS_NUMERIC, "%s and %s differ, first in %s", member(report, "a"), member(report, "b"), member(report, "first"));
}
