#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "files/metrics_export.h"

static const char point[] = "POINT_IN_TIME", begins[] = "INTERVAL_START", ends[] = "INTERVAL_END";

typedef struct {
    FILE *file;
    int64_t time_ms; // of the last line: times never go back
    int64_t line;    // of metrics.jsonl
    int64_t epochs;  // completed
    int started, in_epoch;
    struct {
        int known, completed;
        double time;
        int64_t line;
    } end; // of the part, if no other follows it
} log_state;

// --- a line --------------------------------------------------------------------------------------

static void set_time(log_state *s, double seconds) {
    const double ms = 1000 * seconds;
    if (ms > (double)s->time_ms && ms < (double)LS_JSON_WHOLE_MAX) s->time_ms = (int64_t)ms;
}

// value (NULL: null) and metadata are taken.
static ls_status put(log_state *s, const char *type, const char *key, cJSON *value, cJSON *metadata) {
    cJSON *line = cJSON_CreateObject();
    ls_json_add_text(line, "namespace", "");
    ls_json_add_int(line, "time_ms", s->time_ms);
    ls_json_add_text(line, "event_type", type);
    ls_json_add_text(line, "key", key);
    ls_json_add_item(line, "value", value ? value : cJSON_CreateNull());
    metadata = ls_json_add_item(line, "metadata", metadata);
    ls_json_add_text(metadata, "file", "metrics.jsonl");
    ls_json_add_int(metadata, "lineno", s->line);
    char *text = ls_json_text(line, 0);
    if (text) fprintf(s->file, ":::MLLOG %s\n", text);
    cJSON_free(text);
    cJSON_Delete(line);
    return text ? LS_SUCCESS : ls_no_memory(0, "a line");
}

static cJSON *epoch_metadata(int64_t number) {
    cJSON *metadata = cJSON_CreateObject();
    ls_json_add_int(metadata, "epoch_num", number);
    return metadata;
}

// A text, or a number with all its digits; NULL where it is neither, or not finite.
static cJSON *copy(const cJSON *item) {
    char digits[LS_JSON_REAL_BYTES];
    if (cJSON_IsString(item)) return ls_json_string(item->valuestring);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) return NULL;
    return cJSON_CreateRaw(ls_json_real_text(digits, item->valuedouble));
}

static cJSON *copy_of(const ls_metrics_line *line, const char *field) {
    return copy(ls_json_get(line->json, field));
}

// --- events --------------------------------------------------------------------------------------

static ls_status put_facts(log_state *s, const ls_metrics_line *line) {
    static const struct {
        const char *field, *key;
    } rows[] = { { "seed", "seed" }, { "global_batch", "global_batch_size" },
        { "accumulation_steps", "gradient_accumulation_steps" }, { "train_samples", "train_samples" },
        { "test_samples", "eval_samples" }, { "updates_planned", "max_steps" }, { "optimizer", "opt_name" },
        { "base_learning_rate", "opt_base_learning_rate" }, { "weight_decay", "opt_weight_decay" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cJSON *value = copy_of(line, rows[i].field);
        if (value) LS_TRY(put(s, point, rows[i].key, value, cJSON_CreateObject()));
    }
    return LS_SUCCESS;
}

static ls_status on_start(log_state *s, const ls_metrics_line *line) {
    s->end.known = 0;
    set_time(s, line->time);
    if (s->started) return put(s, point, "init_checkpoint_step", copy_of(line, "update"), cJSON_CreateObject());
    s->started = 1;
    s->epochs = line->epoch;
    LS_TRY(put_facts(s, line));
    return put(s, begins, "run_start", NULL, cJSON_CreateObject());
}

static ls_status end_epoch(log_state *s) {
    s->in_epoch = 0;
    return put(s, ends, "epoch_stop", NULL, epoch_metadata(s->epochs + 1));
}

static ls_status on_train(log_state *s, const ls_metrics_line *line) {
    static const char *const fields[][2] = { { "images_per_second", "throughput" }, { "train_loss", "train_loss" },
        { "train_accuracy", "train_accuracy" }, { "learning_rate", "learning_rate" } };
    if (!s->in_epoch) LS_TRY(put(s, begins, "epoch_start", NULL, epoch_metadata(s->epochs + 1)));
    s->in_epoch = 1;
    set_time(s, line->time);
    cJSON *stats = cJSON_CreateObject(), *metadata = epoch_metadata(s->epochs + 1);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        cJSON *value = copy_of(line, fields[i][0]);
        if (value) ls_json_add_item(stats, fields[i][1], value);
    }
    ls_json_add_int(metadata, "step", line->update);
    LS_TRY(put(s, point, "tracked_stats", stats, metadata));
    if (line->epoch <= s->epochs) return LS_SUCCESS;
    LS_TRY(end_epoch(s));
    s->epochs = line->epoch;
    return LS_SUCCESS;
}

static ls_status on_eval(log_state *s, const ls_metrics_line *line) {
    static const char *const sets[][2] = { { "val_accuracy", "validation" }, { "test_accuracy", "test" },
        { "tta_accuracy", "tta" } };
    const cJSON *seconds = ls_json_get(line->json, "seconds");
    if (cJSON_IsNumber(seconds)) set_time(s, line->time - seconds->valuedouble);
    LS_TRY(put(s, begins, "eval_start", NULL, epoch_metadata(line->epoch)));
    set_time(s, line->time);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        cJSON *value = copy_of(line, sets[i][0]);
        if (!value) continue;
        cJSON *metadata = epoch_metadata(line->epoch);
        ls_json_add_text(metadata, "set", sets[i][1]);
        LS_TRY(put(s, point, "eval_accuracy", value, metadata));
    }
    return put(s, ends, "eval_stop", NULL, epoch_metadata(line->epoch));
}

static ls_status on_end(log_state *s, const ls_metrics_line *line) {
    const char *status = ls_json_get_text(line->json, "status");
    s->end.known = 1;
    s->end.completed = status && strcmp(status, "completed") == 0;
    s->end.time = line->time;
    s->end.line = line->line;
    return LS_SUCCESS;
}

static ls_status take(void *context, const ls_metrics_line *line) {
    static const struct {
        const char *kind;
        ls_status (*take)(log_state *s, const ls_metrics_line *line);
    } rows[] = { { "start", on_start }, { "train", on_train }, { "eval", on_eval }, { "end", on_end } };
    log_state *s = context;
    if (line->redone) return LS_SUCCESS;
    s->line = line->line;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(line->kind, rows[i].kind) == 0) return rows[i].take(s, line);
    return LS_SUCCESS;
}

static ls_status put_end(log_state *s) {
    s->line = s->end.line;
    set_time(s, s->end.time);
    if (s->in_epoch) LS_TRY(end_epoch(s));
    cJSON *metadata = cJSON_CreateObject();
    ls_json_add_text(metadata, "status", s->end.completed ? "success" : "aborted");
    return put(s, ends, "run_stop", NULL, metadata);
}

ls_status ls_metrics_write_mlperf(ls_metrics_reader *reader, FILE *file) {
    log_state s = { .file = file };
    LS_TRY(ls_metrics_reader_each(reader, take, &s));
    return s.end.known ? put_end(&s) : LS_SUCCESS;
}
