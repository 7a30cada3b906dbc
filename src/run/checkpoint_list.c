// checkpoint_list.c - finds the checkpoints that a path names.
#include "run/checkpoint_list.h"
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/memory.h"
#include "config/config.h"
#include "run/checkpoint_manager.h"

enum { PATH_BYTES = 2 * LS_TEXT_BYTES };

void ls_checkpoint_list_free(ls_checkpoint_list *list) {
    for (int i = 0; i < list->count; i++) free(list->paths[i]);
    free(list->paths);
    *list = (ls_checkpoint_list){ 0 };
}

static ls_status fill(const char *folder, const int64_t *updates, int count, ls_checkpoint_list *out) {
    out->paths = ls_new(count + 1, sizeof *out->paths, "%s", folder);
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        LS_TRY(ls_checkpoint_path(folder, updates[i], path, sizeof path));
        out->paths[out->count++] = ls_new_text(path);
    }
    return LS_SUCCESS;
}

static ls_status list_folder(const char *folder, ls_checkpoint_list *out) {
    int64_t *updates;
    int count;
    *out = (ls_checkpoint_list){ 0 };
    LS_TRY(ls_checkpoint_manager_list(folder, &updates, &count));
    ls_status status = fill(folder, updates, count, out);
    free(updates);
    return status;
}

static ls_status only(const char *path, ls_checkpoint_list *out) {
    *out = (ls_checkpoint_list){ .paths = ls_new(1, sizeof *out->paths, "%s", path), .count = 1, .one = 1 };
    out->paths[0] = ls_new_text(path);
    return LS_SUCCESS;
}

static ls_status has_file(const char *folder, const char *name, int *has) {
    char path[PATH_BYTES];
    LS_TRY(ls_path_join(path, sizeof path, folder, name));
    *has = ls_path_exists(path);
    return LS_SUCCESS;
}

ls_status ls_checkpoint_is(const char *path, int *is) {
    const char *slash = strrchr(path, '/');
    *is = ls_checkpoint_update(slash ? slash + 1 : path) >= 0;
    return *is ? LS_SUCCESS : has_file(path, "manifest.json", is);
}

static ls_status find(const char *path, ls_checkpoint_list *out) {
    char inner[PATH_BYTES];
    int is;
    if (!ls_path_exists(path)) return ls_fail(LS_STORAGE, "%s: does not exist", path);
    LS_TRY(ls_checkpoint_is(path, &is));
    if (is) return only(path, out);
    LS_TRY(list_folder(path, out));
    if (out->count) return LS_SUCCESS;
    ls_checkpoint_list_free(out);
    LS_TRY(ls_path_join(inner, sizeof inner, path, "checkpoints"));
    LS_TRY(list_folder(inner, out));
    if (out->count) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: is no checkpoint, and has none in it (nor in its folder 'checkpoints')", path);
}

ls_status ls_checkpoint_list_find(const char *path, ls_checkpoint_list *out) {
    char clean[PATH_BYTES]; // without a "/" at its end, which shells append to a folder's name
    *out = (ls_checkpoint_list){ 0 };
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (length >= sizeof clean) return ls_fail(LS_USAGE, "%s: a path too long", path);
    memcpy(clean, path, length);
    clean[length] = 0;
    ls_status status = find(clean, out);
    if (ls_failed(status)) ls_checkpoint_list_free(out);
    return status;
}
