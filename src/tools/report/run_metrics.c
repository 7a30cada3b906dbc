#include "tools/report/run_metrics.h"

#include <math.h>
#include <string.h>
#include "base/text.h"
#include "tools/report/series.h"
#include "run/metrics_reader.h"

// Limits of a report's events: warnings that are kept, and as many other events; bytes of a text in an event; changed
// options of an event.
enum { EVENTS_MAX = 500, TEXT_BYTES_MAX = 4096, CHANGES_MAX = 200 };

// Columns of the series, by their names in metrics.jsonl. "time_spent.seconds" is member seconds of object time_spent.
// Every series begins with the four columns of PLACE.
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
    cJSON *start, *spent, *events;      // last start event; time_spent of the last train record; kept events
    int warnings, others;               // numbers of kept warnings and of other kept events
    int64_t left_out;                   // events beyond EVENTS_MAX
    double started, seconds_before;     // start of the part since 1970; training time before the part; in seconds
    double reached, epoch;              // update of the last event; epoch of the last start or train record
    double last[LS_SERIES_COLUMNS_MAX]; // last train record of the part; before the first one its update is NAN
    int last_ends_epoch;
} collector;

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

// Returns the seconds of training at the time of the event, computed from its time of day: not every event has the
// training time.
static double seconds_of(const collector *c, const ls_metrics_line *line) {
    return line->part ? c->seconds_before + fmax(0, line->time - c->started) : NAN;
}

static void on_train(collector *c, const ls_metrics_line *line) {
    double values[LS_SERIES_COLUMNS_MAX];
    for (int i = 0; i < COUNT(train_columns); i++) values[i] = number_of(line->json, train_columns[i]);
    values[PART] = (double)line->part;
    if (isnan(values[SECONDS])) values[SECONDS] = seconds_of(c, line);
    ls_series_add(c->train, values);
    c->last_ends_epoch = values[EPOCH] > c->epoch;
    if (c->last_ends_epoch) ls_series_add(c->epochs, values);
    c->epoch = values[EPOCH];
    memcpy(c->last, values, sizeof c->last);
    cJSON_Delete(c->spent);
    c->spent = cJSON_Duplicate(ls_json_get(line->json, "time_spent"), 1);
}

// Adds the last train record of a part to the series of epochs, unless it ended an epoch and is there already.
static void end_part(collector *c) {
    if (!isnan(c->last[UPDATE]) && !c->last_ends_epoch) ls_series_add(c->epochs, c->last);
    c->last[UPDATE] = NAN;
}

// Adds an evaluation or checkpoint to its series. Its `seconds` is its duration, which becomes the last column, `took`.
static void on_taking(
    const collector *c, const ls_metrics_line *line, ls_series *series, const char *const *columns, int count) {
    double values[LS_SERIES_COLUMNS_MAX];
    for (int i = 0; i < count; i++) values[i] = number_of(line->json, columns[i]);
    values[PART] = (double)line->part;
    values[count - 1] = values[SECONDS];
    values[SECONDS] = seconds_of(c, line);
    ls_series_add(series, values);
}

static void copy_text(const cJSON *from, const char *name, cJSON *to) {
    char text[TEXT_BYTES_MAX];
    if (!ls_json_get_text(from, name)) return;
    ls_text_cut(text, sizeof text, "%s", ls_json_get_text(from, name));
    ls_json_add_text(to, name, text);
}

static void copy_changes(const cJSON *from, cJSON *to) {
    const cJSON *change;
    int count = 0;
    cJSON_ArrayForEach(change, from) {
        if (count++ == CHANGES_MAX) return;
        cJSON *copy = ls_json_append(to, cJSON_CreateObject());
        copy_text(change, "option", copy);
        copy_text(change, "before", copy);
        copy_text(change, "now", copy);
    }
}

static void keep(collector *c, const ls_metrics_line *line) {
    static const char *const numbers[] = { "resumed_at_update", "exit_code", "failed_update" };
    static const char *const texts[] = { "event", "status", "message", "cause", "layer", "operator", "folder" };
    int *const kept = strcmp(line->kind, "warning") == 0 ? &c->warnings : &c->others;
    if (*kept == EVENTS_MAX) {
        c->left_out++;
        return;
    }
    ++*kept;
    cJSON *copy = ls_json_append(c->events, cJSON_CreateObject());
    for (int i = 0; i < COUNT(texts); i++) copy_text(line->json, texts[i], copy);
    ls_json_add_int(copy, "update", line->update);
    ls_json_add_int(copy, "epoch", line->epoch);
    ls_json_add_int(copy, "part", line->part);
    ls_json_add_real(copy, "seconds", seconds_of(c, line));
    for (int i = 0; i < COUNT(numbers); i++) {
        const double value = number_of(line->json, numbers[i]);
        if (!isnan(value)) ls_json_add_real(copy, numbers[i], value);
    }
    const cJSON *changed = ls_json_get(line->json, "changed");
    if (changed) copy_changes(changed, ls_json_add_array(copy, "changed"));
    if (strcmp(line->kind, "start") == 0 && line->part > 1) ls_json_add_real(copy, "reached", c->reached);
}

static void on_start(collector *c, const ls_metrics_line *line) {
    const double before = number_of(line->json, "seconds_before");
    end_part(c);
    c->started = line->time;
    c->seconds_before = before >= 0 ? before : 0;
    c->epoch = (double)line->epoch;
    cJSON_Delete(c->start);
    c->start = ls_json_copy(line->json);
    keep(c, line);
}

static ls_status on_event(void *context, const ls_metrics_line *line) {
    collector *c = context;
    if (strcmp(line->kind, "start") == 0) {
        on_start(c, line);
    } else if (strcmp(line->kind, "train") == 0) {
        if (!line->redone) on_train(c, line);
    } else if (strcmp(line->kind, "eval") == 0) {
        if (!line->redone) on_taking(c, line, c->eval, eval_columns, COUNT(eval_columns));
    } else if (strcmp(line->kind, "checkpoint") == 0) {
        if (!line->redone) on_taking(c, line, c->checkpoints, checkpoint_columns, COUNT(checkpoint_columns));
    } else {
        keep(c, line);
    }
    c->reached = (double)line->update;
    return LS_SUCCESS;
}

static ls_status read_events(collector *c, const char *path, int64_t *damaged) {
    ls_metrics_reader *reader;
    LS_TRY(ls_metrics_reader_open(path, &reader));
    ls_status status = ls_metrics_reader_each(reader, on_event, c);
    *damaged = ls_metrics_reader_state(reader)->damaged;
    ls_metrics_reader_close(reader);
    return status;
}

static void open_series(collector *c, int rows) {
    c->train = ls_series_new(train_columns, COUNT(train_columns), rows);
    c->epochs = ls_series_new(train_columns, COUNT(train_columns), rows);
    c->eval = ls_series_new(eval_columns, COUNT(eval_columns), rows);
    c->checkpoints = ls_series_new(checkpoint_columns, COUNT(checkpoint_columns), rows);
}

// Adds all collected members to object, which takes ownership of start and events.
static void put(collector *c, int64_t damaged, cJSON *object) {
    if (c->start) ls_json_add_item(object, "start", c->start);
    if (c->spent) ls_json_add_item(object, "time_spent", ls_json_copy(c->spent));
    ls_json_add_item(object, "train", ls_series_json(c->train));
    ls_json_add_item(object, "epochs", ls_series_json(c->epochs));
    ls_json_add_item(object, "eval", ls_series_json(c->eval));
    ls_json_add_item(object, "checkpoints", ls_series_json(c->checkpoints));
    ls_json_add_item(object, "events", c->events);
    if (c->left_out) ls_json_add_int(object, "events_left_out", c->left_out);
    if (damaged) ls_json_add_int(object, "lines_unreadable", damaged);
    c->start = c->events = NULL;
}

ls_status ls_run_metrics_read(const char *path, int rows, cJSON *object) {
    collector c = { .events = cJSON_CreateArray(), .last = { NAN } };
    int64_t damaged = 0;
    open_series(&c, rows);
    ls_status status = read_events(&c, path, &damaged);
    if (!ls_failed(status)) {
        end_part(&c);
        put(&c, damaged, object);
    }
    ls_series *const all[] = { c.train, c.epochs, c.eval, c.checkpoints };
    for (int i = 0; i < COUNT(all); i++) ls_series_free(all[i]);
    cJSON_Delete(c.start);
    cJSON_Delete(c.spent);
    cJSON_Delete(c.events);
    return status;
}
