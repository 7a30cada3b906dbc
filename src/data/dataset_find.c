// dataset_find.c - finds the folder that contains a data set's files.
#include "data/format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "system/cache_folder.h"
#include "system/installed.h"

enum { MAX_CANDIDATES = 4, MAX_LIST = 1536 };

typedef struct {
    char folder[MAX_CANDIDATES][LS_TEXT_BYTES];
    int count;
} candidates;

static ls_status add_candidate(candidates *list, const ls_dataset *dataset, const char *base, const char *name) {
    char folder[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(folder, sizeof folder, base, name));
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->folder[i], folder) == 0) return LS_SUCCESS;
    }
    memcpy(list->folder[list->count++], folder, sizeof folder);
    const char *subfolder = dataset->format->subfolder;
    if (subfolder[0] == 0) return LS_SUCCESS;
    return ls_path_join(list->folder[list->count++], LS_TEXT_BYTES, folder, subfolder);
}

static ls_status list_candidates(const ls_config *cfg, const ls_dataset *dataset, candidates *list) {
    list->count = 0;
    if (cfg->data_path[0] != 0) {
        char path[LS_TEXT_BYTES];
        LS_TRY(ls_config_path(cfg, LS_OPTION_data_path, path, sizeof path));
        return add_candidate(list, dataset, "", path);
    }
    LS_TRY(add_candidate(list, dataset, "data", dataset->format->name));
    if (dataset->format->other_folder[0] == 0) return LS_SUCCESS;
    return add_candidate(list, dataset, "", dataset->format->other_folder);
}

// Returns 1 if folder/name exists, or if stat cannot tell: opening the file then reports the reason. Otherwise returns
// 0.
static int is_there(const char *folder, const char *name) {
    char path[LS_TEXT_BYTES];
    if (ls_failed(ls_path_join(path, sizeof path, folder, name))) return 0;
    struct stat info; // stat checks the effective user; access would check the real one
    return stat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static void append(char *list, const char *separator, const char *text) {
    size_t length = strlen(list);
    snprintf(list + length, MAX_LIST - length, "%s%s", length ? separator : "", text);
}

ls_status ls_dataset_find(
    const ls_config *cfg, const ls_dataset *dataset, const char *const *wanted, int count, char *folder) {
    candidates list;
    LS_TRY(list_candidates(cfg, dataset, &list));
    for (int i = 0; i < list.count; i++) {
        for (int k = 0; k < count; k++) {
            if (!is_there(list.folder[i], wanted[k])) continue;
            memcpy(folder, list.folder[i], LS_TEXT_BYTES);
            return LS_SUCCESS;
        }
    }
    char folders[MAX_LIST] = "", files[MAX_LIST] = "";
    for (int i = 0; i < list.count; i++) append(folders, " or ", list.folder[i]);
    if (cfg->data_dataset == LS_DATASET_FOLDER) {
        return ls_fail(LS_DATA, "folder: no folder %s; set data.path to the one that has the class folders", folders);
    }
    for (int k = 0; k < count; k++) append(files, ", ", wanted[k]);
    char script[LS_TEXT_BYTES];
    return ls_fail(LS_DATA,
        "%s: no %s set found: looked in %s for %s; run %s %s, or set data.path to the folder that has the files",
        dataset->facts.name, ls_split_name(dataset->split), folders, files,
        ls_script_path("fetch-data.sh", script, sizeof script), dataset->facts.name);
}

ls_status ls_dataset_cache_folder(const ls_config *cfg, char *folder, size_t bytes) {
    folder[0] = '\0';
    const int is_auto = strcmp(cfg->data_cache, "auto") == 0, is_off = strcmp(cfg->data_cache, "off") == 0;
    if (is_auto && !ls_cache_folder(folder, bytes)) folder[0] = '\0';
    return is_auto || is_off ? LS_SUCCESS : ls_config_path(cfg, LS_OPTION_data_cache, folder, bytes);
}
