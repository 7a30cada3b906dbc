// checkpoint.c - writes and reads the folder of a checkpoint; manifest.c makes and reads its manifest.
#include "run/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/pinned_folder.h"
#include "base/memory.h"
#include "run/manifest.h"

enum { PATH_BYTES = 2 * LS_TEXT_BYTES };

static const char weights_name[] = "weights.safetensors", state_name[] = "state.safetensors";
static const char manifest_name[] = "manifest.json";
// The files of a checkpoint, in the order in which ls_checkpoint_remove removes them.
static const char *const file_names[] = { manifest_name, weights_name, state_name };
enum { FILES = sizeof file_names / sizeof file_names[0] };

static ls_status join(char path[PATH_BYTES], const char *folder, const char *name) {
    return ls_path_join(path, PATH_BYTES, folder, name);
}

// --- removing ------------------------------------------------------------------------------------

ls_status ls_checkpoint_remove(const char *path) {
    char file[PATH_BYTES];
    if (ls_pinned_unlink(path) == 0 || errno == ENOENT) return LS_SUCCESS; // removes a link, but not its target
    for (int i = 0; i < FILES; i++) {
        LS_TRY(join(file, path, file_names[i]));
        if (ls_pinned_unlink(file) != 0 && errno != ENOENT) return ls_fail_io("remove", file, "unlink");
    }
    if (ls_pinned_rmdir(path) == 0 || errno == ENOENT) return LS_SUCCESS;
    for (int i = 0; i < FILES; i++) {
        LS_TRY(join(file, path, file_names[i]));
        ls_atomic_file_clean(file); // a process may have been killed while it wrote the file
    }
    if (ls_pinned_rmdir(path) != 0 && errno != ENOENT) return ls_fail_io("remove", path, "rmdir");
    return LS_SUCCESS;
}

// --- writing -------------------------------------------------------------------------------------

// Writes the tensors file->first to file->end - 1 of the snapshot and sets the file's digest.
static ls_status write_tensors(
    const char *folder, const ls_snapshot *s, const ls_weights_metadata *metadata, ls_manifest_file *file) {
    char path[PATH_BYTES];
    LS_TRY(join(path, folder, file->name));
    const ls_metadata_entry format = { "format", "pt" };
    return ls_snapshot_write(path, s, file->first, file->end, metadata ? metadata->list : &format,
        metadata ? metadata->count : 1, &file->digest);
}

static ls_status write_files(const char *folder, const ls_snapshot *s, const ls_train_info *info,
    const ls_weights_metadata *metadata, int64_t *bytes) {
    char path[PATH_BYTES];
    ls_manifest_file files[] = { { weights_name, 0, s->params, { 0, 0 } },
        { state_name, s->params, s->count, { 0, 0 } } };
    *bytes = 0;
    for (int f = 0; f < 2; f++) {
        LS_TRY(write_tensors(folder, s, f == 0 ? metadata : NULL, &files[f]));
        *bytes += (int64_t)files[f].digest.bytes;
    }
    LS_TRY(join(path, folder, manifest_name));
    char *text = ls_manifest_text(s, info, files, 2);
    *bytes += (int64_t)strlen(text);
    ls_status status = ls_write_file(path, text, strlen(text)); // also syncs the folder
    free(text);
    return status;
}

// Renames `temporary` to `path`. A checkpoint that is there is first renamed to `old`, and removed at the end.
static ls_status put_in_place(const char *temporary, const char *old, const char *path) {
    LS_TRY(ls_checkpoint_remove(old)); // a killed process may have left it
    if (ls_path_exists(path) && ls_pinned_rename(path, old) != 0)
        return ls_fail_io("move the damaged one away", path, "rename");
    if (ls_pinned_rename(temporary, path) != 0) return ls_fail_io("finish", path, "rename");
    ls_status removed = ls_checkpoint_remove(old);
    (void)removed; // the new checkpoint is in place; the next resume tries again to remove the old one
    return LS_SUCCESS;
}

static int holds_state(const ls_checkpoint *c, const ls_snapshot *s) {
    if (c->counters.update != s->counters.update || c->counters.samples != s->counters.samples) return 0;
    for (int i = 0; i < s->count; i++) {
        const ls_snapshot_tensor *tensor = &s->tensors[i];
        ls_safetensors_tensor wanted = { .name = tensor->name, .rank = tensor->rank };
        memcpy(wanted.dim, tensor->dim, sizeof tensor->dim);
        const void *values;
        if (ls_failed(ls_safetensors_find(tensor->state ? c->state : c->weights, &wanted, &values)) ||
            memcmp(values, tensor->values, (size_t)tensor->elements * sizeof *tensor->values) != 0)
            return 0;
    }
    return 1;
}

// Sets *same to 1 if `path` already holds the snapshot. LS_STORAGE: `path` holds another run's checkpoint, which stays.
static ls_status look_at_place(const char *path, const ls_snapshot *s, const ls_train_info *info, int *same) {
    ls_checkpoint *there = NULL;
    *same = 0;
    if (!ls_path_exists(path) || ls_failed(ls_checkpoint_read(path, &there))) return LS_SUCCESS; // damaged: replace it
    int ours = ls_run_identity_owns(&info->run, ls_manifest_run(there->manifest), there->counters.update);
    *same = ours && holds_state(there, s);
    ls_checkpoint_free(there);
    if (ours) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: is a checkpoint of another run and stays: move it elsewhere", path);
}

ls_status ls_checkpoint_check_room(
    const char *folder, const char *path, const ls_snapshot *s, int weights, int checkpoints) {
    size_t params = 0;
    for (int i = 0; i < s->params; i++) params += (size_t)s->tensors[i].elements * sizeof *s->tensors[i].values;
    size_t state = s->bytes - params, largest = checkpoints && state > params ? state : params;
    const char *what = weights && checkpoints ? "the weights and a checkpoint need"
                       : weights              ? "the weights need"
                                              : "a checkpoint needs";
    return ls_check_room(folder, path, what, (size_t)weights * params + (size_t)checkpoints * s->bytes, largest);
}

ls_status ls_checkpoint_write(const char *path, const ls_snapshot *snapshot, const ls_train_info *info,
    const ls_weights_metadata *metadata, int64_t *bytes) {
    char folder[PATH_BYTES], temporary[PATH_BYTES], old[PATH_BYTES];
    int64_t written = 0;
    if (bytes) *bytes = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if ((size_t)snprintf(temporary, sizeof temporary, "%s/.%s.tmp", folder, name) >= sizeof temporary ||
        (size_t)snprintf(old, sizeof old, "%s/.%s.old", folder, name) >= sizeof old)
        return ls_fail(LS_STORAGE, "%s: path too long", path);
    int same;
    LS_TRY(look_at_place(path, snapshot, info, &same));
    if (same) return ls_sync_folder(folder); // its writer may have been killed before its sync
    LS_TRY(ls_make_folders(folder));
    // Checked first, so that a full disk is reported before anything is written.
    LS_TRY(ls_checkpoint_check_room(folder, path, snapshot, 0, 1));
    LS_TRY(ls_checkpoint_remove(temporary)); // a killed process may have left it
    ls_status status = ls_make_folders(temporary);
    LS_THEN(status, write_files(temporary, snapshot, info, metadata, &written));
    LS_THEN(status, put_in_place(temporary, old, path));
    LS_THEN(status, ls_sync_folder(folder));
    if (ls_failed(status)) {
        ls_status removed = ls_checkpoint_remove(temporary); // the next attempt may need its room
        (void)removed;
    }
    if (bytes) *bytes = written;
    return status;
}

// --- reading -------------------------------------------------------------------------------------

static ls_status read_tensors(const ls_checkpoint *c, const char *name, ls_safetensors **out) {
    char path[PATH_BYTES];
    LS_TRY(join(path, c->path, name));
    LS_TRY(ls_manifest_check_length(c->manifest, path, name));
    LS_TRY(ls_safetensors_read(path, out));
    return ls_manifest_verify(c->manifest, path, name, *out);
}

// Refuses a checkpoint whose name and manifest have different updates. Checkpoints are found by their names, so a wrong
// name must be a copy or a mistake.
static ls_status check_name(const char *path, int64_t update) {
    const char *slash = strrchr(path, '/');
    int64_t promised = ls_checkpoint_update(slash ? slash + 1 : path);
    if (promised < 0 || promised == update) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: holds update %lld, which is not what its name says", path, (long long)update);
}

static ls_status read_all(const char *path, ls_checkpoint *c) {
    c->path = ls_new_text(path);
    LS_TRY(ls_checkpoint_read_manifest(path, &c->manifest, &c->counters));
    LS_TRY(read_tensors(c, weights_name, &c->weights));
    return read_tensors(c, state_name, &c->state);
}

ls_status ls_checkpoint_read_manifest(const char *path, cJSON **manifest, ls_train_counters *counters) {
    char file[PATH_BYTES], *text = NULL;
    size_t bytes = 0;
    *manifest = NULL;
    LS_TRY(join(file, path, manifest_name));
    LS_TRY(ls_read_file(file, &text, &bytes));
    ls_status status = ls_manifest_parse(file, text, bytes, manifest);
    free(text);
    LS_THEN(status, ls_manifest_counters(file, *manifest, counters));
    LS_THEN(status, check_name(path, counters->update));
    if (ls_failed(status)) {
        cJSON_Delete(*manifest);
        *manifest = NULL;
    }
    return status;
}

ls_status ls_checkpoint_read(const char *path, ls_checkpoint **out) {
    ls_checkpoint *c = ls_new(1, sizeof *c, "%s", path);
    ls_status status = read_all(path, c);
    return LS_GIVE_OR_FREE(status, c, out, ls_checkpoint_free);
}

void ls_checkpoint_free(ls_checkpoint *c) {
    if (!c) return;
    ls_safetensors_free(c->weights);
    ls_safetensors_free(c->state);
    cJSON_Delete(c->manifest);
    free(c->path);
    free(c);
}

ls_status ls_checkpoint_suits(const ls_checkpoint *c, const ls_train_info *info, cJSON *changed) {
    return ls_manifest_suits(c->path, c->manifest, info, changed);
}

static int holds(const ls_snapshot *s, int is_state, const char *name) {
    for (int i = 0; i < s->count; i++)
        if ((s->tensors[i].state != 0) == is_state && strcmp(s->tensors[i].name, name) == 0) return 1;
    return 0;
}

// Refuses a checkpoint with a tensor that the snapshot does not have, because the tensor would be lost silently.
static ls_status check_surplus(const ls_checkpoint *c, const ls_snapshot *s) {
    const ls_safetensors *files[] = { c->weights, c->state };
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < ls_safetensors_count(files[f]); i++) {
            const char *name = ls_safetensors_name(files[f], i);
            if (holds(s, f, name)) continue;
            return ls_fail(LS_STORAGE,
                "%s: %s: has the tensor '%s', which this run has not: made with another network, or other "
                "optimizer.groups",
                c->path, f ? state_name : weights_name, name);
        }
    }
    return LS_SUCCESS;
}

ls_status ls_checkpoint_take(const ls_checkpoint *c, ls_snapshot *s) {
    LS_TRY(check_surplus(c, s));
    for (int pass = 0; pass < 2; pass++) { // the first pass only checks, so that a failure changes nothing
        for (int i = 0; i < s->count; i++) {
            ls_snapshot_tensor *tensor = &s->tensors[i];
            ls_safetensors_tensor wanted = { .name = tensor->name, .rank = tensor->rank };
            memcpy(wanted.dim, tensor->dim, sizeof tensor->dim);
            const void *values;
            LS_TRY(ls_safetensors_find(tensor->state ? c->state : c->weights, &wanted, &values));
            if (pass == 1) memcpy(tensor->values, values, (size_t)tensor->elements * sizeof *tensor->values);
        }
    }
    s->counters = c->counters;
    return LS_SUCCESS;
}

ls_status ls_checkpoint_path(const char *folder, int64_t update, char *dst, size_t bytes) {
    char name[40];
    snprintf(name, sizeof name, "update-%012" PRId64, update);
    return ls_path_join(dst, bytes, folder, name);
}

int64_t ls_checkpoint_update(const char *name) {
    char again[40];
    int64_t update = -1;
    if (sscanf(name, "update-%" SCNd64, &update) != 1 || update < 0) return -1;
    snprintf(again, sizeof again, "update-%012" PRId64, update);
    return strcmp(name, again) == 0 ? update : -1;
}
