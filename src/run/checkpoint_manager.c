#include "run/checkpoint_manager.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/pinned_folder.h"
#include "base/memory.h"
#include "base/thread.h"
#include "run/manifest.h"

enum { PATH_BYTES = 2 * LS_TEXT_BYTES };

typedef struct {
    int64_t update;
    double accuracy; // of the evaluation after this update; below 0: there was no evaluation
} retained;

struct ls_checkpoint_manager {
    char folder[PATH_BYTES], path[PATH_BYTES]; // path: of the last checkpoint that was begun
    const ls_train_info *info;
    int64_t keep_last, keep_best;
    ls_snapshot *snapshot;
    ls_weights_metadata *metadata;
    retained *retained; // kept checkpoints, oldest first
    int retained_count;
    int untidy; // a failed attempt may have left files that could not be removed
    pthread_t thread;
    int started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { IDLE, WRITING, WRITTEN, CLOSING } state; // guarded by lock
    ls_train_checkpoint event;
    double begun_s;
};

// --- the folder ----------------------------------------------------------------------------------

static int by_update(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

ls_status ls_checkpoint_manager_list(const char *folder, int64_t **updates, int *count) {
    *updates = NULL;
    *count = 0;
    DIR *dir = ls_pinned_opendir(folder);
    if (!dir && errno == ENOENT) return LS_SUCCESS;
    if (!dir) return ls_fail_io("look for checkpoints", folder, "opendir");
    for (struct dirent *entry; (entry = readdir(dir));) {
        int64_t update = ls_checkpoint_update(entry->d_name);
        if (update < 0) continue;
        *updates = ls_grow(*updates, *count, sizeof **updates, "checkpoints in %s", folder);
        (*updates)[(*count)++] = update;
    }
    closedir(dir);
    if (*count) qsort(*updates, (size_t)*count, sizeof **updates, by_update);
    return LS_SUCCESS;
}

void ls_checkpoint_manager_clean(const char *folder) {
    DIR *dir = ls_pinned_opendir(folder);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name, *end = strrchr(name, '.');
        char path[PATH_BYTES];
        if (strncmp(name, ".update-", 8) != 0 || !end || (strcmp(end, ".tmp") != 0 && strcmp(end, ".old") != 0))
            continue;
        if (ls_failed(ls_path_join(path, sizeof path, folder, name))) continue;
        ls_status removed = ls_checkpoint_remove(path);
        (void)removed; // a folder that cannot be removed does no harm
    }
    closedir(dir);
}

ls_status ls_checkpoint_manager_newest(
    const char *folder, void (*damaged)(void *context, ls_status why), void *context, ls_checkpoint **out) {
    int64_t *updates;
    int count;
    *out = NULL;
    LS_TRY(ls_checkpoint_manager_list(folder, &updates, &count));
    ls_status status = LS_SUCCESS;
    for (int i = count - 1; i >= 0 && !*out && !ls_failed(status); i--) {
        char path[PATH_BYTES];
        status = ls_checkpoint_path(folder, updates[i], path, sizeof path);
        if (ls_failed(status)) break;
        ls_status read = ls_checkpoint_read(path, out);
        if (read.code == LS_DEVICE) status = read; // without memory the checkpoint could not be checked
        if (ls_failed(read) && !ls_failed(status)) damaged(context, read);
    }
    free(updates);
    return status;
}

// --- which are retained ------------------------------------------------------------------------------

static double accuracy_of(const ls_train_counters *c) {
    return c->evaluation.update == c->update ? ls_train_evaluation_accuracy(&c->evaluation) : -1;
}

static void add_kept(ls_checkpoint_manager *c, int64_t update, double accuracy) {
    for (int i = 0; i < c->retained_count; i++) {
        if (c->retained[i].update != update) continue;
        c->retained[i].accuracy = accuracy; // the checkpoint was written again
        return;
    }
    int at = c->retained_count;
    c->retained = ls_grow(c->retained, at, sizeof *c->retained, "%s", c->folder);
    c->retained_count++;
    for (; at > 0 && c->retained[at - 1].update > update; at--) c->retained[at] = c->retained[at - 1];
    c->retained[at] = (retained){ update, accuracy };
}

// Lists the checkpoints that earlier parts of the run left. One with an unreadable manifest has no accuracy, so it is
// removed when it is old enough. Checkpoints of other runs are not listed, so they are never removed.
static ls_status find_kept(ls_checkpoint_manager *c) {
    int64_t *updates;
    int count;
    LS_TRY(ls_checkpoint_manager_list(c->folder, &updates, &count));
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < count && !ls_failed(status); i++) {
        char path[PATH_BYTES];
        cJSON *manifest = NULL;
        ls_train_counters counters;
        status = ls_checkpoint_path(c->folder, updates[i], path, sizeof path);
        if (ls_failed(status)) break;
        ls_status read = ls_checkpoint_read_manifest(path, &manifest, &counters);
        int ours = ls_failed(read) || ls_run_identity_owns(&c->info->run, ls_manifest_run(manifest), updates[i]);
        cJSON_Delete(manifest);
        if (read.code == LS_DEVICE)
            status = read;
        else if (ours)
            add_kept(c, updates[i], ls_failed(read) ? -1 : accuracy_of(&counters));
    }
    free(updates);
    return status;
}

// Returns 1 if checkpoint `index` is among the keep_best most accurate of the first `count` checkpoints.
static int is_among_best(const ls_checkpoint_manager *c, int index, int count) {
    int better = 0;
    if (c->retained[index].accuracy < 0) return 0;
    for (int i = 0; i < count; i++) // if two are equal, the later is better
        better += c->retained[i].accuracy > c->retained[index].accuracy ||
                  (i > index && c->retained[i].accuracy == c->retained[index].accuracy);
    return better < c->keep_best;
}

// Removes the checkpoints that need not be kept, after the checkpoint of update `written` was added. Newer checkpoints
// are ignored: the run did not continue from them, so they are damaged and must not displace good ones. A checkpoint
// that cannot be removed is tried again next time.
static void prune(ls_checkpoint_manager *c, int64_t written) {
    int count = 0;
    while (count < c->retained_count && c->retained[count].update <= written) count++;
    for (int i = 0; i < count - (int)c->keep_last;) {
        char path[PATH_BYTES];
        if (is_among_best(c, i, count) ||
            ls_failed(ls_checkpoint_path(c->folder, c->retained[i].update, path, sizeof path)) ||
            ls_failed(ls_checkpoint_remove(path))) {
            i++;
            continue;
        }
        memmove(&c->retained[i], &c->retained[i + 1], (size_t)(c->retained_count - i - 1) * sizeof *c->retained);
        c->retained_count--;
        count--;
    }
}

// --- the thread ----------------------------------------------------------------------------------

static ls_status write_snapshot(ls_checkpoint_manager *c) {
    int untidy = c->untidy;
    c->untidy = 1;
    c->event.weights_hash = ls_snapshot_weights_hash(c->snapshot);
    LS_TRY(ls_checkpoint_write(c->path, c->snapshot, c->info, c->metadata, &c->event.bytes));
    c->untidy = 0;
    if (untidy) ls_checkpoint_manager_clean(c->folder);
    add_kept(c, c->snapshot->counters.update, accuracy_of(&c->snapshot->counters));
    prune(c, c->snapshot->counters.update);
    return LS_SUCCESS;
}

static void *run_writer(void *context) {
    ls_checkpoint_manager *c = context;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->state != WRITING && c->state != CLOSING) pthread_cond_wait(&c->changed, &c->lock);
        if (c->state == CLOSING) break;
        pthread_mutex_unlock(&c->lock);
        c->event.status = write_snapshot(c); // the main thread does not touch event meanwhile
        c->event.seconds = ls_clock_seconds() - c->begun_s;
        pthread_mutex_lock(&c->lock);
        c->state = WRITTEN;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

// Checks at the start that the disk has room for the run's weights and for one checkpoint more than it holds now.
static ls_status check_room(const ls_checkpoint_manager *c) {
    const int checkpoints = c->info->resumed_at < c->info->updates_planned;
    char run[PATH_BYTES];
    struct stat outer, inner;
    snprintf(run, sizeof run, "%s", c->folder);
    char *slash = strrchr(run, '/');
    if (slash) slash[slash == run] = 0;
    const char *beside = slash ? run : ".";
    if (ls_pinned_stat(beside, &outer) != 0 || ls_pinned_stat(c->folder, &inner) != 0 || outer.st_dev == inner.st_dev)
        return ls_checkpoint_check_room(beside, beside, c->snapshot, 1, checkpoints);
    LS_TRY(ls_checkpoint_check_room(beside, beside, c->snapshot, 1, 0)); // checkpoints/ is on another file system
    return checkpoints ? ls_checkpoint_check_room(c->folder, c->folder, c->snapshot, 0, 1) : LS_SUCCESS;
}

static ls_status open_folder(const char *folder, const ls_dataset *data, ls_checkpoint_manager *c) {
    const ls_config *cfg = c->info->cfg;
    snprintf(c->folder, sizeof c->folder, "%s", folder);
    c->keep_last = cfg->checkpoint_keep_last;
    c->keep_best = cfg->checkpoint_keep_best;
    LS_TRY(ls_snapshot_new(c->info->graph, c->info->rules, &c->snapshot));
    LS_TRY(check_room(c));
    LS_TRY(ls_weights_metadata_new(c->info->graph, data, c->info->parts, &c->metadata));
    LS_TRY(find_kept(c));
    int rc = ls_thread_start(&c->thread, run_writer, c);
    c->started = rc == 0;
    return rc ? ls_fail(LS_DEVICE, "the thread that writes checkpoints: pthread_create: %s", strerror(rc)) : LS_SUCCESS;
}

ls_status ls_checkpoint_manager_open(
    const char *folder, const ls_train_info *info, const ls_dataset *data, ls_checkpoint_manager **out) {
    ls_checkpoint_manager *c = ls_new(1, sizeof *c, "run's checkpoints");
    c->info = info;
    pthread_mutex_init(&c->lock, NULL);
    ls_cond_init(&c->changed);
    ls_status status = open_folder(folder, data, c);
    return LS_GIVE_OR_FREE(status, c, out, ls_checkpoint_manager_close);
}

void ls_checkpoint_manager_wait(ls_checkpoint_manager *c, double seconds) {
    const struct timespec end = ls_cond_deadline(isinf(seconds) ? 0 : ceil(seconds));
    int rc = 0;
    pthread_mutex_lock(&c->lock);
    while (c->state == WRITING && rc == 0 && seconds > 0)
        rc = isinf(seconds) ? pthread_cond_wait(&c->changed, &c->lock)
                            : pthread_cond_timedwait(&c->changed, &c->lock, &end);
    pthread_mutex_unlock(&c->lock);
}

void ls_checkpoint_manager_close(ls_checkpoint_manager *c) {
    if (!c) return;
    if (c->started) {
        ls_checkpoint_manager_wait(c, INFINITY);
        pthread_mutex_lock(&c->lock);
        c->state = CLOSING;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        pthread_join(c->thread, NULL);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    ls_snapshot_free(c->snapshot);
    ls_weights_metadata_free(c->metadata);
    free(c->retained);
    free(c);
}

int64_t ls_checkpoint_manager_best(const ls_checkpoint_manager *c, double *accuracy) {
    int64_t best = -1;
    *accuracy = -1;
    for (int i = 0; i < c->retained_count; i++) { // if two are equal, the later wins
        if (c->retained[i].accuracy < 0 || c->retained[i].accuracy < *accuracy) continue;
        best = c->retained[i].update;
        *accuracy = c->retained[i].accuracy;
    }
    return best;
}

const char *ls_checkpoint_manager_folder(const ls_checkpoint_manager *c) {
    return c->folder;
}

ls_snapshot *ls_checkpoint_manager_begin(ls_checkpoint_manager *c) {
    pthread_mutex_lock(&c->lock);
    int idle = c->state == IDLE;
    pthread_mutex_unlock(&c->lock);
    return idle ? c->snapshot : NULL;
}

void ls_checkpoint_manager_write(ls_checkpoint_manager *c, double held_seconds) {
    int64_t update = c->snapshot->counters.update;
    c->event =
        (ls_train_checkpoint){ .update = update, .epoch = c->snapshot->counters.epoch, .held_seconds = held_seconds };
    c->event.status = ls_checkpoint_path(c->folder, update, c->path, sizeof c->path);
    c->event.path = c->path;
    c->begun_s = ls_clock_seconds();
    pthread_mutex_lock(&c->lock);
    c->state = ls_failed(c->event.status) ? WRITTEN : WRITING;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

int ls_checkpoint_manager_written(ls_checkpoint_manager *c, ls_train_checkpoint *event) {
    pthread_mutex_lock(&c->lock);
    int written = c->state == WRITTEN;
    if (written) {
        *event = c->event;
        c->state = IDLE;
    }
    pthread_mutex_unlock(&c->lock);
    return written;
}
