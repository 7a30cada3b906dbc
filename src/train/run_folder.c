#include "train/run_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic_file.h"

enum { NUMBERS_MAX = 100000 };

static const char *const run_files[] = { "config.ini", "metrics.jsonl", "summary.json", "weights.safetensors" };

ls_status ls_run_folder_file(const ls_run_folder *folder, const char *name, char *dst, size_t bytes) {
    return ls_path_join(dst, bytes, folder->path, name);
}

static ls_status refuse_used(const ls_run_folder *folder) {
    for (size_t i = 0; i < sizeof run_files / sizeof run_files[0]; i++) {
        char path[LS_TEXT_BYTES];
        LS_TRY(ls_run_folder_file(folder, run_files[i], path, sizeof path));
        if (access(path, F_OK) == 0)
            return ls_fail(LS_USAGE,
                "run folder %s holds a run already (%s) and is never overwritten: choose another by --run-dir, or move "
                "this one away",
                folder->path, run_files[i]);
        if (errno != ENOENT)
            return ls_fail(LS_STORAGE, "run folder %s: cannot look for %s: %s; choose another by --run-dir",
                folder->path, run_files[i], strerror(errno));
    }
    return LS_SUCCESS;
}

// A name given by the user: made if missing, used if it holds no run.
static ls_status take_named(ls_run_folder *folder) {
    struct stat info;
    if (stat(folder->path, &info) == 0 && !S_ISDIR(info.st_mode))
        return ls_fail(LS_USAGE, "run folder %s: is a file; choose another by --run-dir", folder->path);
    LS_TRY(refuse_used(folder));
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

// runs/<base>-001, -002, ...: mkdir decides, so that runs started together get different numbers.
static ls_status take_numbered(const char *config_file, ls_run_folder *folder) {
    const char *slash = strrchr(config_file, '/');
    char base[LS_TEXT_BYTES];
    snprintf(base, sizeof base, "%s", slash ? slash + 1 : config_file);
    char *dot = strrchr(base, '.');
    if (dot && dot != base) *dot = '\0';
    LS_TRY(ls_make_folders("runs"));
    for (int number = 1; number < NUMBERS_MAX; number++) {
        int length = snprintf(folder->path, sizeof folder->path, "runs/%s-%03d", base, number);
        if (length < 0 || (size_t)length >= sizeof folder->path)
            return ls_fail(LS_USAGE, "%s: name too long for a run folder; use --run-dir", config_file);
        if (mkdir(folder->path, 0777) == 0) return LS_SUCCESS;
        if (errno != EEXIST)
            return ls_fail(
                LS_STORAGE, "run folder %s: mkdir: %s; choose another by --run-dir", folder->path, strerror(errno));
    }
    return ls_fail(LS_STORAGE, "runs/%s-NNN: all numbers up to %d are taken; use --run-dir", base, NUMBERS_MAX - 1);
}

// Before anything is written into it, so that the message names the folder and not some file of ours.
static ls_status check_writable(const ls_run_folder *folder) {
    if (access(folder->path, W_OK | X_OK) == 0) return LS_SUCCESS;
    return ls_fail(
        LS_STORAGE, "run folder %s: not writable: %s; choose another by --run-dir", folder->path, strerror(errno));
}

static ls_status make_absolute(char text[LS_TEXT_BYTES], const char *folder) {
    char joined[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(joined, sizeof joined, folder, text));
    char *real = realpath(joined, NULL);
    int fits = snprintf(text, LS_TEXT_BYTES, "%s", real ? real : joined) < LS_TEXT_BYTES;
    free(real);
    return fits ? LS_SUCCESS : ls_fail(LS_USAGE, "%s: path longer than %d bytes", joined, LS_TEXT_BYTES - 1);
}

static ls_status copy_network(const ls_config *cfg, const ls_run_folder *folder) {
    char from[LS_TEXT_BYTES], to[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(from, sizeof from, cfg->folder, cfg->model_file));
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

ls_status ls_run_folder_create(const ls_config *cfg, const char *run_dir, ls_run_folder *out) {
    if (run_dir || cfg->run_name[0]) {
        if (!run_dir) LS_TRY(check_name(cfg->run_name));
        LS_TRY(ls_path_join(out->path, sizeof out->path, run_dir ? "" : "runs", run_dir ? run_dir : cfg->run_name));
        LS_TRY(take_named(out));
    } else {
        LS_TRY(take_numbered(cfg->file, out));
    }
    LS_TRY(check_writable(out));
    LS_TRY(copy_network(cfg, out));
    ls_config effective = *cfg;
    snprintf(effective.model_file, sizeof effective.model_file, "network.ini");
    if (effective.data_path[0]) LS_TRY(make_absolute(effective.data_path, cfg->folder));
    return write_config(&effective, out);
}
