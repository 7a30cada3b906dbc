#include "run/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/pinned_folder.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "run/checkpoint_manager.h"
#include "run/manifest.h"
#include "run/metrics.h"
#include "run/run_parts.h"

enum { NUMBERS_MAX = 100000 };

static const double LOCK_SECONDS = 10; // a process that was just killed may still hold the lock
static const char run_file[] = "run.json", config_file[] = "config.ini", network_file[] = "network.ini";
static const char metrics_file[] = "metrics.jsonl", summary_file[] = "summary.json";
static const char evaluation_file[] = "evaluation.json";
static const char weights_file[] = "weights.safetensors", checkpoints_folder[] = "checkpoints";
static const char *const all_files[] = { run_file, config_file, network_file, metrics_file, summary_file,
    evaluation_file, weights_file };

ls_status ls_run_folder_file(const ls_run_folder *folder, const char *name, char *dst, size_t bytes) {
    return ls_path_join(dst, bytes, folder->path, name);
}

// --- the folder's content ------------------------------------------------------------------------

typedef struct {
    enum { NOTHING, A_RUN, CHECKPOINTS, FOREIGN } kind;
    const char *name; // file or folder that shows the kind
} content;

// Sets *there to 1 if the name exists, even if it is a link whose target is missing.
static ls_status is_there(const ls_run_folder *folder, const char *name, int *there) {
    char path[LS_TEXT_BYTES];
    struct stat info;
    LS_TRY(ls_run_folder_file(folder, name, path, sizeof path));
    *there = ls_pinned_lstat(path, &info) == 0;
    if (*there || errno == ENOENT) return LS_SUCCESS;
    return ls_fail(ls_io_code(errno, LS_STORAGE), "run folder %s: cannot look for %s: %s; choose another by --run-dir",
        folder->path, name, strerror(errno));
}

// Looks for a run in the folder; sets folder->run and folder->earlier.
static ls_status look_for_run(ls_run_folder *folder, content *found) {
    char path[LS_TEXT_BYTES];
    int known, there;
    folder->earlier = 0;
    LS_TRY(ls_run_folder_file(folder, run_file, path, sizeof path));
    LS_TRY(ls_run_identity_read(path, &folder->run, &known));
    if (known) *found = (content){ A_RUN, run_file };
    LS_TRY(is_there(folder, run_file, &there));
    if (there) return LS_SUCCESS;
    LS_TRY(ls_run_folder_file(folder, metrics_file, path, sizeof path));
    folder->earlier = ls_metrics_begins(path);
    if (folder->earlier) *found = (content){ A_RUN, metrics_file };
    return LS_SUCCESS;
}

static ls_status look_for_checkpoints(const ls_run_folder *folder, content *found) {
    char path[LS_TEXT_BYTES];
    int64_t *updates;
    int count, there;
    LS_TRY(ls_run_folder_file(folder, checkpoints_folder, path, sizeof path));
    LS_TRY(is_there(folder, checkpoints_folder, &there));
    if (there && !ls_path_exists(path) && errno == ENOENT)
        return ls_fail(LS_STORAGE, "%s: is a link to what is not there (an unmounted disk?)", path);
    LS_TRY(ls_checkpoint_manager_list(path, &updates, &count));
    free(updates);
    if (count > 0) *found = (content){ CHECKPOINTS, checkpoints_folder };
    return LS_SUCCESS;
}

static ls_status find_content(ls_run_folder *folder, content *found) {
    *found = (content){ NOTHING, "" };
    LS_TRY(look_for_run(folder, found));
    if (found->kind == NOTHING) LS_TRY(look_for_checkpoints(folder, found));
    for (size_t i = 0; i < sizeof all_files / sizeof all_files[0] && found->kind == NOTHING; i++) {
        int there;
        LS_TRY(is_there(folder, all_files[i], &there));
        if (there) *found = (content){ FOREIGN, all_files[i] };
    }
    return LS_SUCCESS;
}

static ls_status refuse_to_start(const ls_run_folder *folder, const content *found) {
    switch (found->kind) {
    case A_RUN:
        return ls_fail(LS_USAGE,
            "run folder %s holds a run already (%s) and is never overwritten: go on with it by --resume, or choose "
            "another by --run-dir",
            folder->path, found->name);
    case CHECKPOINTS:
        return ls_fail(LS_USAGE,
            "run folder %s holds checkpoints of another run: choose another folder by --run-dir, or go on from them, "
            "as a run of its own, by --resume --set run.adopt=true",
            folder->path);
    default:
        return ls_fail(LS_USAGE,
            "run folder %s holds a %s that no run has written, and a run would replace it: choose another folder by "
            "--run-dir",
            folder->path, found->name);
    }
}

static ls_status refuse_to_go_on(const ls_run_folder *folder, const content *found) {
    return ls_fail(LS_USAGE,
        "run folder %s holds no run to go on with%s%s%s: is --run-dir or the current folder the right one? "
        "(run.resume = auto in place of --resume starts a run where there is none)",
        folder->path, found->kind == FOREIGN ? " (its " : "", found->kind == FOREIGN ? found->name : "",
        found->kind == FOREIGN ? " was written by no run)" : "");
}

// Checks, while holding the lock, that the folder's content suits run.resume. Sets folder->run and folder->holds_run.
static ls_status check_content(const ls_config *cfg, ls_run_folder *folder) {
    content found;
    int resume = cfg->run_resume;
    LS_TRY(find_content(folder, &found));
    folder->holds_run =
        resume != LS_RESUME_OFF && (found.kind == A_RUN || (found.kind == CHECKPOINTS && cfg->run_adopt));
    if (!folder->run.id[0]) LS_TRY(ls_run_identity_new(&folder->run));
    if (folder->earlier) LS_TRY(ls_run_identity_adopt(&folder->run, "", INT64_MAX));
    if (folder->holds_run) return LS_SUCCESS;
    if (resume == LS_RESUME_MUST && found.kind != CHECKPOINTS) return refuse_to_go_on(folder, &found);
    if (found.kind != NOTHING) return refuse_to_start(folder, &found);
    if (resume == LS_RESUME_AUTO)
        ls_info("run       %s holds no run to go on with: a new one begins (run.resume = auto)", folder->path);
    return LS_SUCCESS;
}

static int holds_run(ls_run_folder *folder) {
    content found;
    return !ls_failed(find_content(folder, &found)) && found.kind == A_RUN;
}

// --- the choice of the folder --------------------------------------------------------------------

// Takes a folder that the user has named. It is made if it is missing, unless it must hold a run.
static ls_status take_named(ls_run_folder *folder, int resume) {
    struct stat info;
    int there = ls_pinned_stat(folder->path, &info) == 0;
    folder->made = !there && errno == ENOENT;
    if (there && !S_ISDIR(info.st_mode))
        return ls_fail(LS_USAGE, "run folder %s: is a file; choose another by --run-dir", folder->path);
    if (folder->made && resume == LS_RESUME_MUST) return refuse_to_go_on(folder, &(content){ 0 });
    return ls_make_folders(folder->path);
}

// Refuses a name with '/', because the folder must lie directly in runs/.
static ls_status check_name(const char *name) {
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return ls_fail(LS_USAGE,
            "run.name = %s: is the name of a folder below runs/, without '/'; for a folder elsewhere use --run-dir",
            name);
    return LS_SUCCESS;
}

// Writes the name of the configuration file without folder and ending into base.
static void base_name(const char *file, char base[LS_TEXT_BYTES]) {
    const char *slash = strrchr(file, '/');
    snprintf(base, LS_TEXT_BYTES, "%s", slash ? slash + 1 : file);
    char *dot = strrchr(base, '.');
    if (dot && dot != base) *dot = '\0';
}

static ls_status number_path(const char *file, int number, ls_run_folder *folder) {
    char base[LS_TEXT_BYTES];
    base_name(file, base);
    int length = snprintf(folder->path, sizeof folder->path, "runs/%s-%03d", base, number);
    if (length >= 0 && (size_t)length < sizeof folder->path) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: name too long for a run folder; use --run-dir", file);
}

// Makes the first free one of runs/<base>-001, -002, ... by mkdir, so that runs started together get different numbers.
static ls_status take_numbered(const char *file, ls_run_folder *folder) {
    LS_TRY(ls_make_folders("runs"));
    for (int number = 1; number < NUMBERS_MAX; number++) {
        LS_TRY(number_path(file, number, folder));
        folder->made = ls_pinned_mkdir(folder->path, 0777) == 0;
        if (folder->made) return ls_sync_folder("runs");
        if (errno != EEXIST)
            return ls_fail(ls_io_code(errno, LS_STORAGE), "run folder %s: mkdir: %s; choose another by --run-dir",
                folder->path, strerror(errno));
    }
    return ls_fail(LS_STORAGE, "runs/%s-NNN: all numbers up to %d are taken; use --run-dir", file, NUMBERS_MAX - 1);
}

// Finds the highest NNN for which runs/<base>-NNN holds a run; 0: there is no such folder.
static ls_status highest_number(const char *file, int *highest) {
    char base[LS_TEXT_BYTES];
    base_name(file, base);
    size_t length = strlen(base);
    *highest = 0;
    DIR *dir = ls_pinned_opendir("runs");
    if (!dir && errno != ENOENT)
        return ls_fail(ls_io_code(errno, LS_STORAGE), "runs: cannot look for the last run: %s", strerror(errno));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        ls_run_folder candidate = { .lock = -1 };
        const char *number = entry->d_name + length + 1;
        if (strncmp(entry->d_name, base, length) != 0 || entry->d_name[length] != '-' || !*number) continue;
        int n = strspn(number, "0123456789") == strlen(number) ? atoi(number) : 0;
        if (n <= *highest || n >= NUMBERS_MAX || ls_failed(number_path(file, n, &candidate))) continue;
        if (holds_run(&candidate)) *highest = n;
    }
    if (dir) closedir(dir);
    return LS_SUCCESS;
}

// Returns 1 if the configuration is the config.ini of a run's folder; folder->path then becomes that folder.
static int lies_in_run(const ls_config *cfg, ls_run_folder *folder) {
    const char *slash = strrchr(cfg->file, '/');
    snprintf(folder->path, sizeof folder->path, "%s", cfg->folder[0] ? cfg->folder : ".");
    return strcmp(slash ? slash + 1 : cfg->file, config_file) == 0 && holds_run(folder);
}

static ls_status choose(const ls_config *cfg, const char *run_dir, ls_run_folder *folder) {
    int resume = cfg->run_resume, number = 0;
    if (run_dir || cfg->run_name[0]) {
        if (!run_dir) LS_TRY(check_name(cfg->run_name));
        LS_TRY(
            ls_path_join(folder->path, sizeof folder->path, run_dir ? "" : "runs", run_dir ? run_dir : cfg->run_name));
        return take_named(folder, resume);
    }
    if (resume == LS_RESUME_OFF) return take_numbered(cfg->file, folder);
    if (lies_in_run(cfg, folder)) return LS_SUCCESS;
    LS_TRY(highest_number(cfg->file, &number));
    if (number) return number_path(cfg->file, number, folder);
    if (resume == LS_RESUME_AUTO) return take_numbered(cfg->file, folder);
    return ls_fail(LS_USAGE,
        "%s: no run of it below runs/ to go on with: is the current folder the right one, or a --run-dir missing? "
        "(run.resume = auto in place of --resume starts a run where there is none)",
        cfg->file);
}

// --- the lock ------------------------------------------------------------------------------------

// Locks the folder against other processes until ls_run_folder_close, and pins it. Succeeds also if locks do not work.
static ls_status lock(ls_run_folder *folder) {
    folder->lock = ls_pinned_open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (folder->lock < 0)
        return ls_fail(ls_io_code(errno, LS_STORAGE), "run folder %s: open: %s", folder->path, strerror(errno));
    double start = ls_clock_seconds();
    while (flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (ls_clock_seconds() - start > LOCK_SECONDS)
            return ls_fail(LS_USAGE,
                "run folder %s: another process is writing into it; wait for its end, or choose "
                "another folder by --run-dir",
                folder->path);
        ls_clock_sleep(0.05);
    }
    ls_pin_folder(folder->path, folder->lock);
    return LS_SUCCESS;
}

ls_status ls_run_folder_check(const ls_run_folder *folder) {
    char where[LS_PINNED_PATH_BYTES];
    switch (ls_pinned_look(where)) {
    case LS_PINNED_MOVED:
        return ls_fail(LS_STORAGE,
            "run folder %s: was moved, renamed or replaced during the run, which is complete: its results are in %s",
            folder->path, where[0] ? where : "the folder that was moved");
    case LS_PINNED_REMOVED:
        return ls_fail(LS_STORAGE, "run folder %s: was removed during the run: its results are lost", folder->path);
    default:
        return LS_SUCCESS;
    }
}

void ls_run_folder_close(ls_run_folder *folder) {
    if (folder->lock >= 0) ls_unpin_folder();
    if (folder->lock >= 0 && folder->made) rmdir(folder->path); // fails if the run has written files
    if (folder->lock >= 0) close(folder->lock);
    folder->lock = -1;
}

// Checks early that the folder is writable, so that the message names the folder and not a file in it.
static ls_status check_writable(const ls_run_folder *folder) {
    if (ls_pinned_access(folder->path, W_OK | X_OK) == 0) return LS_SUCCESS;
    return ls_fail(ls_io_code(errno, LS_STORAGE), "run folder %s: not writable: %s; choose another by --run-dir",
        folder->path, strerror(errno));
}

// Returns the absolute path, for free(). If the file is gone, returns the absolute path of its folder with its name, so
// that a run's options stay the same. NULL: errno has the reason.
static char *new_absolute(const char *path) {
    char *real = realpath(path, NULL);
    if (real || errno != ENOENT || strcmp(path, ".") == 0) return real;
    char *folder = ls_new_text(path), *cut = strrchr(folder, '/');
    const char *name = cut ? path + (cut - folder) + 1 : path;
    if (cut) cut[cut == folder] = 0;
    real = new_absolute(cut ? folder : ".");
    char *joined = real ? ls_new_textf("%s%s%s", real, *name && real[1] ? "/" : "", name) : NULL;
    free(real);
    free(folder);
    return joined;
}

static ls_status absolute_path(const ls_config *cfg, int option, char text[LS_TEXT_BYTES]) {
    char joined[LS_TEXT_BYTES];
    if (!text[0]) return LS_SUCCESS;
    LS_TRY(ls_config_path(cfg, option, joined, sizeof joined));
    char *real = new_absolute(joined);
    if (!real && errno == ENOMEM) ls_out_of_memory(0, "the path %s", joined);
    int fits = snprintf(text, LS_TEXT_BYTES, "%s", real ? real : joined) < LS_TEXT_BYTES;
    free(real);
    return fits ? LS_SUCCESS : ls_fail(LS_USAGE, "%s: path longer than %d bytes", joined, LS_TEXT_BYTES - 1);
}

// --- writing -------------------------------------------------------------------------------------

static ls_status compare_text(const char *path, const char *text, size_t bytes, int *same) {
    char *there = NULL;
    size_t length = 0;
    *same = 0;
    if (!ls_path_exists(path)) return LS_SUCCESS;
    LS_TRY(ls_read_beginning(path, bytes + 1, &there, &length));
    *same = length == bytes && memcmp(there, text, bytes) == 0;
    free(there);
    return LS_SUCCESS;
}

// Writes a text file of the folder. The file `input`, which this process reads, is never replaced, even if it has
// another path. A file with the same text is not written again.
static ls_status put_text(
    const ls_run_folder *folder, const char *name, const char *input, const char *text, size_t bytes) {
    char path[LS_TEXT_BYTES];
    int same;
    LS_TRY(ls_run_folder_file(folder, name, path, sizeof path));
    LS_TRY(ls_path_same(path, input, &same));
    if (!same) LS_TRY(compare_text(path, text, bytes, &same));
    return same ? LS_SUCCESS : ls_write_file(path, text, bytes);
}

static ls_status put_config(const ls_run_folder *folder, const ls_train_info *info, const ls_config *effective) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = ls_text_stream(&text, &bytes);
    ls_run_parts_write(info, memory);
    ls_config_write(effective, memory, 0);
    ls_text_stream_close(memory);
    ls_status status = put_text(folder, config_file, info->cfg->file, text, bytes);
    free(text);
    return status;
}

static void report_adopted(const ls_run_folder *folder, const ls_run_identity *there, const ls_run_identity *run) {
    for (int i = 0; i < run->adopted_count; i++) {
        const char *id = run->adopted[i].id;
        if (there->id[0] && ls_run_identity_owns(there, id, run->adopted[i].update)) continue;
        if (!id[0] && folder->earlier)
            ls_alert("run folder %s: its run is of an earlier version of the program, and goes on as run %s",
                folder->path, run->id);
        else
            ls_alert("run folder %s: checkpoints of another run (%s), up to update %lld, are this run's from now on",
                folder->path, id[0] ? id : "without an identity", (long long)run->adopted[i].update);
    }
}

static ls_status put_run(const ls_run_folder *folder, const ls_run_identity *run) {
    char path[LS_TEXT_BYTES];
    ls_run_identity there;
    int known;
    LS_TRY(ls_run_folder_file(folder, run_file, path, sizeof path));
    LS_TRY(ls_run_identity_read(path, &there, &known));
    if (known && ls_run_identity_covers(&there, run)) return LS_SUCCESS;
    report_adopted(folder, &there, run);
    return ls_run_identity_write(path, run);
}

// Reports changed options, even with --quiet, because the command line alone does not describe the run.
static void report_changes(const ls_run_folder *folder, const ls_train_info *info) {
    const cJSON *part = cJSON_GetArrayItem(info->parts, cJSON_GetArraySize(info->parts) - 1);
    char text[LS_STATUS_TEXT_BYTES / 2];
    if (ls_manifest_changes_text(ls_json_get(part, "changed"), text, sizeof text)[0])
        ls_alert("run folder %s: goes on after update %lld with other options than before: %s", folder->path,
            (long long)info->resumed_at, text);
}

static ls_status take_away(const ls_run_folder *folder, const char *name) {
    char path[LS_TEXT_BYTES];
    int there;
    LS_TRY(ls_run_folder_file(folder, name, path, sizeof path));
    LS_TRY(is_there(folder, name, &there));
    if (!there || ls_pinned_unlink(path) == 0) return LS_SUCCESS;
    return ls_fail(ls_io_code(errno, LS_STORAGE), "%s: unlink: %s", path, strerror(errno));
}

// Removes partly written files of killed processes.
static ls_status clean(const ls_run_folder *folder) {
    char path[LS_TEXT_BYTES];
    for (size_t i = 0; i < sizeof all_files / sizeof all_files[0]; i++) {
        LS_TRY(ls_run_folder_file(folder, all_files[i], path, sizeof path));
        ls_atomic_file_clean(path);
    }
    LS_TRY(ls_run_folder_file(folder, checkpoints_folder, path, sizeof path));
    ls_checkpoint_manager_clean(path);
    return LS_SUCCESS;
}

ls_status ls_run_folder_config(const ls_config *cfg, ls_config *effective) {
    *effective = *cfg;
    snprintf(effective->model_file, sizeof effective->model_file, "%s", network_file);
    effective->run_resume = LS_RESUME_OFF; // the file repeats the run; --resume continues it
    effective->run_adopt = 0;
    LS_TRY(absolute_path(cfg, LS_OPTION_data_path, effective->data_path));
    LS_TRY(absolute_path(cfg, LS_OPTION_distill_weights, effective->distill_weights));
    return absolute_path(cfg, LS_OPTION_model_init, effective->model_init);
}

ls_status ls_run_folder_begin(const ls_run_folder *folder, const ls_train_info *info) {
    ls_config effective;
    LS_TRY(ls_run_folder_config(info->cfg, &effective));
    report_changes(folder, info);
    LS_TRY(put_run(folder, &info->run)); // first, so that the other files belong to a run
    LS_TRY(clean(folder));
    LS_TRY(take_away(folder, summary_file)); // early, because it says that the run is complete
    LS_TRY(take_away(folder, evaluation_file));
    LS_TRY(put_text(folder, network_file, info->graph->path, info->graph->text, strlen(info->graph->text)));
    return put_config(folder, info, &effective);
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status read_summary(const char *path, int64_t *updates) {
    cJSON *tree = NULL;
    LS_TRY(ls_json_read_file(path, &tree));
    int good = ls_json_whole(ls_json_get(tree, "updates"), LS_JSON_WHOLE_MAX, updates);
    cJSON_Delete(tree);
    return good ? LS_SUCCESS : ls_fail(LS_STORAGE, "%s: damaged: does not say how many updates were done", path);
}

ls_status ls_run_folder_record(const ls_run_folder *folder, ls_run_record *record) {
    char path[LS_TEXT_BYTES];
    int there;
    *record = (ls_run_record){ .checkpoint = -1, .summary = -1 };
    LS_TRY(ls_run_folder_file(folder, metrics_file, path, sizeof path));
    LS_TRY(ls_metrics_last_checkpoint(path, &record->checkpoint));
    LS_TRY(ls_run_folder_file(folder, summary_file, path, sizeof path));
    LS_TRY(is_there(folder, summary_file, &there));
    return there ? read_summary(path, &record->summary) : LS_SUCCESS;
}

ls_status ls_run_folder_open(const ls_config *cfg, const char *run_dir, ls_run_folder *out) {
    *out = (ls_run_folder){ .lock = -1 };
    LS_TRY(choose(cfg, run_dir, out));
    ls_status status = check_writable(out);
    LS_THEN(status, lock(out));
    LS_THEN(status, check_content(cfg, out));
    if (ls_failed(status)) ls_run_folder_close(out);
    return status;
}
