// cmd_ckpt.c - `train ckpt verify|show PATH...`: which checkpoints a path means, and their verification; ckpt_show.c
// shows them. Nothing here changes a file: a run may be writing beside it.
#include <stdio.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/memory.h"
#include "cli/ckpt.h"
#include "cli/commands.h"

enum { PATH_BYTES = 2 * LS_TEXT_BYTES };

void ls_ckpt_list_free(ls_ckpt_list *list) {
    for (int i = 0; i < list->count; i++) free(list->paths[i]);
    free(list->paths);
    *list = (ls_ckpt_list){ 0 };
}

static ls_status fill(const char *folder, const int64_t *updates, int count, ls_ckpt_list *out) {
    out->paths = ls_new(count + 1, sizeof *out->paths, "%s", folder);
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        LS_TRY(ls_checkpoint_path(folder, updates[i], path, sizeof path));
        out->paths[out->count++] = ls_new_text(path);
    }
    return LS_SUCCESS;
}

static ls_status list_folder(const char *folder, ls_ckpt_list *out) {
    int64_t *updates;
    int count;
    *out = (ls_ckpt_list){ 0 };
    LS_TRY(ls_checkpoint_manager_list(folder, &updates, &count));
    ls_status status = fill(folder, updates, count, out);
    free(updates);
    return status;
}

static ls_status only(const char *path, ls_ckpt_list *out) {
    *out = (ls_ckpt_list){ .paths = ls_new(1, sizeof *out->paths, "%s", path), .count = 1, .one = 1 };
    out->paths[0] = ls_new_text(path);
    return LS_SUCCESS;
}

static ls_status has_file(const char *folder, const char *name, int *has) {
    char path[PATH_BYTES];
    LS_TRY(ls_path_join(path, sizeof path, folder, name));
    *has = ls_path_exists(path);
    return LS_SUCCESS;
}

ls_status ls_ckpt_is_one(const char *path, int *is) {
    const char *slash = strrchr(path, '/');
    *is = ls_checkpoint_update(slash ? slash + 1 : path) >= 0;
    return *is ? LS_SUCCESS : has_file(path, "manifest.json", is);
}

static ls_status find(const char *path, ls_ckpt_list *out) {
    char inner[PATH_BYTES];
    int is;
    if (!ls_path_exists(path)) return ls_fail(LS_STORAGE, "%s: does not exist", path);
    LS_TRY(ls_ckpt_is_one(path, &is));
    if (is) return only(path, out);
    LS_TRY(list_folder(path, out));
    if (out->count) return LS_SUCCESS;
    ls_ckpt_list_free(out);
    LS_TRY(ls_path_join(inner, sizeof inner, path, "checkpoints"));
    LS_TRY(list_folder(inner, out));
    if (out->count) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: is no checkpoint, and has none in it (nor in its folder 'checkpoints')", path);
}

ls_status ls_ckpt_find(const char *path, ls_ckpt_list *out) {
    char clean[PATH_BYTES]; // without the "/" that a shell puts behind a folder's name
    *out = (ls_ckpt_list){ 0 };
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (length >= sizeof clean) return ls_fail(LS_USAGE, "%s: a path too long", path);
    memcpy(clean, path, length);
    clean[length] = 0;
    ls_status status = find(clean, out);
    if (ls_failed(status)) ls_ckpt_list_free(out);
    return status;
}

// --- verify --------------------------------------------------------------------------------------

// A damaged one is counted; no memory is a failure of ours.
static ls_status verify_one(const char *path, int *damaged) {
    ls_checkpoint *checkpoint = NULL;
    ls_status status = ls_checkpoint_read(path, &checkpoint);
    ls_checkpoint_free(checkpoint);
    if (ls_failed(status) && status.code != LS_STORAGE) return status;
    if (ls_failed(status))
        printf("%s\tdamaged\t%s\n", path, status.text);
    else
        printf("%s\tgood\n", path);
    *damaged += ls_failed(status);
    return LS_SUCCESS;
}

ls_status ls_ckpt_verify(const char *const *paths, int count) {
    int damaged = 0, seen = 0;
    for (int p = 0; p < count; p++) {
        ls_ckpt_list list;
        LS_TRY(ls_ckpt_find(paths[p], &list));
        ls_status status = LS_SUCCESS;
        for (int i = 0; i < list.count && !ls_failed(status); i++) status = verify_one(list.paths[i], &damaged);
        seen += list.count;
        ls_ckpt_list_free(&list);
        LS_TRY(status);
    }
    if (!damaged) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%d of %d checkpoint%s damaged", damaged, seen, seen == 1 ? " is" : "s are");
}

static ls_status work(const ls_args *args) {
    ls_status status = args->action == LS_CKPT_VERIFY ? ls_ckpt_verify(args->files, args->file_count)
                                                      : ls_ckpt_show(args->files, args->file_count);
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

ls_status ls_cmd_ckpt(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? work(args) : LS_SUCCESS);
}
