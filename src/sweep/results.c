#include "sweep/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/manifest.h"
#include "run/run_folder.h"

enum { TAIL_BYTES = 16384 };

static const struct {
    const char *key, *name;
} measures[] = {
    [LS_SWEEP_VALIDATION] = { "val_accuracy", "validation accuracy" },
    [LS_SWEEP_TTA] = { "tta_accuracy", "test accuracy with TTA" },
    [LS_SWEEP_TEST] = { "test_accuracy", "test accuracy" },
};

// What runs of a sweep must have in common: its name in the summary and in messages, and the options that decide it.
static const struct {
    const char *key, *name, *options;
} sets[LS_SWEEP_SETS] = {
    { "train_data", "training data", "data." },
    { "val_data", "validation data", "data." },
    { "test_data", "test data", "data." },
    { "teacher", "teachers", "distill.weights" },
};

const char *ls_sweep_measure_key(ls_sweep_measure measure) {
    return measures[measure].key;
}

const char *ls_sweep_measure_name(ls_sweep_measure measure) {
    return measures[measure].name;
}

// --- does the run belong here? -------------------------------------------------------------------

// Whether the runs of a sweep may differ in the option.
static int is_swept(const ls_sweep_plan *plan, int option) {
    int swept = option == LS_OPTION_run_seed;
    for (int i = 0; i < plan->swept; i++) swept |= plan->axes[i].option == option;
    return swept;
}

// Writes the options that differ and affect the result into dst: "train.epochs 2, now 3; ..."; "": no such option.
// plan: leaves out the options that it sweeps; NULL: leaves out none.
static void describe_differences(
    const ls_sweep_plan *plan, const ls_config *there, const ls_config *wanted, char *dst, size_t bytes) {
    char before[LS_TEXT_BYTES], now[LS_TEXT_BYTES];
    const char *name;
    ls_text_room room = { dst, bytes };
    dst[0] = 0;
    for (int i = 0; ls_config_value(wanted, i, &name, now, sizeof now); i++) {
        ls_config_value(there, i, NULL, before, sizeof before);
        if (strcmp(before, now) != 0 && ls_manifest_decides(i) && !(plan && is_swept(plan, i)))
            ls_text_put(&room, "%s%s %s, now %s", dst[0] ? "; " : "", name, before[0] ? before : "empty",
                now[0] ? now : "empty");
    }
}

ls_status ls_sweep_check_config(const ls_sweep_plan *plan, int run, const char *folder, const char *path) {
    char differences[LS_STATUS_TEXT_BYTES / 2];
    ls_config there, wanted, effective;
    ls_config_defaults(&there);
    LS_TRY(ls_config_read_file(&there, path));
    LS_TRY(ls_sweep_run_config(plan, run < 0 ? 0 : run, &wanted));
    LS_TRY(ls_run_folder_config(&wanted, &effective));
    describe_differences(run < 0 ? plan : NULL, &there, &effective, differences, sizeof differences);
    if (!differences[0]) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: holds a run with another configuration (%s), and stays as it is: set that back, or choose another folder "
        "for this sweep by --run-dir",
        folder, differences);
}

// --- results of a run ----------------------------------------------------------------------------

static double number(const cJSON *summary, const char *name) {
    const cJSON *item = ls_json_get(summary, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

// Returns the seconds from the start of the process until the last evaluation has ended; NAN: the run was resumed, or
// its summary does not say.
static double process_seconds(const cJSON *summary) {
    if (ls_json_get(summary, "resumed_at_update")) return NAN;
    double seconds = number(ls_json_get(summary, "time"), "seconds");
    const cJSON *phase;
    cJSON_ArrayForEach(phase, ls_json_get(summary, "startup_seconds")) seconds += phase->valuedouble;
    return seconds;
}

static ls_status take_summary(const char *path, const cJSON *summary, ls_sweep_result *out) {
    const char *hash = ls_json_get_text(summary, "weights_hash");
    if (!hash || !ls_json_whole(ls_json_get(summary, "updates"), LS_JSON_WHOLE_MAX, &out->updates))
        return ls_fail(LS_STORAGE, "%s: no summary of a run: expected its updates and weights_hash", path);
    out->state = LS_SWEEP_COMPLETE;
    for (int m = 0; m < LS_SWEEP_MEASURES; m++) out->accuracy[m] = number(summary, measures[m].key);
    out->train_loss = number(summary, "train_loss");
    out->seconds = number(summary, "wall_seconds");
    out->images_per_second = number(summary, "train_images_per_second");
    out->process_seconds = process_seconds(summary);
    out->training_seconds = number(summary, "samples_seen") / out->images_per_second;
    snprintf(out->weights_hash, sizeof out->weights_hash, "%s", hash);
    for (int i = 0; i < LS_SWEEP_SETS; i++) {
        const cJSON *teacher = ls_json_get(summary, sets[i].key);
        const char *identity =
            cJSON_IsObject(teacher) ? ls_json_get_text(teacher, "hash") : ls_json_get_text(summary, sets[i].key);
        snprintf(out->data[i], sizeof out->data[i], "%s", identity ? identity : "");
    }
    return LS_SUCCESS;
}

// A summary that is damaged or cannot be read is no reason to stop the other runs.
static ls_status read_summary(const char *folder, ls_sweep_result *out) {
    char path[LS_TEXT_BYTES];
    cJSON *summary = NULL;
    LS_TRY(ls_path_join(path, sizeof path, folder, "summary.json"));
    if (!ls_path_exists(path)) return LS_SUCCESS;
    ls_status status = ls_json_read_file(path, &summary);
    LS_THEN(status, take_summary(path, summary, out));
    cJSON_Delete(summary);
    if (status.code != LS_STORAGE) return status;
    ls_alert("%s: without this file the run goes on from its checkpoint, so remove it", status.text);
    return LS_SUCCESS;
}

ls_status ls_sweep_look(const ls_sweep_plan *plan, int run, ls_sweep_result *out) {
    char folder[LS_TEXT_BYTES], path[LS_TEXT_BYTES];
    *out = (ls_sweep_result){ .state = LS_SWEEP_NEW };
    LS_TRY(ls_sweep_run_folder(plan, run, folder));
    LS_TRY(ls_path_join(path, sizeof path, folder, "config.ini"));
    if (!ls_path_exists(path)) return LS_SUCCESS; // the run itself checks the folder for other files
    LS_TRY(ls_sweep_check_config(plan, run, folder, path));
    out->state = LS_SWEEP_BEGUN;
    return read_summary(folder, out);
}

// --- do all runs have the same data and teacher? --------------------------------------------------

static int same_options(const ls_sweep_plan *plan, const char *beginning, int a, int b) {
    const int x = ls_sweep_setting(plan, a), y = ls_sweep_setting(plan, b);
    int same = 1;
    for (int i = 0; i < plan->swept; i++)
        if (strncmp(plan->axes[i].name, beginning, strlen(beginning)) == 0)
            same &= strcmp(ls_sweep_value(plan, i, x), ls_sweep_value(plan, i, y)) == 0;
    return same;
}

// Compares the identity of a set with that of the first complete run that should have the same.
static ls_status compare_set(const ls_sweep_plan *plan, const ls_sweep_result *results, int set, int run) {
    char first_name[LS_SWEEP_NAME_BYTES], name[LS_SWEEP_NAME_BYTES];
    ls_config cfg;
    int first = 0;
    while (first < run &&
           (results[first].state != LS_SWEEP_COMPLETE || !same_options(plan, sets[set].options, first, run)))
        first++;
    const char *x = results[first].data[set], *y = results[run].data[set];
    if (!x[0] || !y[0] || strcmp(x, y) == 0) return LS_SUCCESS;
    LS_TRY(ls_sweep_config(plan, ls_sweep_setting(plan, run), -1, &cfg));
    const int is_data = strcmp(sets[set].options, "data.") == 0;
    if (is_data && cfg.data_dataset == LS_DATASET_SYNTHETIC) return LS_SUCCESS; // each seed makes its own data
    return ls_fail(LS_DATA,
        "sweep folder %s: the %s of %s and of %s are not the same (%s, %s): they have changed between the two runs, "
        "which cannot be compared. Bring the old files back and move the folder of the run that had others away, or "
        "choose another folder for the sweep by --run-dir",
        plan->folder, sets[set].name, ls_sweep_run_name(plan, first, first_name), ls_sweep_run_name(plan, run, name), x,
        y);
}

ls_status ls_sweep_check_data(const ls_sweep_plan *plan, const ls_sweep_result *results) {
    for (int run = 1; run < plan->runs; run++)
        for (int set = 0; set < LS_SWEEP_SETS && results[run].state == LS_SWEEP_COMPLETE; set++)
            LS_TRY(compare_set(plan, results, set, run));
    return LS_SUCCESS;
}

ls_status ls_sweep_look_all(const ls_sweep_plan *plan, ls_sweep_result **results) {
    const int count = ls_sweep_runs_and_stems(plan);
    ls_sweep_result *all = ls_new(count, sizeof *all, "results of %d runs", count);
    ls_status status = LS_SUCCESS;
    for (int run = 0; run < count; run++) LS_THEN(status, ls_sweep_look(plan, run, &all[run]));
    LS_THEN(status, ls_sweep_check_data(plan, all));
    return LS_GIVE_OR_FREE(status, all, results, free);
}

// --- progress ------------------------------------------------------------------------------------

// Returns the last TAIL_BYTES bytes of the file (all, if it is shorter) and a 0 after them, for the caller to free.
// Returns NULL if they cannot be read.
static char *read_tail(const char *path) {
    ls_input input;
    char *text = NULL;
    if (ls_failed(ls_input_open(path, &input))) return NULL;
    const size_t bytes = input.bytes < TAIL_BYTES ? input.bytes : TAIL_BYTES;
    text = ls_new(bytes + 1, 1, "%s", path);
    if (ls_failed(ls_input_read(&input, input.bytes - bytes, text, bytes))) {
        free(text);
        text = NULL;
    }
    ls_input_close(&input);
    return text;
}

char *ls_sweep_last_line(const char *path, const char *begins) {
    char *tail = read_tail(path), *last = NULL;
    for (char *rest = tail, *line;
         rest && (line = strsep(&rest, "\n")) && rest;) // the text after the last newline is an unfinished line
        if (strncmp(line, begins, strlen(begins)) == 0) last = line;
    if (last) last = ls_new_text(last);
    free(tail);
    return last;
}

// Reads the start event: writes the planned updates and epochs to *out, and the samples of an update to *batch.
static void read_plan(const char *path, ls_progress *out, double *batch) {
    char *text = NULL;
    size_t bytes;
    if (ls_failed(ls_read_beginning(path, TAIL_BYTES, &text, &bytes))) return;
    text[strcspn(text, "\n")] = 0;
    cJSON *start = cJSON_Parse(text);
    const double planned = number(start, "updates_planned"), samples = number(start, "train_samples");
    *batch = number(start, "global_batch");
    double an_epoch = ceil(samples / *batch); // the last window of an epoch may be left out
    if (an_epoch > 1 && fmod(planned, an_epoch) != 0) an_epoch = floor(samples / *batch);
    if (planned > 0 && planned <= LS_JSON_WHOLE_MAX) out->updates_planned = (int64_t)planned;
    if (planned / an_epoch > 0 && planned / an_epoch <= LS_JSON_WHOLE_MAX)
        out->epochs = (int64_t)ceil(planned / an_epoch);
    cJSON_Delete(start);
    free(text);
}

static int64_t whole(const cJSON *event, const char *name) {
    int64_t value;
    return ls_json_whole(ls_json_get(event, name), LS_JSON_WHOLE_MAX, &value) ? value : 0;
}

char *ls_sweep_progress_text(const char *folder, int columns, char dst[LS_PROGRESS_TEXT_BYTES]) {
    char path[LS_TEXT_BYTES];
    double batch = NAN;
    ls_progress progress = { .style.width = columns > 0 ? columns + 1 : 1 }; // the bar leaves the last column free
    dst[0] = 0;
    if (ls_failed(ls_path_join(path, sizeof path, folder, "metrics.jsonl"))) return dst;
    char *line = ls_sweep_last_line(path, "{\"event\":\"train\"");
    cJSON *event = line ? cJSON_Parse(line) : NULL;
    if (event) {
        read_plan(path, &progress, &batch);
        ls_train_progress at = { .update = whole(event, "update"),
            .epoch = whole(event, "epoch"),
            .train_loss = number(event, "train_loss"),
            .train_accuracy = number(event, "train_accuracy"),
            .images_per_second = number(event, "images_per_second") };
        at.seconds_left = (double)(progress.updates_planned - at.update) * batch / at.images_per_second;
        ls_progress_bar(dst, &progress, &at);
    }
    cJSON_Delete(event);
    free(line);
    return dst;
}
