#include "tools/audit/findings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/manifest.h"
#include "train/diagnose/state_diff.h"

enum { PRINTED_MAX = 12, VALUE_BYTES = 128, WHERE_BYTES = 96, NAMES_MAX = 24 };

// --- texts ---------------------------------------------------------------------------------------

void ls_finding(ls_findings *f, const char *format, ...) {
    char line[LS_STATUS_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ls_text_replace_controls(line);
    if (f->here++ == 0) f->stream = ls_text_stream(&f->text, &f->bytes);
    if (f->total++ == 0) ls_text_cut(f->first, sizeof f->first, "%s", line);
    if (f->here <= PRINTED_MAX) fprintf(f->stream, "    %s\n", line);
}

void ls_findings_print(ls_findings *f, const char *what) {
    if (!f->here) {
        printf("%s: same bits\n", what);
        return;
    }
    ls_text_stream_close(f->stream);
    printf("%s: %d difference%s\n%s", what, f->here, f->here == 1 ? "" : "s", f->text);
    if (f->here > PRINTED_MAX) printf("    and %d more\n", f->here - PRINTED_MAX);
    free(f->text);
    f->text = NULL;
    f->here = 0;
}

// --- fields --------------------------------------------------------------------------------------

// The fields of events and files that are compared. only 1: those in `names`; 0: all fields except those in `names`.
static const struct {
    const char *kind;
    int only;
    const char *names[NAMES_MAX];
} rules[] = {
    { "train", 0,
        { "time", "images_per_second", "seconds", "part_seconds", "loader_wait_seconds", "comm_seconds_exposed",
            "joules", "time_spent", "ranks", "gpus" } },
    { "eval", 0, { "time", "seconds" } },
    { "checkpoint", 0, { "time", "bytes", "held_seconds", "seconds" } },
    { "nonfinite", 1,
        { "update", "epoch", "failed_update", "failed_epoch", "window", "loss_scale", "bad_losses",
            "skipped_in_row" } },
    { "start", 1,
        { "precision", "deterministic", "dataset", "train_samples", "val_samples", "train_data", "val_data",
            "test_data", "parameters", "seed", "global_batch", "micro_batch", "test_samples", "optimizer",
            "base_learning_rate", "weight_decay", "updates_planned", "train_broken", "val_broken", "test_broken" } },
    { "part", 1,
        { "run", "version", "device", "device_name", "world_size", "threads_per_rank", "micro_batch",
            "accumulation_steps", "changed" } },
    { "summary.json", 1,
        { "status", "precision", "deterministic", "dataset", "train_samples", "train_data", "val_data", "test_data",
            "parameters", "seed", "global_batch", "micro_batch", "epochs", "updates", "skipped_updates", "samples_seen",
            "train_loss", "val_loss", "val_accuracy", "test_loss", "test_accuracy", "tta_loss", "tta_accuracy",
            "weights_hash" } },
    { "evaluation.json", 0, { NULL } },
};

static int is_compared(const char *kind, const char *name) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].kind, kind) != 0) continue;
        int found = 0;
        for (int k = 0; k < NAMES_MAX && rules[i].names[k]; k++) found |= strcmp(rules[i].names[k], name) == 0;
        return found == rules[i].only;
    }
    return 0;
}

// Compares the fields of `recorded` and `to`. other: the origin of `to` in words, "computed".
static void compare_fields(
    ls_findings *f, const char *kind, const char *where, const cJSON *recorded, const char *other, const cJSON *to) {
    char x[VALUE_BYTES], y[VALUE_BYTES];
    const cJSON *item;
    cJSON_ArrayForEach(item, to) {
        const cJSON *mine = ls_json_get(recorded, item->string);
        if (is_compared(kind, item->string) && (!mine || !ls_fact_same(mine, item)))
            ls_finding(f, "%s: %s is %s, %s %s", where, item->string, ls_fact_text(mine, x, sizeof x), other,
                ls_fact_text(item, y, sizeof y));
    }
    cJSON_ArrayForEach(item, recorded) {
        if (is_compared(kind, item->string) && !ls_json_get(to, item->string))
            ls_finding(f, "%s: %s is %s, %s none", where, item->string, ls_fact_text(item, x, sizeof x), other);
    }
}

static const char *place(const ls_audit_line *line, char dst[WHERE_BYTES]) {
    snprintf(dst, WHERE_BYTES, "metrics.jsonl, line %" PRId64 " (%s, update %" PRId64 ")", line->number, line->kind,
        line->update);
    return dst;
}

// --- events --------------------------------------------------------------------------------------

static int lies_in(const ls_audit_line *line, int64_t from, int64_t to) {
    if (ls_audit_is(line, "start")) return 0;
    if (ls_audit_is(line, "nonfinite")) return line->update >= from && line->update < to;
    return line->update > from && line->update <= to;
}

void ls_findings_lines(
    ls_findings *f, const ls_audit_lines *recorded, const ls_audit_lines *computed, int64_t from, int64_t to) {
    char where[WHERE_BYTES];
    for (int i = 0; i < recorded->count; i++) {
        const ls_audit_line *line = &recorded->line[i];
        if (!lies_in(line, from, to)) continue;
        const ls_audit_line *same = ls_audit_lines_find(computed, line->kind, line->update);
        if (same)
            compare_fields(f, line->kind, place(line, where), line->json, "computed", same->json);
        else
            ls_finding(f, "%s: the computation has no such event", place(line, where));
    }
    for (int i = 0; i < computed->count; i++) {
        const ls_audit_line *line = &computed->line[i];
        if (lies_in(line, from, to) && !ls_audit_lines_find(recorded, line->kind, line->update))
            ls_finding(f, "metrics.jsonl: the %s event of update %" PRId64 " is missing", line->kind, line->update);
    }
}

// Compares a start event with the record of its part in a manifest.
static void compare_part(ls_findings *f, const char *where, const cJSON *start, const cJSON *part) {
    static const char other[] = "in the checkpoint's manifest";
    const cJSON *resumed = ls_json_get(start, "resumed_at_update"), *after = ls_json_get(part, "after_update");
    char x[VALUE_BYTES], y[VALUE_BYTES];
    compare_fields(f, "part", where, start, other, part);
    if ((resumed || cJSON_GetNumberValue(after) > 0) && !(resumed && after && ls_fact_same(resumed, after)))
        ls_finding(f, "%s: resumed_at_update is %s, %s %s", where, ls_fact_text(resumed, x, sizeof x), other,
            ls_fact_text(after, y, sizeof y));
}

void ls_findings_start(ls_findings *f, const ls_record *record, const ls_audit_leg *leg, const cJSON *computed) {
    char where[WHERE_BYTES];
    for (int i = 0; i < record->lines.count; i++) {
        const ls_audit_line *line = &record->lines.line[i];
        if (line->json != leg->start) continue;
        place(line, where);
        compare_fields(f, "start", where, line->json, "computed", computed);
        if (leg->facts != leg->start) compare_part(f, where, line->json, leg->facts);
        return;
    }
    if (leg->to > record->begins) ls_finding(f, "metrics.jsonl: the start event of part %d is missing", leg->part);
}

// --- states --------------------------------------------------------------------------------------

typedef struct {
    ls_findings *findings;
    const char *file;
    const cJSON *manifest;       // hashes of the tensors as they were written; NULL: unknown
    const ls_snapshot *computed; // the state as computed; NULL: unknown
} comparison;

// Whether the manifest has the hash of the computed tensor: then the file was changed after it was written.
static int was_written(const comparison *c, const char *name) {
    const cJSON *file;
    char hash[17] = "";
    for (int i = 0; c->computed && i < c->computed->count; i++)
        if (strcmp(c->computed->tensors[i].name, name) == 0)
            ls_hash_text(ls_snapshot_hash(&c->computed->tensors[i]), hash);
    cJSON_ArrayForEach(file, ls_json_get(c->manifest, "files")) {
        const char *text = ls_json_get_text(ls_json_get(file, "tensors"), name);
        if (text && strcmp(text, hash) == 0) return 1;
    }
    return 0;
}

static void take_difference(void *context, const ls_state_difference *d) {
    const comparison *c = context;
    const int later = d->is_tensor && was_written(c, d->name);
    ls_finding(c->findings, "%s: %s '%s'%s: %s, %s %s%s%s%s", c->file, d->is_tensor ? "tensor" : "counter", d->name,
        later ? " was changed after it was written" : "", d->a, later ? "was" : "computed", d->b,
        d->note[0] ? " (" : "", d->note, d->note[0] ? ")" : "");
}

// Compares the tensors of a damaged checkpoint. why: the damage, which is a finding if no tensor differs.
static void compare_damaged(comparison *c, const char *path, ls_status why) {
    static const char *const names[] = { "weights.safetensors", "state.safetensors" };
    const int before = c->findings->total;
    ls_safetensors *file[2] = { NULL, NULL };
    for (int i = 0; i < 2; i++) {
        char name[3 * LS_TEXT_BYTES];
        ls_status status = ls_path_join(name, sizeof name, path, names[i]);
        LS_THEN(status, ls_safetensors_read(name, &file[i]));
        if (ls_failed(status)) why = status;
    }
    if (file[0] && file[1]) {
        ls_state stored = ls_state_of_files(file[0], file[1], NULL), computed = ls_state_of_snapshot(c->computed);
        computed.facts = NULL;
        ls_state_diff(&stored, &computed, take_difference, c);
        ls_state_free(&stored);
        ls_state_free(&computed);
    }
    if (c->findings->total == before) ls_finding(c->findings, "%s", why.text);
    for (int i = 0; i < 2; i++) ls_safetensors_free(file[i]);
}

ls_status ls_findings_checkpoint(ls_findings *f, const ls_audit_point *point, const ls_snapshot *computed) {
    char file[64];
    ls_checkpoint *checkpoint;
    snprintf(file, sizeof file, "checkpoints/update-%012" PRId64, point->update);
    comparison c = { .findings = f, .file = file, .manifest = point->manifest, .computed = computed };
    ls_status status = ls_checkpoint_read(point->path, &checkpoint);
    if (status.code == LS_STORAGE) compare_damaged(&c, point->path, status);
    if (ls_failed(status)) return status.code == LS_STORAGE ? LS_SUCCESS : status;
    ls_state stored = ls_state_of_files(checkpoint->weights, checkpoint->state, NULL);
    ls_state now = ls_state_of_snapshot(computed);
    stored.facts = stored.own = cJSON_CreateObject();
    ls_manifest_add_counters(stored.own, &checkpoint->counters);
    ls_state_diff(&stored, &now, take_difference, &c);
    ls_state_free(&stored);
    ls_state_free(&now);
    ls_checkpoint_free(checkpoint);
    return LS_SUCCESS;
}

// --- results -------------------------------------------------------------------------------------

// Compares the texts in the head of two weights files that describe the network and the pictures.
static void compare_metadata(ls_findings *f, const ls_safetensors *a, const ls_safetensors *b) {
    static const char *const keys[] = { "lockstep.network", "lockstep.dataset", "lockstep.mean", "lockstep.std",
        "lockstep.classes", "lockstep.resize", "lockstep.decoder" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *x = ls_safetensors_metadata(a, keys[i]), *y = ls_safetensors_metadata(b, keys[i]);
        if (strcmp(x ? x : "", y ? y : "") != 0)
            ls_finding(
                f, "weights.safetensors: %s is %.100s, computed %.100s", keys[i], x ? x : "none", y ? y : "none");
    }
}

static ls_status compare_weights(ls_findings *f, const char *run, const char *computed) {
    char path[2][2 * LS_TEXT_BYTES];
    ls_safetensors *file[2] = { NULL, NULL };
    comparison c = { .findings = f, .file = "weights.safetensors" };
    LS_TRY(ls_path_join(path[0], sizeof path[0], run, c.file));
    LS_TRY(ls_path_join(path[1], sizeof path[1], computed, c.file));
    LS_TRY(ls_safetensors_read(path[1], &file[1]));
    ls_status status = ls_safetensors_read(path[0], &file[0]);
    if (ls_failed(status)) {
        ls_finding(f, "%s", status.text);
    } else {
        ls_state x = ls_state_of_files(file[0], NULL, NULL), y = ls_state_of_files(file[1], NULL, NULL);
        ls_state_diff(&x, &y, take_difference, &c);
        compare_metadata(f, file[0], file[1]);
        ls_state_free(&x);
        ls_state_free(&y);
    }
    for (int i = 0; i < 2; i++) ls_safetensors_free(file[i]);
    return status.code == LS_STORAGE ? LS_SUCCESS : status;
}

static ls_status compare_json(ls_findings *f, const char *name, const char *run, const char *computed) {
    char path[2][2 * LS_TEXT_BYTES];
    cJSON *tree[2] = { NULL, NULL };
    LS_TRY(ls_path_join(path[0], sizeof path[0], run, name));
    LS_TRY(ls_path_join(path[1], sizeof path[1], computed, name));
    LS_TRY(ls_json_read_file(path[1], &tree[1]));
    ls_status status = ls_json_read_file(path[0], &tree[0]);
    if (ls_failed(status))
        ls_finding(f, "%s", status.text);
    else
        compare_fields(f, name, name, tree[0], "computed", tree[1]);
    for (int i = 0; i < 2; i++) cJSON_Delete(tree[i]);
    return status.code == LS_STORAGE ? LS_SUCCESS : status;
}

ls_status ls_findings_results(ls_findings *f, const char *run, const char *computed) {
    char path[2 * LS_TEXT_BYTES];
    LS_TRY(ls_path_join(path, sizeof path, computed, "summary.json"));
    if (!ls_path_exists(path)) {
        ls_finding(f, "the record says that the run was complete here, but its options let it go on");
        return LS_SUCCESS;
    }
    LS_TRY(compare_weights(f, run, computed));
    LS_TRY(compare_json(f, "evaluation.json", run, computed));
    return compare_json(f, "summary.json", run, computed);
}
