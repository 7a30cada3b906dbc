#include "tools/compare/side.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/files.h"
#include "base/memory.h"
#include "run/checkpoint_list.h"
#include "run/checkpoint_manager.h"
#include "run/metrics_reader.h"

static const char *const kinds[LS_EVENT_KINDS] = { "train", "eval", "checkpoint" };

int64_t ls_event_update(const cJSON *event) {
    int64_t update;
    return ls_json_whole(ls_json_get(event, "update"), LS_JSON_WHOLE_MAX, &update) ? update : -1;
}

// --- metrics.jsonl -------------------------------------------------------------------------------

static ls_status take_event(void *context, const ls_metrics_line *line) {
    ls_side *s = context;
    if (strcmp(line->kind, "start") == 0) {
        cJSON_Delete(s->start);
        s->start = cJSON_Duplicate(line->json, 1);
        s->parts++;
    }
    for (int k = 0; !line->redone && k < LS_EVENT_KINDS; k++) {
        ls_event_list *list = &s->events[k];
        if (strcmp(line->kind, kinds[k]) != 0) continue;
        list->event = ls_grow(list->event, list->count, sizeof *list->event, "%s", s->path);
        list->event[list->count++] = cJSON_Duplicate(line->json, 1);
    }
    return LS_SUCCESS;
}

static int by_update(const void *a, const void *b) {
    const int64_t x = ls_event_update(*(cJSON *const *)a), y = ls_event_update(*(cJSON *const *)b);
    return (x > y) - (x < y);
}

// Sorts events by update and keeps one per update. An update can have two, such as an evaluation at the end of an epoch
// and one at the end of the run.
static void order(ls_event_list *list) {
    int kept = 0;
    if (list->count > 1) qsort(list->event, (size_t)list->count, sizeof *list->event, by_update);
    for (int i = 0; i < list->count; i++)
        if (kept && ls_event_update(list->event[kept - 1]) == ls_event_update(list->event[i]))
            cJSON_Delete(list->event[i]);
        else
            list->event[kept++] = list->event[i];
    list->count = kept;
}

static ls_status read_metrics(const char *path, ls_side *s) {
    ls_metrics_reader *reader;
    LS_TRY(ls_metrics_reader_open(path, &reader));
    ls_status status = ls_metrics_reader_each(reader, take_event, s);
    ls_metrics_reader_close(reader);
    for (int k = 0; k < LS_EVENT_KINDS; k++) order(&s->events[k]);
    return status;
}

// --- the other files of a run --------------------------------------------------------------------

static ls_status read_config(const char *path, ls_side *s) {
    s->config = ls_new(1, sizeof *s->config, "%s", path);
    ls_config_defaults(s->config);
    ls_status status = ls_config_read_file(s->config, path);
    return ls_failed(status) ? ls_fail(LS_STORAGE, "%s", status.text) : status;
}

static ls_status read_network(const char *path, ls_side *s) {
    size_t bytes;
    return ls_read_file(path, &s->network, &bytes);
}

static ls_status read_summary(const char *path, ls_side *s) {
    return ls_json_read_file(path, &s->summary);
}

static ls_status read_manifest(const char *folder, ls_side *s) {
    char path[2 * LS_TEXT_BYTES];
    LS_TRY(ls_checkpoint_manager_list(folder, &s->saved, &s->saved_count));
    for (int i = s->saved_count - 1; i >= 0 && !s->manifest; i--) {
        ls_train_counters counters;
        LS_TRY(ls_checkpoint_path(folder, s->saved[i], path, sizeof path));
        ls_status status = ls_checkpoint_read_manifest(path, &s->manifest, &counters);
        if (status.code != LS_STORAGE) LS_TRY(status); // skips a damaged checkpoint; `train ckpt verify` reports it
    }
    return LS_SUCCESS;
}

static const struct {
    const char *name;
    ls_status (*read)(const char *path, ls_side *side);
} files[] = { { "metrics.jsonl", read_metrics }, { "config.ini", read_config }, { "network.ini", read_network },
    { "summary.json", read_summary }, { "checkpoints", read_manifest } };

static ls_status read_run(ls_side *s) {
    char file[LS_TEXT_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        LS_TRY(ls_path_join(file, sizeof file, s->path, files[i].name));
        if (ls_path_exists(file)) LS_TRY(files[i].read(file, s));
    }
    if (s->start) return LS_SUCCESS;
    return ls_fail(LS_STORAGE,
        "%s: holds no run (no metrics.jsonl with a start in it), and is no checkpoint or weights file", s->path);
}

// --- the open state ------------------------------------------------------------------------------

static void close_state(ls_side *s) {
    ls_checkpoint_free(s->checkpoint);
    ls_safetensors_free(s->weights);
    s->checkpoint = NULL;
    s->weights = NULL;
}

ls_status ls_side_open_checkpoint(ls_side *s, int64_t update) {
    char folder[LS_TEXT_BYTES], path[2 * LS_TEXT_BYTES];
    close_state(s);
    LS_TRY(ls_path_join(folder, sizeof folder, s->path, "checkpoints"));
    LS_TRY(ls_checkpoint_path(folder, update, path, sizeof path));
    ls_status status = ls_checkpoint_read(path, &s->checkpoint);
    return status.code == LS_STORAGE ? LS_SUCCESS : status;
}

ls_status ls_side_open_newest(ls_side *s) {
    close_state(s);
    for (int i = s->saved_count - 1; i >= 0 && !s->checkpoint; i--) LS_TRY(ls_side_open_checkpoint(s, s->saved[i]));
    return LS_SUCCESS;
}

ls_status ls_side_open_weights(ls_side *s) {
    char path[LS_TEXT_BYTES];
    close_state(s);
    LS_TRY(ls_path_join(path, sizeof path, s->path, "weights.safetensors"));
    return ls_path_exists(path) ? ls_safetensors_read(path, &s->weights) : LS_SUCCESS;
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status read_all(const char *path, ls_side *s) {
    struct stat info;
    int is_checkpoint;
    LS_TRY(ls_path_join(s->path, sizeof s->path, "", path));
    if (stat(path, &info) != 0) return ls_fail(LS_STORAGE, "%s: does not exist", path);
    LS_TRY(ls_checkpoint_is(path, &is_checkpoint));
    s->kind = !S_ISDIR(info.st_mode) ? LS_SIDE_WEIGHTS : is_checkpoint ? LS_SIDE_CHECKPOINT : LS_SIDE_RUN;
    switch (s->kind) {
    case LS_SIDE_WEIGHTS:
        return ls_safetensors_read(path, &s->weights);
    case LS_SIDE_CHECKPOINT:
        return ls_checkpoint_read(path, &s->checkpoint);
    default:
        return read_run(s);
    }
}

ls_status ls_side_read(const char *path, ls_side **out) {
    ls_side *s = ls_new(1, sizeof *s, "%s", path);
    ls_status status = read_all(path, s);
    return LS_GIVE_OR_FREE(status, s, out, ls_side_free);
}

void ls_side_free(ls_side *s) {
    if (!s) return;
    for (int k = 0; k < LS_EVENT_KINDS; k++) {
        for (int i = 0; i < s->events[k].count; i++) cJSON_Delete(s->events[k].event[i]);
        free(s->events[k].event);
    }
    cJSON_Delete(s->start);
    cJSON_Delete(s->summary);
    cJSON_Delete(s->manifest);
    free(s->config);
    free(s->network);
    free(s->saved);
    close_state(s);
    free(s);
}
