#include "tools/audit/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/memory.h"
#include "run/manifest.h"
#include "run/metrics_reader.h"
#include "run/run_identity.h"

// --- metrics.jsonl -------------------------------------------------------------------------------

int ls_audit_is(const ls_audit_line *line, const char *kind) {
    return strcmp(line->kind, kind) == 0;
}

static ls_status take_line(void *context, const ls_metrics_line *line) {
    static const char *const kinds[] = { "start", "train", "eval", "checkpoint", "nonfinite" };
    ls_audit_lines *lines = context;
    const char *status = ls_json_get_text(line->json, "status");
    if (strcmp(line->kind, "start") == 0) lines->completed = 0;
    if (strcmp(line->kind, "end") == 0 && status && strcmp(status, "completed") == 0) lines->completed = line->update;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(line->kind, kinds[k]) != 0 || (line->redone && !lines->redone)) continue;
        lines->line = ls_grow(lines->line, lines->count, sizeof *lines->line, "events of a run");
        lines->line[lines->count++] = (ls_audit_line){
            .json = cJSON_Duplicate(line->json, 1), .kind = kinds[k], .number = line->line, .update = line->update
        };
    }
    return LS_SUCCESS;
}

ls_status ls_audit_lines_read(const char *path, ls_audit_lines *lines) {
    ls_metrics_reader *reader;
    LS_TRY(ls_metrics_reader_open(path, &reader));
    ls_status status = ls_metrics_reader_each(reader, take_line, lines);
    const ls_metrics_state *state = ls_metrics_reader_state(reader);
    // half a line at the end is no fault of the file: a killed process leaves it
    if (state->damaged > 0 && state->named[0] != state->cut) lines->damaged = state->named[0];
    ls_metrics_reader_close(reader);
    return status;
}

void ls_audit_lines_free(ls_audit_lines *lines) {
    for (int i = 0; i < lines->count; i++) cJSON_Delete(lines->line[i].json);
    free(lines->line);
    *lines = (ls_audit_lines){ 0 };
}

const ls_audit_line *ls_audit_lines_find(const ls_audit_lines *lines, const char *kind, int64_t update) {
    for (int i = 0; i < lines->count; i++)
        if (lines->line[i].update == update && ls_audit_is(&lines->line[i], kind)) return &lines->line[i];
    return NULL;
}

// --- points --------------------------------------------------------------------------------------

static int64_t whole(const cJSON *object, const char *name, int64_t otherwise) {
    int64_t value;
    return ls_json_whole(ls_json_get(object, name), LS_JSON_WHOLE_MAX, &value) ? value : otherwise;
}

static ls_audit_point *add_point(ls_record *r, int64_t update) {
    r->point = ls_grow(r->point, r->count, sizeof *r->point, "points of a run");
    r->point[r->count] = (ls_audit_point){ .update = update };
    return &r->point[r->count++];
}

static ls_status add_checkpoint(ls_record *r, int64_t update) {
    char folder[LS_TEXT_BYTES];
    ls_audit_point *point = add_point(r, update);
    ls_train_counters counters;
    LS_TRY(ls_path_join(folder, sizeof folder, r->side->path, "checkpoints"));
    LS_TRY(ls_checkpoint_path(folder, update, point->path, sizeof point->path));
    ls_status status = ls_checkpoint_read_manifest(point->path, &point->manifest, &counters);
    return status.code == LS_STORAGE ? LS_SUCCESS : status; // a damaged one is reported when it is compared
}

// Returns the number of updates that the record shows at least.
static int64_t last_update(const ls_record *r) {
    int64_t last = r->final;
    for (int i = 0; i < r->lines.count; i++) {
        const ls_audit_line *line = &r->lines.line[i];
        const int64_t update = line->update + ls_audit_is(line, "nonfinite"); // the update that failed counts
        if (update > last) last = update;
    }
    return last;
}

static ls_status add_points(ls_record *r) {
    add_point(r, 0);
    for (int i = 0; i < r->side->saved_count; i++)
        if (r->side->saved[i] > 0) LS_TRY(add_checkpoint(r, r->side->saved[i]));
    const int64_t last = last_update(r);
    if (last > r->point[r->count - 1].update) add_point(r, last);
    return LS_SUCCESS;
}

// A run that began with a checkpoint of another run, as after a sweep's stem, has no events of the updates before.
static ls_status find_beginning(ls_record *r) {
    char path[2 * LS_TEXT_BYTES];
    ls_run_identity identity;
    int known;
    const ls_audit_line *first = r->lines.line;
    const int starts = r->lines.count && ls_audit_is(first, "start");
    const int64_t resumed = starts ? whole(first->json, "resumed_at_update", 0) : 0;
    LS_TRY(ls_path_join(path, sizeof path, r->side->path, "run.json"));
    LS_TRY(ls_run_identity_read(path, &identity, &known));
    for (int i = 0; i < identity.adopted_count; i++)
        if (identity.adopted[i].update >= resumed) r->begins = resumed;
    return LS_SUCCESS;
}

static ls_status read_all(const char *run, ls_record *r) {
    LS_TRY(ls_side_read(run, &r->side));
    if (r->side->kind != LS_SIDE_RUN)
        return ls_fail(LS_USAGE, "%s: is no run's folder; train audit takes the folder that a run has written", run);
    if (!r->side->config) return ls_fail(LS_STORAGE, "%s: has no config.ini, which names the options of the run", run);
    LS_TRY(ls_audit_lines_read(run, &r->lines));
    LS_TRY(find_beginning(r));
    r->final = r->lines.completed ? r->lines.completed : whole(r->side->summary, "updates", -1);
    return add_points(r);
}

ls_status ls_record_read(const char *run, ls_record **out) {
    ls_record *r = ls_new(1, sizeof *r, "%s", run);
    ls_status status = read_all(run, r);
    return LS_GIVE_OR_FREE(status, r, out, ls_record_free);
}

void ls_record_free(ls_record *r) {
    if (!r) return;
    for (int i = 0; i < r->count; i++) cJSON_Delete(r->point[i].manifest);
    free(r->point);
    ls_audit_lines_free(&r->lines);
    ls_side_free(r->side);
    free(r);
}

// --- options -------------------------------------------------------------------------------------

// Sets an option to a recorded value. The option keeps its origin (line), so that no message mentions --set.
static ls_status set_option(ls_config *cfg, int option, const char *name, const char *value) {
    const int line = cfg->line[option];
    char *assignment = ls_new_textf("%s=%s", name, value);
    ls_status status = ls_config_set(cfg, assignment);
    cfg->line[option] = line;
    free(assignment);
    return status;
}

static ls_status set_by_name(ls_config *cfg, const char *wanted, const char *value) {
    char unused[LS_TEXT_BYTES];
    const char *name;
    for (int i = 0; wanted && value && ls_config_value(cfg, i, &name, unused, sizeof unused); i++)
        if (strcmp(name, wanted) == 0) return set_option(cfg, i, name, value);
    return LS_SUCCESS; // no option, such as "the micro-batch"
}

// Sets the options that the manifest names. An earlier version did not write options that it lacked; its programs
// behaved like the defaults.
static ls_status take_options(const cJSON *manifest, ls_config *cfg) {
    char now[LS_TEXT_BYTES], preset[LS_TEXT_BYTES];
    const char *name;
    ls_config defaults;
    ls_config_defaults(&defaults);
    for (int i = 0; ls_config_value(cfg, i, &name, now, sizeof now); i++) {
        const char *value = ls_json_get_text(ls_json_get(manifest, "config"), name);
        ls_config_value(&defaults, i, &name, preset, sizeof preset);
        if (!value) value = preset;
        if (ls_manifest_records(i) && strcmp(value, now) != 0) LS_TRY(set_option(cfg, i, name, value));
    }
    return LS_SUCCESS;
}

// Undoes the changes with which a later part began.
static ls_status undo(const cJSON *part, ls_audit_leg *leg) {
    const cJSON *change;
    cJSON_ArrayForEach(change, ls_json_get(part, "changed")) {
        const char *name = ls_json_get_text(change, "option");
        leg->other_network |= name && strcmp(name, "the network") == 0;
        LS_TRY(set_by_name(&leg->cfg, name, ls_json_get_text(change, "before")));
    }
    return LS_SUCCESS;
}

// --- legs ----------------------------------------------------------------------------------------

// Returns the start event of part number `part` (0: of the last part), or NULL.
static const cJSON *start_of(const ls_record *r, int part) {
    for (int i = r->lines.count - 1; i >= 0; i--)
        if (ls_audit_is(&r->lines.line[i], "start") && (part == 0 || whole(r->lines.line[i].json, "part", 0) == part))
            return r->lines.line[i].json;
    return NULL;
}

// Finds the part of the manifest that computed the updates after `at`.
static ls_status take_part(const cJSON *manifest, int64_t at, ls_audit_leg *leg) {
    const cJSON *parts = ls_json_get(manifest, "parts");
    leg->manifest = manifest;
    LS_TRY(take_options(manifest, &leg->cfg));
    for (int k = cJSON_GetArraySize(parts) - 1; k >= 0; k--) {
        const cJSON *part = cJSON_GetArrayItem(parts, k);
        const int64_t begins = whole(part, "after_update", 0);
        leg->part = k + 1;
        leg->facts = part;
        if (begins <= at) return LS_SUCCESS;
        if (begins < leg->to) leg->to = begins;
        LS_TRY(undo(part, leg));
    }
    return LS_SUCCESS;
}

// Takes from the facts of a part its ranks and device, and its micro-batch if the options leave that open.
static ls_status take_facts(ls_audit_leg *leg) {
    char text[32];
    leg->ranks = (int)whole(leg->facts, "world_size", 0);
    snprintf(text, sizeof text, "%lld", (long long)whole(leg->facts, "micro_batch", 0));
    if (leg->cfg.train_micro_batch == LS_AUTO) LS_TRY(set_by_name(&leg->cfg, "train.micro_batch", text));
    return set_by_name(&leg->cfg, "device.type", ls_json_get_text(leg->facts, "device"));
}

ls_status ls_record_leg(
    const ls_record *r, int64_t at, int64_t end, const char *const *sets, int set_count, ls_audit_leg *out) {
    const cJSON *manifest = NULL;
    for (int i = r->count - 1; i >= 0; i--)
        if (r->point[i].manifest && r->point[i].update >= end) manifest = r->point[i].manifest;
    *out = (ls_audit_leg){ .to = end, .cfg = *r->side->config };
    if (manifest) LS_TRY(take_part(manifest, at, out));
    out->start = start_of(r, out->part);
    if (!out->facts) out->facts = out->start;
    LS_TRY(take_facts(out));
    out->cfg.run_resume = LS_RESUME_OFF;
    for (int i = 0; i < set_count; i++) LS_TRY(ls_config_set(&out->cfg, sets[i]));
    return ls_config_check(&out->cfg);
}

// --- config.ini ----------------------------------------------------------------------------------

// Whether the last part began with this change, after the newest checkpoint.
static int is_announced(const ls_record *r, const char *name, const char *value) {
    const cJSON *change;
    cJSON_ArrayForEach(change, ls_json_get(start_of(r, 0), "changed")) {
        const char *option = ls_json_get_text(change, "option"), *now = ls_json_get_text(change, "now");
        if (option && now && strcmp(option, name) == 0 && strcmp(now, value) == 0) return 1;
    }
    return 0;
}

ls_status ls_record_check_config(const ls_record *r,
    void (*found)(void *context, const char *name, const char *file, const char *manifest), void *context) {
    const cJSON *manifest = NULL;
    for (int i = 0; i < r->count; i++)
        if (r->point[i].manifest) manifest = r->point[i].manifest;
    if (!manifest) return LS_SUCCESS;
    char x[LS_TEXT_BYTES], y[LS_TEXT_BYTES];
    const char *name;
    ls_config recorded = *r->side->config;
    LS_TRY(take_options(manifest, &recorded));
    for (int i = 0; ls_config_value(&recorded, i, &name, y, sizeof y); i++) {
        ls_config_value(r->side->config, i, &name, x, sizeof x);
        if (strcmp(x, y) != 0 && !is_announced(r, name, x)) found(context, name, x, y);
    }
    return LS_SUCCESS;
}
