#include "sweep/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "config/ini.h"
#include "sweep/results.h"

static const char record_file[] = "sweep.json", format[] = "lockstep sweep";
enum { VERSION = 1 };

static const double LOCK_SECONDS = 2; // a process that was killed a moment ago may still hold the lock

ls_status ls_sweep_folder_file(const ls_sweep_plan *plan, const char *name, char dst[LS_TEXT_BYTES]) {
    return ls_path_join(dst, LS_TEXT_BYTES, plan->folder, name);
}

// --- the lock ------------------------------------------------------------------------------------

// Locks the sweep's folder. On a file system without locks it succeeds: then two sweeps in one folder are not noticed.
static ls_status take_lock(const ls_sweep_plan *plan, ls_sweep_lock kind, int *lock) {
    const double start = ls_clock_seconds();
    *lock = open(plan->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return ls_fail_io("be opened", plan->folder, "open");
    while (flock(*lock, (kind == LS_SWEEP_ALONE ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (ls_clock_seconds() - start > LOCK_SECONDS)
            return ls_fail(LS_USAGE,
                "sweep folder %s: another train sweep is at work in it: wait for its end, or choose another by "
                "--run-dir (tasks of one sweep, --task K, may run at the same time)",
                plan->folder);
        ls_clock_sleep(0.02);
    }
    return LS_SUCCESS;
}

// --- sweep.json ----------------------------------------------------------------------------------

static ls_status hash_network(const ls_sweep_plan *plan, int setting, uint64_t *hash) {
    char path[2 * LS_TEXT_BYTES], *text = NULL;
    size_t bytes = 0;
    ls_config cfg;
    LS_TRY(ls_sweep_config(plan, setting, -1, &cfg));
    LS_TRY(ls_config_network(&cfg, path, sizeof path));
    LS_TRY(ls_ini_read_text(path, &text, &bytes));
    *hash = ls_hash(text, bytes);
    free(text);
    return LS_SUCCESS;
}

static cJSON *describe_run(const ls_sweep_plan *plan, int run, uint64_t network) {
    char name[LS_SWEEP_NAME_BYTES];
    const int setting = ls_sweep_setting(plan, run);
    cJSON *row = cJSON_CreateObject();
    ls_json_add_text(row, "folder", ls_sweep_run_name(plan, run, name));
    cJSON *values = ls_json_add_object(row, "setting");
    for (int i = 0; i < plan->swept; i++)
        ls_json_add_text(values, plan->axes[i].name, ls_sweep_value(plan, i, setting));
    ls_json_add_int(row, "seed", ls_sweep_seed(plan, run));
    ls_json_add_hash(row, "network", network);
    return row;
}

static const cJSON *find_run(const cJSON *runs, const char *folder) {
    const cJSON *row;
    cJSON_ArrayForEach(row, runs) {
        const char *name = ls_json_get_text(row, "folder");
        if (name && strcmp(name, folder) == 0) return row;
    }
    return NULL;
}

// Refuses a run whose network file has changed since sweep.json recorded the run: its results would not belong to the
// other runs.
static ls_status check_network(const ls_sweep_plan *plan, int run, const cJSON *before, const cJSON *now) {
    const char *a = ls_json_get_text(before, "network"), *b = ls_json_get_text(now, "network");
    ls_config cfg;
    if (a && b && strcmp(a, b) == 0) return LS_SUCCESS;
    LS_TRY(ls_sweep_config(plan, ls_sweep_setting(plan, run), -1, &cfg));
    return ls_fail(LS_USAGE,
        "sweep folder %s: the network %s is not what it was when the sweep began: set it back, or choose another "
        "folder by --run-dir",
        plan->folder, cfg.model_file);
}

// Appends those runs of the plan that `runs` lacks, and adds their number to *added. Fails if the network of a run that
// is there has changed. networks: a hash for each setting.
static ls_status add_runs(const ls_sweep_plan *plan, const uint64_t *networks, cJSON *runs, int *added) {
    for (int run = 0; run < plan->runs; run++) {
        cJSON *row = describe_run(plan, run, networks[ls_sweep_setting(plan, run)]);
        const char *folder = ls_json_get_text(row, "folder");
        const cJSON *there = folder ? find_run(runs, folder) : NULL;
        ls_status status = there ? check_network(plan, run, there, row) : LS_SUCCESS;
        if (there) {
            cJSON_Delete(row);
        } else {
            ls_json_append(runs, row);
            ++*added;
        }
        LS_TRY(status);
    }
    return LS_SUCCESS;
}

// Refuses a plan whose configuration is not that of the first run in sweep.json, which may be none of the plan's runs.
static ls_status check_first(const ls_sweep_plan *plan, const cJSON *runs) {
    char folder[LS_TEXT_BYTES], path[LS_TEXT_BYTES];
    const cJSON *row;
    cJSON_ArrayForEach(row, runs) {
        const char *name = ls_json_get_text(row, "folder");
        LS_TRY(ls_sweep_folder_file(plan, name ? name : "", folder));
        LS_TRY(ls_path_join(path, sizeof path, folder, "config.ini"));
        if (ls_path_exists(path)) return ls_sweep_check_config(plan, -1, folder, path);
    }
    return LS_SUCCESS;
}

static cJSON *new_record(const ls_sweep_plan *plan) {
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "format", format);
    ls_json_add_int(tree, "version", VERSION);
    ls_json_add_text(tree, "config", plan->config);
    cJSON *options = ls_json_add_array(tree, "options");
    for (int i = 0; i < plan->swept; i++) ls_json_append(options, ls_json_string(plan->axes[i].name));
    ls_json_add_array(tree, "runs");
    return tree;
}

// Refuses a file that is not a sweep.json of this version. Also refuses other swept options, because they are part of
// the runs' names, and one folder would mix the names.
static ls_status check_options(const ls_sweep_plan *plan, const char *path, const cJSON *tree) {
    const char *kind = ls_json_get_text(tree, "format");
    const cJSON *options = ls_json_get(tree, "options");
    int64_t version = 0;
    if (!kind || strcmp(kind, format) != 0 || !cJSON_IsArray(options) || !cJSON_IsArray(ls_json_get(tree, "runs")) ||
        !ls_json_whole(ls_json_get(tree, "version"), INT32_MAX, &version))
        return ls_fail(LS_USAGE, "%s: was written by no sweep: choose another folder by --run-dir", path);
    if (version != VERSION)
        return ls_fail(LS_USAGE, "%s: has version %lld, this program reads version %d: use the one that wrote it", path,
            (long long)version, VERSION);
    int same = cJSON_GetArraySize(options) == plan->swept;
    for (int i = 0; i < plan->swept && same; i++) {
        const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(options, i));
        same = name && strcmp(name, plan->axes[i].name) == 0;
    }
    if (same) return LS_SUCCESS;
    char *text = cJSON_PrintUnformatted(options);
    ls_status status = ls_fail(LS_USAGE,
        "sweep folder %s: holds a sweep over other options (%s): more seeds and values may be added, in the same order "
        "of options; for these choose another folder by --run-dir",
        plan->folder, text ? text : "");
    cJSON_free(text);
    return status;
}

// Refuses a folder without sweep.json that holds files of a run, or files that the sweep would replace.
static ls_status check_foreign(const ls_sweep_plan *plan) {
    static const char *const names[] = { "run.json", "metrics.jsonl", "results.json", "runs.csv", "settings.csv" };
    char path[LS_TEXT_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        LS_TRY(ls_sweep_folder_file(plan, names[i], path));
        if (ls_path_exists(path))
            return ls_fail(LS_USAGE, "sweep folder %s: holds a %s, and no sweep: choose another by --run-dir",
                plan->folder, names[i]);
    }
    return LS_SUCCESS;
}

ls_status ls_sweep_folder_read(const ls_sweep_plan *plan, cJSON **record) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_sweep_folder_file(plan, record_file, path));
    if (!ls_path_exists(path)) {
        LS_TRY(check_foreign(plan));
        *record = new_record(plan);
        return LS_SUCCESS;
    }
    cJSON *tree = NULL;
    LS_TRY(ls_json_read_file(path, &tree));
    ls_status status = check_options(plan, path, tree);
    return LS_GIVE_OR_FREE(status, tree, record, cJSON_Delete);
}

static ls_status update_record(const ls_sweep_plan *plan, const uint64_t *networks, int writes) {
    char path[LS_TEXT_BYTES];
    cJSON *record = NULL;
    int added = 0;
    LS_TRY(ls_sweep_folder_file(plan, record_file, path));
    LS_TRY(ls_sweep_folder_read(plan, &record));
    ls_status status = check_first(plan, ls_json_get(record, "runs"));
    LS_THEN(status, add_runs(plan, networks, ls_json_get(record, "runs"), &added));
    if (added && writes) LS_THEN(status, ls_json_write_file(path, record));
    cJSON_Delete(record);
    return status;
}

static ls_status open_and_record(const ls_sweep_plan *plan, ls_sweep_lock kind, const uint64_t *networks, int *lock) {
    if (!lock) return update_record(plan, networks, 0);
    LS_TRY(ls_make_folders(plan->folder));
    ls_status status = take_lock(plan, kind, lock);
    LS_THEN(status, update_record(plan, networks, 1));
    if (ls_failed(status) && *lock >= 0) close(*lock);
    if (ls_failed(status)) *lock = -1;
    return status;
}

ls_status ls_sweep_folder_open(const ls_sweep_plan *plan, ls_sweep_lock kind, int *lock) {
    if (lock) *lock = -1;
    uint64_t *networks = ls_new(plan->settings, sizeof *networks, "networks of %d settings", plan->settings);
    ls_status status = LS_SUCCESS;
    for (int setting = 0; setting < plan->settings; setting++)
        LS_THEN(status, hash_network(plan, setting, &networks[setting]));
    LS_THEN(status, open_and_record(plan, kind, networks, lock));
    free(networks);
    return status;
}
