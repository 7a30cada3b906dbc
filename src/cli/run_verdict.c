#include "cli/run_verdict.h"

#include <string.h>
#include "base/files.h"
#include "base/memory.h"
#include "run/metrics_reader.h"

enum { RANKS_MAX = 1 << 16, THREADS_MAX = 1 << 16, SAMPLES_MAX = 1 << 24 };

// --- from events ---------------------------------------------------------------------------------

static int whole(const cJSON *object, const char *name, int64_t least, int64_t most, int64_t *out) {
    return ls_json_whole(ls_json_get(object, name), most, out) && *out >= least;
}

// Copies one number for each rank from the list `name` into the member at `offset` of each rank's times. Returns 0 if
// the list is missing or damaged.
static int take_numbers(const cJSON *ranks, const char *name, size_t offset, ls_rank_time *each, int count) {
    const cJSON *list = ls_json_get(ranks, name), *item;
    int r = 0;
    if (cJSON_GetArraySize(list) != count) return 0;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble > -1e12 && item->valuedouble < 1e12)) return 0;
        *(double *)(void *)((char *)&each[r++] + offset) = item->valuedouble;
    }
    return 1;
}

static int take_ranks(ls_run_verdict *run, const cJSON *ranks) {
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = { { "wait_seconds", offsetof(ls_rank_time, wait) },
        { "loader_wait_seconds", offsetof(ls_rank_time, loader_wait) },
        { "core_wait_seconds", offsetof(ls_rank_time, core_wait) },
        { "compute_seconds", offsetof(ls_rank_time, compute) } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!take_numbers(ranks, rows[i].name, rows[i].offset, run->each, run->facts.ranks)) return 0;
    run->facts.each = run->each;
    return 1;
}

int ls_run_verdict_take(ls_run_verdict *run, const cJSON *start, const cJSON *train, const cJSON *time) {
    ls_verdict_facts *f = &run->facts;
    int64_t ranks, threads, micro_batch, accumulation;
    ls_run_time at_record;
    if (!whole(start, "world_size", 1, RANKS_MAX, &ranks) ||
        !whole(start, "threads_per_rank", 1, THREADS_MAX, &threads) ||
        !whole(start, "train_samples", 1, LS_JSON_WHOLE_MAX, &f->train_samples) ||
        !whole(start, "micro_batch", 1, SAMPLES_MAX, &micro_batch) ||
        !whole(start, "accumulation_steps", 1, SAMPLES_MAX, &accumulation) ||
        !ls_run_time_read(ls_json_get(train, "time_spent"), &at_record))
        return 0;
    f->cfg = &run->cfg;
    f->ranks = (int)ranks;
    f->threads = (int)threads;
    f->micro_batch = (int)micro_batch;
    f->accumulation = (int)accumulation;
    f->each_seconds = at_record.seconds;
    ls_run_room_read(ls_json_get(start, "room"), &f->room);
    if (!ls_run_time_read(time, &f->time)) f->time = at_record;
    if (ranks == 1) return 1;
    if (!run->each) run->each = ls_new(ranks, sizeof *run->each, "times of %lld ranks", (long long)ranks);
    return take_ranks(run, ls_json_get(train, "ranks"));
}

// --- from files ----------------------------------------------------------------------------------

// The events of the last part of a run that the verdict needs: its start and its last train event.
typedef struct {
    cJSON *start, *train;
    int64_t part, update;
} events;

static void keep(cJSON **kept, const cJSON *event) {
    cJSON_Delete(*kept);
    *kept = cJSON_Duplicate(event, 1);
}

static ls_status take_event(void *context, const ls_metrics_line *line) {
    events *e = context;
    if (strcmp(line->kind, "start") == 0) {
        cJSON_Delete(e->train);
        e->train = NULL;
        e->part = line->part;
        keep(&e->start, line->json);
    } else if (strcmp(line->kind, "train") == 0 && e->start) {
        e->update = line->update;
        keep(&e->train, line->json);
    }
    return LS_SUCCESS;
}

static ls_status read_metrics(const char *path, events *e) {
    ls_metrics_reader *reader;
    LS_TRY(ls_metrics_reader_open(path, &reader));
    ls_status status = ls_metrics_reader_each(reader, take_event, e);
    ls_metrics_reader_close(reader);
    return status;
}

// Reads the run's configuration. Its files are not opened, because they may have been moved since.
static ls_status read_config(const char *path, ls_config *cfg) {
    char file[2 * LS_TEXT_BYTES];
    LS_TRY(ls_path_join(file, sizeof file, path, "config.ini"));
    ls_config_defaults(cfg);
    LS_TRY(ls_config_read_file(cfg, file));
    return ls_config_check(cfg);
}

// Reads summary.json of a complete run. Returns NULL for other runs, or if the file cannot be read.
static cJSON *read_summary(const char *path) {
    char file[2 * LS_TEXT_BYTES];
    cJSON *summary = NULL;
    ls_status status = ls_path_join(file, sizeof file, path, "summary.json");
    LS_THEN(status, ls_json_read_file(file, &summary));
    return ls_failed(status) ? NULL : summary;
}

static ls_status find(const char *path, const events *e, ls_run_verdict *run) {
    cJSON *summary = read_summary(path);
    const int known = e->start && ls_run_verdict_take(run, e->start, e->train, ls_json_get(summary, "time"));
    cJSON_Delete(summary);
    if (!known)
        return ls_fail(LS_STORAGE,
            "%s: its metrics.jsonl has no record of where the time went: the run is of an earlier version, or has no "
            "record yet "
            "(one comes every log.every updates)",
            path);
    if (!whole(e->start, "updates_planned", 0, LS_JSON_WHOLE_MAX, &run->planned)) run->planned = 0;
    run->part = e->part;
    run->update = e->update;
    int64_t before;
    if (!whole(e->start, "resumed_at_update", 0, LS_JSON_WHOLE_MAX, &before)) before = 0;
    run->facts.updates = run->update - before;
    run->verdict = ls_verdict_find(&run->facts);
    return LS_SUCCESS;
}

ls_status ls_run_verdict_read(const char *path, ls_run_verdict **out) {
    ls_run_verdict *run = ls_new(1, sizeof *run, "%s", path);
    events e = { 0 };
    ls_status status = read_metrics(path, &e);
    LS_THEN(status, read_config(path, &run->cfg));
    LS_THEN(status, find(path, &e, run));
    cJSON_Delete(e.start);
    cJSON_Delete(e.train);
    return LS_GIVE_OR_FREE(status, run, out, ls_run_verdict_free);
}

void ls_run_verdict_free(ls_run_verdict *run) {
    if (!run) return;
    free(run->each);
    free(run);
}
