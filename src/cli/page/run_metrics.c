#include "cli/page/run_metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/memory.h"
#include "cli/page/series.h"

enum { LINE_BYTES_MAX = 4 << 20 };
enum { EVENTS_MAX = 500, EVENT_BYTES_MAX = 64 << 20 }; // warnings, and as many others; of their lines together

// Columns of a series, by the names that they have in the file; a dot leads into an object. The first four are every one's.
#define PLACE "update", "epoch", "seconds", "part"
enum { UPDATE, EPOCH, SECONDS, PART, PLACE_COLUMNS };
static const char *const train_columns[] = { PLACE, "train_loss", "train_accuracy", "learning_rate", "loss_scale",
    "grad_norm", "skipped", "images_per_second", "samples_seen", "part_seconds", "loader_wait_seconds",
    "comm_seconds_exposed", "joules", "time_spent.seconds", "time_spent.compute", "time_spent.loader_wait",
    "time_spent.communication_exposed", "time_spent.checkpoint", "time_spent.other" };
static const char *const eval_columns[] = { PLACE, "test_loss", "test_accuracy", "val_loss", "val_accuracy", "tta_loss",
    "tta_accuracy", "took" };
static const char *const checkpoint_columns[] = { PLACE, "bytes", "held_seconds", "took" };
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct {
    ls_series *train, *epochs, *eval, *checkpoints;
    cJSON *start, *events, *spent;  // spent: of the last record
    int warnings, others;           // events so far
    size_t line_bytes, event_bytes; // of this line; of the events' lines so far
    int64_t left_out, unreadable;
    int part;
    double started, seconds_before;     // of the part: seconds since 1970; of training
    double reached, epoch;              // the last update and epoch so far
    double last[LS_SERIES_COLUMNS_MAX]; // record of the part; its update is NAN: none yet
    int last_ends_epoch;
} reader;

static double number_of(const cJSON *event, const char *name) {
    const char *dot = strchr(name, '.');
    char object[32];
    if (dot && (size_t)(dot - name) < sizeof object) {
        memcpy(object, name, (size_t)(dot - name));
        object[dot - name] = 0;
        event = ls_json_get(event, object);
        name = dot + 1;
    }
    const cJSON *item = ls_json_get(event, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

// Of training until the event, by the clock: not every event says it.
static double seconds_of(const reader *r, const cJSON *event) {
    return r->part ? r->seconds_before + fmax(0, number_of(event, "time") - r->started) : NAN;
}

static void take(const reader *r, const cJSON *event, const char *const *columns, int count, double *values) {
    for (int c = 0; c < count; c++) values[c] = number_of(event, columns[c]);
    values[PART] = r->part;
}

static void on_train(reader *r, cJSON *event) {
    double values[LS_SERIES_COLUMNS_MAX];
    take(r, event, train_columns, COUNT(train_columns), values);
    cJSON_Delete(r->spent);
    r->spent = cJSON_DetachItemFromObjectCaseSensitive(event, "time_spent");
    if (isnan(values[SECONDS])) values[SECONDS] = seconds_of(r, event);
    ls_series_add(r->train, values);
    r->last_ends_epoch = values[EPOCH] > r->epoch;
    if (r->last_ends_epoch) ls_series_add(r->epochs, values);
    r->epoch = values[EPOCH];
    memcpy(r->last, values, sizeof r->last);
}

// The last record of a part, where it ends no epoch.
static void end_part(reader *r) {
    if (!isnan(r->last[UPDATE]) && !r->last_ends_epoch) ls_series_add(r->epochs, r->last);
    r->last[UPDATE] = NAN;
}

// `seconds` of these events is what they took.
static void on_taking(reader *r, const cJSON *event, ls_series *series, const char *const *columns, int count) {
    double values[LS_SERIES_COLUMNS_MAX];
    take(r, event, columns, count, values);
    values[count - 1] = values[SECONDS];
    values[SECONDS] = seconds_of(r, event);
    ls_series_add(series, values);
}

static void keep(reader *r, const cJSON *event, const char *name) {
    int *const kept = strcmp(name, "warning") == 0 ? &r->warnings : &r->others;
    if (*kept == EVENTS_MAX || r->event_bytes + r->line_bytes > EVENT_BYTES_MAX) {
        r->left_out++;
        return;
    }
    ++*kept;
    r->event_bytes += r->line_bytes;
    cJSON *copy = ls_json_copy(event);
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "ranks"); // of a start: long, and in `start`
    cJSON_DeleteItemFromObjectCaseSensitive(copy, "seconds");
    ls_json_add_real(copy, "seconds", seconds_of(r, event));
    ls_json_add_int(copy, "part", r->part);
    if (strcmp(name, "start") == 0 && r->part > 1) ls_json_add_real(copy, "reached", r->reached);
    ls_json_append(r->events, copy);
}

static void on_start(reader *r, const cJSON *event) {
    const double resumed_at = number_of(event, "resumed_at_update");
    const double before = number_of(event, "seconds_before");
    end_part(r);
    r->part++;
    r->started = number_of(event, "time");
    r->seconds_before = before >= 0 ? before : 0;
    cJSON_Delete(r->start);
    r->start = ls_json_copy(event);
    keep(r, event, "start");
    ls_series *const all[] = { r->train, r->epochs, r->eval, r->checkpoints };
    for (int i = 0; i < COUNT(all); i++) ls_series_cut(all[i], resumed_at >= 0 ? resumed_at : -1);
    r->epoch = number_of(event, "epoch");
}

static void on_event(reader *r, cJSON *event) {
    const char *name = ls_json_get_text(event, "event");
    const double update = number_of(event, "update");
    if (!name || isnan(update)) {
        r->unreadable++;
    } else if (strcmp(name, "train") == 0) {
        on_train(r, event);
    } else if (strcmp(name, "eval") == 0) {
        on_taking(r, event, r->eval, eval_columns, COUNT(eval_columns));
    } else if (strcmp(name, "checkpoint") == 0) {
        on_taking(r, event, r->checkpoints, checkpoint_columns, COUNT(checkpoint_columns));
    } else if (strcmp(name, "start") == 0) {
        on_start(r, event);
    } else {
        keep(r, event, name);
    }
    if (update >= 0) r->reached = update;
}

// What has no end at the end of the file is still being written.
static void read_lines(reader *r, FILE *file, char *line) {
    int within = 0; // a line that is too long
    while (fgets(line, LINE_BYTES_MAX, file)) {
        const size_t length = strlen(line);
        const int whole = length > 0 && line[length - 1] == '\n', skipped = within;
        within = !whole && !feof(file);
        if (skipped || !whole) {
            if (!skipped && within) r->unreadable++;
            continue;
        }
        r->line_bytes = length;
        cJSON *event = cJSON_ParseWithLength(line, length);
        if (cJSON_IsObject(event))
            on_event(r, event);
        else
            r->unreadable++;
        cJSON_Delete(event);
    }
}

static ls_status read_file(reader *r, const char *path) {
    ls_input input;
    char *line = NULL;
    LS_TRY(ls_input_open(path, &input));
    FILE *file = fdopen(input.fd, "r");
    if (!file) {
        ls_input_close(&input);
        return ls_no_memory(0, "%s", path);
    }
    ls_status status = LS_NEW(line, LINE_BYTES_MAX, "a line of %s", path);
    if (!ls_failed(status)) read_lines(r, file, line);
    if (ferror(file)) ls_keep_first(&status, ls_fail(LS_STORAGE, "%s: cannot be read: %s", path, strerror(EIO)));
    fclose(file);
    free(line);
    return status;
}

static ls_status open_series(reader *r, int rows) {
    LS_TRY(ls_series_new(train_columns, COUNT(train_columns), rows, &r->train));
    LS_TRY(ls_series_new(train_columns, COUNT(train_columns), rows, &r->epochs));
    LS_TRY(ls_series_new(eval_columns, COUNT(eval_columns), rows, &r->eval));
    return ls_series_new(checkpoint_columns, COUNT(checkpoint_columns), rows, &r->checkpoints);
}

// Takes start and events.
static void put(reader *r, cJSON *object) {
    if (r->start) ls_json_add_item(object, "start", r->start);
    if (r->spent) ls_json_add_item(object, "time_spent", ls_json_copy(r->spent));
    ls_json_add_item(object, "train", ls_series_json(r->train));
    ls_json_add_item(object, "epochs", ls_series_json(r->epochs));
    ls_json_add_item(object, "eval", ls_series_json(r->eval));
    ls_json_add_item(object, "checkpoints", ls_series_json(r->checkpoints));
    ls_json_add_item(object, "events", r->events);
    if (r->left_out) ls_json_add_int(object, "events_left_out", r->left_out);
    if (r->unreadable) ls_json_add_int(object, "lines_unreadable", r->unreadable);
    r->start = r->events = NULL;
}

ls_status ls_run_metrics_read(const char *path, int rows, cJSON *object) {
    reader r = { .events = cJSON_CreateArray(), .last = { NAN } };
    ls_status status = open_series(&r, rows);
    LS_THEN(status, read_file(&r, path));
    if (!ls_failed(status)) {
        end_part(&r);
        put(&r, object);
    }
    ls_series *const all[] = { r.train, r.epochs, r.eval, r.checkpoints };
    for (int i = 0; i < COUNT(all); i++) ls_series_free(all[i]);
    cJSON_Delete(r.start);
    cJSON_Delete(r.spent);
    cJSON_Delete(r.events);
    return status;
}
