#include "cli/compare/run_files.h"

#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/memory.h"
#include "files/checkpoint_manager.h"

static const char *const kinds[LS_EVENT_KINDS] = { "train", "eval", "checkpoint" };

int64_t ls_event_update(const cJSON *event) {
    int64_t update;
    return ls_json_whole(ls_json_get(event, "update"), LS_JSON_WHOLE_MAX, &update) ? update : -1;
}

// --- metrics.jsonl -------------------------------------------------------------------------------

// A part goes on after `update`: what is later was of a part that ended without a checkpoint of it.
static void drop_later(ls_event_list *list, int64_t update) {
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (ls_event_update(list->event[i]) <= update)
            list->event[kept++] = list->event[i];
        else
            cJSON_Delete(list->event[i]);
    list->count = kept;
}

// Takes event.
static void take_start(ls_run_files *f, cJSON *event) {
    int64_t resumed = 0;
    if (!ls_json_whole(ls_json_get(event, "resumed_at_update"), LS_JSON_WHOLE_MAX, &resumed)) resumed = 0;
    for (int k = 0; k < LS_EVENT_KINDS; k++) drop_later(&f->events[k], resumed);
    cJSON_Delete(f->start);
    f->start = event;
    f->parts++;
}

// Takes event.
static ls_status take_event(ls_run_files *f, cJSON *event) {
    const char *name = ls_json_get_text(event, "event");
    if (name && strcmp(name, "start") == 0) {
        take_start(f, event);
        return LS_SUCCESS;
    }
    for (int k = 0; name && k < LS_EVENT_KINDS; k++) {
        ls_event_list *list = &f->events[k];
        if (strcmp(name, kinds[k]) != 0 || ls_event_update(event) < 0) continue;
        ls_status status = LS_GROW(list->event, list->count, "%s", f->path);
        if (ls_failed(status)) cJSON_Delete(event);
        LS_TRY(status);
        list->event[list->count++] = event;
        return LS_SUCCESS;
    }
    cJSON_Delete(event);
    return LS_SUCCESS;
}

static int by_update(const void *a, const void *b) {
    const int64_t x = ls_event_update(*(cJSON *const *)a), y = ls_event_update(*(cJSON *const *)b);
    return (x > y) - (x < y);
}

// Several of one update (an evaluation at the end of an epoch that is the run's last): one of them stays.
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

// A line that is no JSON is the last one of a process that was killed, or cut off.
static ls_status read_metrics(const char *path, ls_run_files *f) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_read_file(path, &text, &bytes));
    ls_status status = LS_SUCCESS;
    for (char *rest = text, *line; !ls_failed(status) && (line = strsep(&rest, "\n"));) {
        cJSON *event = cJSON_Parse(line);
        if (event) status = take_event(f, event);
    }
    for (int k = 0; k < LS_EVENT_KINDS; k++) order(&f->events[k]);
    free(text);
    return status;
}

// --- the others ----------------------------------------------------------------------------------

static ls_status read_config(const char *path, ls_run_files *f) {
    LS_TRY(LS_NEW(f->config, 1, "%s", path));
    ls_config_defaults(f->config);
    ls_status status = ls_config_read_file(f->config, path);
    return ls_failed(status) ? ls_fail(LS_STORAGE, "%s", status.text) : status;
}

static ls_status read_network(const char *path, ls_run_files *f) {
    size_t bytes;
    return ls_read_file(path, &f->network, &bytes);
}

static ls_status read_summary(const char *path, ls_run_files *f) {
    return ls_json_read_file(path, &f->summary);
}

// The newest one that is whole by its own hash; damaged ones are `train ckpt verify`'s.
static ls_status read_manifest(const char *folder, ls_run_files *f) {
    char path[2 * LS_TEXT_BYTES];
    int64_t *updates;
    int count;
    LS_TRY(ls_checkpoint_manager_list(folder, &updates, &count));
    ls_status status = LS_SUCCESS;
    for (int i = count - 1; i >= 0 && !f->manifest && !ls_failed(status); i--) {
        ls_train_counters counters;
        status = ls_checkpoint_path(folder, updates[i], path, sizeof path);
        LS_THEN(status, ls_checkpoint_read_manifest(path, &f->manifest, &counters));
        if (status.code == LS_STORAGE) status = LS_SUCCESS;
    }
    free(updates);
    return status;
}

static const struct {
    const char *name;
    ls_status (*read)(const char *path, ls_run_files *files);
} files[] = { { "metrics.jsonl", read_metrics }, { "config.ini", read_config }, { "network.ini", read_network },
    { "summary.json", read_summary }, { "checkpoints", read_manifest } };

static ls_status read_all(const char *path, ls_run_files *f) {
    char file[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(f->path, sizeof f->path, "", path));
    if (!ls_path_exists(path)) return ls_fail(LS_STORAGE, "%s: does not exist", path);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        LS_TRY(ls_path_join(file, sizeof file, path, files[i].name));
        if (ls_path_exists(file)) LS_TRY(files[i].read(file, f));
    }
    if (f->start) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: holds no run: no metrics.jsonl with a start in it", path);
}

ls_status ls_run_files_read(const char *path, ls_run_files **out) {
    ls_run_files *f;
    LS_TRY(LS_NEW(f, 1, "%s", path));
    ls_status status = read_all(path, f);
    return LS_GIVE(status, f, out, ls_run_files_free);
}

void ls_run_files_free(ls_run_files *f) {
    if (!f) return;
    for (int k = 0; k < LS_EVENT_KINDS; k++) {
        for (int i = 0; i < f->events[k].count; i++) cJSON_Delete(f->events[k].event[i]);
        free(f->events[k].event);
    }
    cJSON_Delete(f->start);
    cJSON_Delete(f->summary);
    cJSON_Delete(f->manifest);
    free(f->config);
    free(f->network);
    free(f);
}
