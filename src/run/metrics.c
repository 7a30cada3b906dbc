#include "run/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/pinned_folder.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/version.h"
#include "run/live_file.h"

struct ls_metrics {
    ls_live_file *file;
    int64_t update, epoch; // update and epoch of the last event
    double started, seconds_before;
    int ranks;
};

static cJSON *new_event(const ls_metrics *metrics, const char *name) {
    cJSON *event = cJSON_CreateObject();
    ls_json_add_text(event, "event", name);
    ls_json_add_int(event, "update", metrics->update);
    ls_json_add_int(event, "epoch", metrics->epoch);
    ls_json_add_real(event, "time", ls_clock_unix_seconds());
    return event;
}

// Writes the event as a line of the metrics file, and frees it.
void ls_metrics_put(ls_metrics *metrics, cJSON *event) {
    char *text = ls_json_text(event, 0);
    const size_t length = strlen(text);
    text[length] = '\n'; // replaces the terminating 0
    ls_live_file_put(metrics->file, text, length + 1);
    cJSON_free(text);
    cJSON_Delete(event);
}

static void put_warning(ls_metrics *metrics, const char *text) {
    cJSON *event = new_event(metrics, "warning");
    ls_json_add_text(event, "message", text);
    ls_metrics_put(metrics, event);
}

static void add_text(cJSON *object, const char *name, const char *text) {
    if (text[0]) ls_json_add_text(object, name, text);
}

static void add_places(cJSON *event, const ls_train_info *info) {
    cJSON *ranks = ls_json_add_array(event, "ranks");
    for (int r = 0; r < info->comm->world_size; r++) {
        const ls_rank_info *place = &info->places[r];
        cJSON *rank = ls_json_append(ranks, cJSON_CreateObject());
        ls_json_add_int(rank, "rank", r);
        add_text(rank, "host", place->host);
        add_text(rank, "device", place->device);
        add_text(rank, "name", place->name);
        add_text(rank, "uuid", place->uuid);
        add_text(rank, "pci", place->pci);
        add_text(rank, "cpus", place->cpus);
    }
}

static void put_resume(cJSON *event, const ls_train_info *info) {
    ls_json_add_int(event, "resumed_at_update", info->resumed_at);
    ls_json_add_real(event, "seconds_before", info->seconds_before);
    const cJSON *part = cJSON_GetArrayItem(info->parts, cJSON_GetArraySize(info->parts) - 1);
    const cJSON *changed = ls_json_get(part, "changed");
    if (changed) ls_json_add_item(event, "changed", cJSON_Duplicate(changed, 1));
}

static void put_start(ls_metrics *metrics, const ls_train_info *info) {
    cJSON *event = new_event(metrics, "start");
    if (info->parts) ls_json_add_int(event, "part", cJSON_GetArraySize(info->parts));
    ls_run_info_json(info, event);
    ls_json_add_int(event, "test_samples", info->test_data->count);
    ls_json_add_text(event, "optimizer", ls_config_choice("optimizer.kind", info->cfg->optimizer_kind));
    ls_json_add_real(event, "base_learning_rate", info->cfg->optimizer_lr);
    ls_json_add_real(event, "weight_decay", info->cfg->optimizer_weight_decay);
    ls_json_add_int(event, "updates_planned", info->updates_planned);
    if (info->resumed_at) put_resume(event, info);
    add_places(event, info);
    ls_run_room_json(&info->room, ls_json_add_object(event, "room"));
    ls_metrics_put(metrics, event);
    if (info->warning[0]) put_warning(metrics, info->warning);
}

ls_status ls_metrics_open(const char *path, int append, const ls_train_info *info, ls_metrics **out) {
    ls_live_file *file = NULL;
    ls_status status = ls_live_file_open(path, append ? 0 : O_TRUNC, "a line", &file);
    // A killed process may have left half a line. Without it the file is valid JSON lines again.
    if (append) LS_THEN(status, ls_live_file_cut_half_line(file));
    if (ls_failed(status)) {
        if (file) ls_keep_first(&status, ls_live_file_close(file));
        return status;
    }
    ls_metrics *metrics = ls_new(1, sizeof *metrics, "%s", path);
    *metrics = (ls_metrics){ .file = file,
        .update = info->resumed_at,
        .epoch = info->resumed_at / info->batches.windows,
        .started = ls_clock_seconds(),
        .seconds_before = info->seconds_before,
        .ranks = info->comm->world_size };
    put_start(metrics, info);
    *out = metrics;
    return LS_SUCCESS;
}

static void add_known(cJSON *object, const char *name, double value) {
    if (!isnan(value)) ls_json_add_real(object, name, value);
}

static void add_gpus(cJSON *event, const ls_gpu_sample *gpus, int ranks) {
    cJSON *list = ls_json_add_array(event, "gpus");
    for (int r = 0; r < ranks; r++) {
        cJSON *gpu = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_int(gpu, "rank", r);
        if (gpus[r].samples == 0) continue;
        char slowed[96];
        add_known(gpu, "utilisation", gpus[r].utilisation);
        add_known(gpu, "memory_bytes", gpus[r].memory_bytes);
        add_known(gpu, "power_watts", gpus[r].power_watts);
        add_known(gpu, "temperature_c", gpus[r].temperature_c);
        add_known(gpu, "clock_mhz", gpus[r].clock_mhz);
        add_text(gpu, "slowed_by", ls_gpu_slowed_text(gpus[r].slowed, slowed));
    }
}

// Appends a number of seconds, rounded to the microsecond, to a list.
static void add_seconds(cJSON *list, double seconds) {
    ls_json_append(list, cJSON_CreateNumber(1e-6 * round(1e6 * seconds)));
}

static void add_times(cJSON *event, const ls_rank_time *times, int ranks) {
    cJSON *object = ls_json_add_object(event, "ranks"), *wait = ls_json_add_array(object, "wait_seconds");
    cJSON *loader = ls_json_add_array(object, "loader_wait_seconds");
    cJSON *cores = ls_json_add_array(object, "core_wait_seconds");
    cJSON *compute = ls_json_add_array(object, "compute_seconds");
    for (int r = 0; r < ranks; r++) {
        add_seconds(compute, times[r].compute);
        add_seconds(wait, times[r].wait);
        add_seconds(loader, times[r].loader_wait);
        add_seconds(cores, times[r].core_wait);
    }
}

static void on_progress(void *context, const ls_train_progress *p) {
    ls_metrics *metrics = context;
    if (!p->record) return;
    metrics->update = p->update;
    metrics->epoch = p->epoch_progress >= 1.0 ? p->epoch + 1 : p->epoch;
    cJSON *event = new_event(metrics, "train");
    ls_json_add_real(event, "train_loss", p->train_loss);
    ls_json_add_real(event, "train_accuracy", p->train_accuracy);
    ls_json_add_real(event, "learning_rate", p->learning_rate);
    ls_json_add_real(event, "loss_scale", p->loss_scale);
    ls_json_add_real(event, "grad_norm", p->grad_norm);
    ls_json_add_int(event, "skipped", p->skipped);
    ls_json_add_real(event, "images_per_second", p->images_per_second);
    ls_json_add_int(event, "samples_seen", p->samples_seen);
    ls_json_add_real(event, "seconds", p->seconds);
    ls_json_add_real(event, "part_seconds", p->part_seconds);
    ls_json_add_real(event, "loader_wait_seconds", p->loader_wait_seconds);
    ls_json_add_real(event, "comm_seconds_exposed", p->comm_seconds_exposed);
    add_known(event, "joules", p->joules);
    ls_run_time_json(&p->time, ls_json_add_object(event, "time_spent"));
    if (p->times) add_times(event, p->times, metrics->ranks);
    if (p->gpus) add_gpus(event, p->gpus, metrics->ranks);
    ls_metrics_put(metrics, event);
}

static void on_evaluated(void *context, const ls_train_evaluation *e) {
    ls_metrics *metrics = context;
    metrics->update = e->update;
    metrics->epoch = e->epoch;
    cJSON *event = new_event(metrics, "eval");
    ls_train_evaluation_json(e, event);
    if (e->val_samples > 0) ls_json_add_int(event, "without_improvement", e->without_improvement);
    ls_json_add_real(event, "seconds", e->seconds);
    ls_metrics_put(metrics, event);
}

cJSON *ls_metrics_event(ls_metrics *metrics, const char *name, int64_t update, int64_t epoch) {
    metrics->update = update;
    metrics->epoch = epoch;
    return new_event(metrics, name);
}

static void on_checkpoint(void *context, const ls_train_checkpoint *c) {
    ls_metrics *metrics = context;
    int64_t update = metrics->update, epoch = metrics->epoch;
    const char *slash = strrchr(c->path, '/');
    metrics->update = c->update;
    metrics->epoch = c->epoch;
    cJSON *event = new_event(metrics, "checkpoint");
    ls_json_add_text(event, "name", slash ? slash + 1 : c->path);
    ls_json_add_int(event, "bytes", c->bytes);
    ls_json_add_hash(event, "weights_hash", c->weights_hash);
    ls_json_add_real(event, "held_seconds", c->held_seconds);
    ls_json_add_real(event, "seconds", c->seconds);
    ls_metrics_put(metrics, event);
    if (c->update >= update) return; // at a stop: the end event has this update, too
    metrics->update = update;        // the checkpoint is of an earlier update than training has reached
    metrics->epoch = epoch;
}

static void on_warning(void *context, ls_log_level level, const char *text) {
    (void)level;
    put_warning(context, text);
}

ls_train_observer ls_metrics_observer(ls_metrics *metrics) {
    return (ls_train_observer){ metrics, on_progress, on_evaluated, on_warning, on_checkpoint };
}

// Adds a warning if lines on standard error were lost. The metrics are the only place left to report it.
static void put_lost_lines(ls_metrics *metrics) {
    char text[256];
    if (!ls_log_lost()) return;
    snprintf(text, sizeof text, "standard error could not be written (%s): lines for a person are missing there",
        strerror(ls_log_lost()));
    put_warning(metrics, text);
}

ls_status ls_metrics_close(ls_metrics *metrics, ls_status run) {
    put_lost_lines(metrics);
    cJSON *event = new_event(metrics, "end");
    const char *status_text = run.code == LS_STOPPED ? "stopped" : ls_failed(run) ? "failed" : "completed";
    ls_json_add_text(event, "status", status_text);
    ls_json_add_int(event, "exit_code", run.code);
    if (ls_failed(run)) ls_json_add_text(event, "message", run.text);
    double seconds = ls_clock_seconds() - metrics->started;
    ls_json_add_real(event, "seconds", metrics->seconds_before + seconds);
    ls_json_add_real(event, "part_seconds", seconds);
    ls_metrics_put(metrics, event);
    ls_status status = ls_live_file_close(metrics->file);
    free(metrics);
    return status;
}

static const char start_line[] = "{\"event\":\"start\",", checkpoint_line[] = "{\"event\":\"checkpoint\",\"update\":";

int ls_metrics_begins(const char *path) {
    char *text = NULL;
    size_t bytes = 0, length = strlen(start_line);
    int begins = !ls_failed(ls_read_beginning(path, length, &text, &bytes)) && bytes == length &&
                 memcmp(text, start_line, length) == 0;
    free(text);
    return begins;
}

// Sets *update to the update of the file's last checkpoint event. Reads only the beginning of a long line.
static void find_last_checkpoint(FILE *file, int64_t *update) {
    char text[128];
    size_t length = strlen(checkpoint_line);
    for (int begins = 1; fgets(text, sizeof text, file); begins = strchr(text, '\n') != NULL)
        if (begins && strncmp(text, checkpoint_line, length) == 0) *update = strtoll(text + length, NULL, 10);
}

ls_status ls_metrics_last_checkpoint(const char *path, int64_t *update) {
    struct stat info;
    ls_input input;
    *update = -1;
    int there = ls_pinned_stat(path, &info) == 0;
    if (there ? !S_ISREG(info.st_mode) : errno == ENOENT)
        return LS_SUCCESS; // opening the file for writing reports the error
    LS_TRY(ls_input_open(path, &input));
    FILE *file = fdopen(input.fd, "r");
    if (!file) ls_out_of_memory(0, "reading %s", path);
    find_last_checkpoint(file, update);
    int broken = ferror(file);
    fclose(file);
    return broken ? ls_fail(LS_STORAGE, "%s: cannot be read: %s", path, strerror(EIO)) : LS_SUCCESS;
}
