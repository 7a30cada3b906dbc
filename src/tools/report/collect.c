#include "tools/report/collect.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "tools/report/run_metrics.h"
#include "config/config.h"
#include "config/ini.h"
#include "run/metrics.h"
#include "run/run_identity.h"

enum { PATH_BYTES = 2 * LS_TEXT_BYTES };
// Rows of a series in the report: a run has at most ROWS_MAX. Many runs share ROWS_OF_ALL, but each may have ROWS_MIN.
enum { ROWS_MAX = 2000, ROWS_MIN = 200, ROWS_OF_ALL = 24000 };

// --- finding the folders -------------------------------------------------------------------------

static ls_status file_of(const char *folder, const char *name, char path[PATH_BYTES], int *there) {
    LS_TRY(ls_path_join(path, PATH_BYTES, folder, name));
    *there = ls_path_exists(path);
    return LS_SUCCESS;
}

static int is_option(const char *section, const char *key) {
    ls_config cfg;
    char word[128], value[LS_TEXT_BYTES];
    const char *name;
    ls_config_defaults(&cfg);
    snprintf(word, sizeof word, "%s.%s", section, key);
    for (int i = 0; ls_config_value(&cfg, i, &name, value, sizeof value); i++)
        if (strcmp(name, word) == 0) return 1;
    return 0;
}

// Returns 1 if the file is a configuration: an INI file whose first entry is one of the program's options. A run that
// ended early may have no other file.
static int is_configuration(const char *path) {
    ls_ini *ini = NULL;
    if (ls_failed(ls_ini_read(path, &ini))) return 0;
    const int is = ini->entry_count > 0 && is_option(ini->entries[0].section, ini->entries[0].key);
    ls_ini_free(ini);
    return is;
}

static ls_status is_run(const char *folder, int *is) {
    char path[PATH_BYTES];
    ls_run_identity run;
    int there;
    LS_TRY(file_of(folder, "run.json", path, &there));
    if (there && (ls_failed(ls_run_identity_read(path, &run, is)) || *is)) {
        *is = 1; // even a damaged run.json, or one of a later version, shows that this is a run
        return LS_SUCCESS;
    }
    LS_TRY(file_of(folder, "metrics.jsonl", path, &there));
    *is = there && ls_metrics_begins(path);
    if (*is) return LS_SUCCESS;
    LS_TRY(file_of(folder, "config.ini", path, &there));
    *is = there && is_configuration(path);
    return LS_SUCCESS;
}

static ls_status is_shown(const char *folder, int *is) {
    char path[PATH_BYTES];
    LS_TRY(is_run(folder, is));
    if (*is) return LS_SUCCESS;
    return file_of(folder, "bench.json", path, is);
}

static ls_status add(const char *path, ls_collected_folders *out) {
    if (out->count == LS_COLLECT_FOLDERS_MAX)
        return ls_fail(LS_USAGE, "%s: more than %d runs: a report shows so many at most", path, LS_COLLECT_FOLDERS_MAX);
    out->paths = ls_grow(out->paths, out->count, sizeof *out->paths, "folders of runs");
    out->paths[out->count++] = ls_new_text(path);
    return LS_SUCCESS;
}

static ls_status add_inner(const char *folder, ls_collected_folders *out) {
    struct dirent **entries = NULL;
    const int found = scandir(folder, &entries, NULL, alphasort);
    if (found < 0 && errno != ENOTDIR) return ls_fail_io("read", folder, "scandir");
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < found; i++) {
        char path[PATH_BYTES];
        int is = 0;
        if (entries[i]->d_name[0] != '.') {
            LS_THEN(status, ls_path_join(path, sizeof path, folder, entries[i]->d_name));
            LS_THEN(status, is_shown(path, &is));
            if (is) LS_THEN(status, add(path, out));
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static ls_status find(const char *named, ls_collected_folders *out) {
    char path[PATH_BYTES]; // without the "/" that a shell's completion appends
    const int before = out->count;
    int is;
    size_t length = strlen(named);
    while (length > 1 && named[length - 1] == '/') length--;
    if (length == 0 || length >= sizeof path) return ls_fail(LS_USAGE, "'%s': no path", named);
    memcpy(path, named, length);
    path[length] = 0;
    if (!ls_path_exists(path))
        return ls_fail(LS_USAGE, "%s: %s; expected the folder of a run (they are below runs/) or of a benchmark", path,
            errno == ENOENT ? "does not exist" : strerror(errno));
    LS_TRY(is_shown(path, &is));
    if (is) return add(path, out);
    LS_TRY(add_inner(path, out));
    if (out->count > before) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: is no folder of a run (run.json, metrics.jsonl or config.ini) or of a benchmark (bench.json), and has "
        "none "
        "in it",
        path);
}

ls_status ls_collect_find(const char *const *paths, int count, ls_collected_folders *out) {
    *out = (ls_collected_folders){ 0 };
    for (int i = 0; i < count; i++) LS_TRY(find(paths[i], out));
    return LS_SUCCESS;
}

void ls_collect_free(ls_collected_folders *folders) {
    for (int i = 0; i < folders->count; i++) free(folders->paths[i]);
    free(folders->paths);
    *folders = (ls_collected_folders){ 0 };
}

// --- reading their files -------------------------------------------------------------------------

// Turns the failure to read a file into a note and a warning: the report is then made without the file. LS_DEVICE (out
// of memory) stays a failure.
static ls_status note(cJSON *object, ls_status status) {
    if (!ls_failed(status) || status.code == LS_DEVICE) return status;
    cJSON *notes = ls_json_get(object, "notes");
    if (!notes) notes = ls_json_add_array(object, "notes");
    ls_json_append(notes, ls_json_string(status.text));
    ls_warn("%s; the report is without it", status.text);
    return LS_SUCCESS;
}

static ls_status add_file(const char *folder, const char *file, const char *name, cJSON *object) {
    char path[PATH_BYTES];
    cJSON *tree = NULL;
    int there;
    LS_TRY(file_of(folder, file, path, &there));
    if (!there) return LS_SUCCESS;
    ls_status status = ls_json_read_file(path, &tree);
    if (!ls_failed(status) && !cJSON_IsObject(tree)) status = ls_fail(LS_STORAGE, "%s: is no JSON object", path);
    if (!ls_failed(status)) ls_json_add_item(object, name, ls_json_copy(tree));
    cJSON_Delete(tree);
    return note(object, status);
}

static ls_status add_options(const char *folder, cJSON *object) {
    char path[PATH_BYTES], name[256];
    ls_ini *ini = NULL;
    int there;
    LS_TRY(file_of(folder, "config.ini", path, &there));
    if (!there) return LS_SUCCESS;
    ls_status status = ls_ini_read(path, &ini);
    if (ls_failed(status)) return note(object, status);
    cJSON *options = ls_json_add_object(object, "options");
    for (int i = 0; i < ini->entry_count; i++) {
        snprintf(name, sizeof name, "%s.%s", ini->entries[i].section, ini->entries[i].key);
        ls_json_add_text(options, name, ini->entries[i].value);
    }
    ls_ini_free(ini);
    return LS_SUCCESS;
}

static ls_status add_network(const char *folder, cJSON *object) {
    char path[PATH_BYTES], *text = NULL;
    size_t bytes;
    int there;
    LS_TRY(file_of(folder, "network.ini", path, &there));
    if (!there) return LS_SUCCESS;
    ls_status status = ls_ini_read_text(path, &text, &bytes);
    if (ls_failed(status)) return note(object, status);
    ls_json_add_text(object, "network", text);
    free(text);
    return LS_SUCCESS;
}

static ls_status add_metrics(const char *folder, int rows, cJSON *object) {
    char path[PATH_BYTES];
    int there;
    LS_TRY(file_of(folder, "metrics.jsonl", path, &there));
    return there ? note(object, ls_run_metrics_read(path, rows, object)) : LS_SUCCESS;
}

static void drop_pictures(const cJSON *run) {
    cJSON *mistake;
    cJSON_ArrayForEach(mistake, ls_json_get(ls_json_get(run, "evaluation"), "mistakes")) {
        cJSON_DeleteItemFromObjectCaseSensitive(mistake, "picture");
    }
}

static cJSON *new_object(const char *path) {
    const char *slash = strrchr(path, '/');
    cJSON *object = cJSON_CreateObject();
    char *whole = slash && slash[1] && strcmp(slash, "/.") && strcmp(slash, "/..") ? NULL : realpath(path, NULL);
    if (whole) slash = strrchr(whole, '/');
    ls_json_add_text(object, "name", slash ? slash + 1 : path);
    ls_json_add_text(object, "path", path);
    free(whole);
    return object;
}

static ls_status collect_run(const char *folder, int rows, cJSON *run) {
    LS_TRY(add_options(folder, run));
    LS_TRY(add_network(folder, run));
    LS_TRY(add_file(folder, "run.json", "run", run));
    LS_TRY(add_metrics(folder, rows, run));
    LS_TRY(add_file(folder, "summary.json", "summary", run));
    return add_file(folder, "evaluation.json", "evaluation", run);
}

static ls_status collect(const char *folder, int rows, cJSON *runs, cJSON *benches) {
    char path[PATH_BYTES];
    int is, there;
    LS_TRY(is_run(folder, &is));
    if (is) {
        cJSON *run = ls_json_append(runs, new_object(folder));
        LS_TRY(collect_run(folder, rows, run));
        if (cJSON_GetArraySize(runs) > LS_COLLECT_PICTURES_MAX) drop_pictures(run);
    }
    LS_TRY(file_of(folder, "bench.json", path, &there));
    return there ? add_file(folder, "bench.json", "bench", ls_json_append(benches, new_object(folder))) : LS_SUCCESS;
}

ls_status ls_collect_data(const ls_collected_folders *folders, cJSON *data) {
    cJSON *runs = ls_json_add_array(data, "runs"), *benches = ls_json_add_array(data, "benches");
    int rows = ROWS_OF_ALL / (folders->count ? folders->count : 1);
    rows = rows > ROWS_MAX ? ROWS_MAX : rows < ROWS_MIN ? ROWS_MIN : rows;
    for (int i = 0; i < folders->count; i++) LS_TRY(collect(folders->paths[i], rows, runs, benches));
    return LS_SUCCESS;
}
