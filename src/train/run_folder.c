#include "train/run_folder.h"

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

enum { NUMBERS_MAX = 100000 };

static const char *const run_files[] = { "config.ini", "metrics.jsonl", "summary.json", "weights.safetensors" };
static const double LOCK_SECONDS = 10; // a process that was killed a moment ago may still hold it

ls_status ls_run_folder_file(const ls_run_folder *folder, const char *name, char *dst, size_t bytes) {
    return ls_path_join(dst, bytes, folder->path, name);
}

// *name: a file of a run that is there, or NULL.
static ls_status find_used(const ls_run_folder *folder, const char **name) {
    *name = NULL;
    for (size_t i = 0; i < sizeof run_files / sizeof run_files[0] && !*name; i++) {
        char path[LS_TEXT_BYTES];
        LS_TRY(ls_run_folder_file(folder, run_files[i], path, sizeof path));
        if (access(path, F_OK) == 0)
            *name = run_files[i];
        else if (errno != ENOENT)
            return ls_fail(LS_STORAGE, "run folder %s: cannot look for %s: %s; choose another by --run-dir",
                folder->path, run_files[i], strerror(errno));
    }
    return LS_SUCCESS;
}

static ls_status refuse_used(const ls_run_folder *folder) {
    const char *name;
    LS_TRY(find_used(folder, &name));
    if (!name) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "run folder %s holds a run already (%s) and is never overwritten: go on with it by --resume, choose another by "
        "--run-dir, or move this one away",
        folder->path, name);
}

// A name given by the user: made if missing, used if it holds no run, or the one to go on with.
static ls_status take_named(ls_run_folder *folder, int resume) {
    struct stat info;
    const char *name;
    if (stat(folder->path, &info) == 0 && !S_ISDIR(info.st_mode))
        return ls_fail(LS_USAGE, "run folder %s: is a file; choose another by --run-dir", folder->path);
    if (!resume) LS_TRY(refuse_used(folder));
    LS_TRY(find_used(folder, &name));
    folder->holds_run = name != NULL;
    return ls_make_folders(folder->path);
}

// Without '/', that a name below runs/ stays below it.
static ls_status check_name(const char *name) {
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return ls_fail(LS_USAGE,
            "run.name = %s: is the name of a folder below runs/, without '/'; for a folder elsewhere use --run-dir",
            name);
    return LS_SUCCESS;
}

// The configuration's name without folder and ending.
static void base_name(const char *config_file, char base[LS_TEXT_BYTES]) {
    const char *slash = strrchr(config_file, '/');
    snprintf(base, LS_TEXT_BYTES, "%s", slash ? slash + 1 : config_file);
    char *dot = strrchr(base, '.');
    if (dot && dot != base) *dot = '\0';
}

static ls_status number_path(const char *config_file, int number, ls_run_folder *folder) {
    char base[LS_TEXT_BYTES];
    base_name(config_file, base);
    int length = snprintf(folder->path, sizeof folder->path, "runs/%s-%03d", base, number);
    if (length >= 0 && (size_t)length < sizeof folder->path) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: name too long for a run folder; use --run-dir", config_file);
}

// runs/<base>-001, -002, ...: mkdir decides, so that runs started together get different numbers.
static ls_status take_numbered(const char *config_file, ls_run_folder *folder) {
    LS_TRY(ls_make_folders("runs"));
    for (int number = 1; number < NUMBERS_MAX; number++) {
        LS_TRY(number_path(config_file, number, folder));
        if (mkdir(folder->path, 0777) == 0) return ls_sync_folder("runs");
        if (errno != EEXIST)
            return ls_fail(
                LS_STORAGE, "run folder %s: mkdir: %s; choose another by --run-dir", folder->path, strerror(errno));
    }
    return ls_fail(
        LS_STORAGE, "runs/%s-NNN: all numbers up to %d are taken; use --run-dir", config_file, NUMBERS_MAX - 1);
}

// The highest runs/<base>-NNN that holds a run; 0: none does.
static ls_status highest_number(const char *config_file, int *highest) {
    char base[LS_TEXT_BYTES];
    base_name(config_file, base);
    size_t length = strlen(base);
    *highest = 0;
    DIR *dir = opendir("runs");
    if (!dir && errno != ENOENT) return ls_fail(LS_STORAGE, "runs: cannot look for the last run: %s", strerror(errno));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        ls_run_folder candidate;
        const char *name, *number = entry->d_name + length + 1;
        if (strncmp(entry->d_name, base, length) != 0 || entry->d_name[length] != '-' || !*number) continue;
        int n = strspn(number, "0123456789") == strlen(number) ? atoi(number) : 0;
        if (n <= *highest || n >= NUMBERS_MAX || ls_failed(number_path(config_file, n, &candidate))) continue;
        if (!ls_failed(find_used(&candidate, &name)) && name) *highest = n;
    }
    if (dir) closedir(dir);
    return LS_SUCCESS;
}

// config.ini in the folder of a run: that run is meant.
static int lies_in_run(const ls_config *cfg, ls_run_folder *folder) {
    char metrics[LS_TEXT_BYTES];
    const char *slash = strrchr(cfg->file, '/');
    snprintf(folder->path, sizeof folder->path, "%s", cfg->folder[0] ? cfg->folder : ".");
    if (strcmp(slash ? slash + 1 : cfg->file, "config.ini") != 0) return 0;
    return !ls_failed(ls_run_folder_file(folder, "metrics.jsonl", metrics, sizeof metrics)) && ls_path_exists(metrics);
}

static ls_status choose(const ls_config *cfg, const char *run_dir, ls_run_folder *folder) {
    int resume = cfg->run_resume == LS_RESUME_AUTO, number = 0;
    if (run_dir || cfg->run_name[0]) {
        if (!run_dir) LS_TRY(check_name(cfg->run_name));
        LS_TRY(
            ls_path_join(folder->path, sizeof folder->path, run_dir ? "" : "runs", run_dir ? run_dir : cfg->run_name));
        return take_named(folder, resume);
    }
    if (resume && lies_in_run(cfg, folder)) return take_named(folder, resume);
    if (resume) LS_TRY(highest_number(cfg->file, &number));
    if (!number) return take_numbered(cfg->file, folder);
    LS_TRY(number_path(cfg->file, number, folder));
    return take_named(folder, resume);
}

// Held until the process ends. Where the file system knows no locks, nothing is lost but this check.
static ls_status lock(ls_run_folder *folder) {
    folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock < 0) return ls_fail(LS_STORAGE, "run folder %s: open: %s", folder->path, strerror(errno));
    double start = ls_clock_seconds();
    while (flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (ls_clock_seconds() - start > LOCK_SECONDS)
            return ls_fail(LS_USAGE,
                "run folder %s: another process is writing into it; wait for its end, or choose "
                "another folder by --run-dir",
                folder->path);
        ls_clock_sleep(0.05);
    }
    return LS_SUCCESS;
}

void ls_run_folder_close(ls_run_folder *folder) {
    if (folder->lock >= 0) close(folder->lock);
    folder->lock = -1;
}

// Before anything is written into it, so that the message names the folder and not some file of ours.
static ls_status check_writable(const ls_run_folder *folder) {
    if (access(folder->path, W_OK | X_OK) == 0) return LS_SUCCESS;
    return ls_fail(
        LS_STORAGE, "run folder %s: not writable: %s; choose another by --run-dir", folder->path, strerror(errno));
}

static ls_status absolute_data_path(const ls_config *cfg, char text[LS_TEXT_BYTES]) {
    char joined[LS_TEXT_BYTES];
    LS_TRY(ls_config_path(cfg, LS_OPTION_data_path, joined, sizeof joined));
    char *real = realpath(joined, NULL);
    if (!real && errno == ENOMEM) return ls_fail(LS_DEVICE, "%s: no memory to make it absolute", joined);
    int fits = snprintf(text, LS_TEXT_BYTES, "%s", real ? real : joined) < LS_TEXT_BYTES;
    free(real);
    return fits ? LS_SUCCESS : ls_fail(LS_USAGE, "%s: path longer than %d bytes", joined, LS_TEXT_BYTES - 1);
}

static ls_status copy_network(const ls_config *cfg, const ls_run_folder *folder) {
    char from[LS_TEXT_BYTES], to[LS_TEXT_BYTES];
    LS_TRY(ls_config_path(cfg, LS_OPTION_model_file, from, sizeof from));
    LS_TRY(ls_run_folder_file(folder, "network.ini", to, sizeof to));
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_read_file(from, &text, &bytes));
    ls_status status = ls_write_file(to, text, bytes);
    free(text);
    return status;
}

static ls_status write_config(const ls_config *cfg, const ls_run_folder *folder) {
    char path[LS_TEXT_BYTES], *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_run_folder_file(folder, "config.ini", path, sizeof path));
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return ls_fail(LS_DEVICE, "%s: no memory to write it", path);
    ls_config_write(cfg, memory, 0);
    int broken = fclose(memory);
    ls_status status =
        broken ? ls_fail(LS_DEVICE, "%s: no memory to write it", path) : ls_write_file(path, text, bytes);
    free(text);
    return status;
}

// Half-written files of processes that were killed.
static void clean(const ls_run_folder *folder) {
    static const char *const names[] = { "config.ini", "network.ini", "summary.json", "weights.safetensors" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[LS_TEXT_BYTES];
        if (!ls_failed(ls_run_folder_file(folder, names[i], path, sizeof path))) ls_atomic_file_clean(path);
    }
}

static ls_status write_all(const ls_config *cfg, ls_run_folder *folder) {
    LS_TRY(check_writable(folder));
    LS_TRY(lock(folder));
    clean(folder);
    LS_TRY(copy_network(cfg, folder));
    ls_config effective = *cfg;
    snprintf(effective.model_file, sizeof effective.model_file, "network.ini");
    effective.run_resume = LS_RESUME_OFF; // it repeats the run; to go on is asked for by --resume
    if (effective.data_path[0]) LS_TRY(absolute_data_path(cfg, effective.data_path));
    return write_config(&effective, folder);
}

ls_status ls_run_folder_open(const ls_config *cfg, const char *run_dir, ls_run_folder *out) {
    *out = (ls_run_folder){ .lock = -1 };
    LS_TRY(choose(cfg, run_dir, out));
    ls_status status = write_all(cfg, out);
    if (ls_failed(status)) ls_run_folder_close(out);
    return status;
}
