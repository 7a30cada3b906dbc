// stop_and_save.c - when a run saves and when it stops: agreed by all ranks, done between two updates.
//
// A signal, the scheduler's limit or a clock is seen by one rank, but all must act at the same update. So ranks agree every
// tenth of a second or so, by one small all-reduce before an update is enqueued; rank 0 says how many updates that is from
// now. What counts updates or epochs needs no agreement.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/held.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/signals.h"
#include "files/manifest.h"
#include "files/run_parts.h"
#include "train/trainer_internal.h"

static const double AGREE_SECONDS = 0.1;
static const double PATIENCE_SECONDS = 1;          // for a checkpoint that is being written when the next one is due
static const double SCHEDULER_MARGIN_SECONDS = 60; // for the last checkpoint, before the scheduler ends the job
enum { AGREE_UPDATES_MAX = 1000 };

// Of several reasons the largest counts; 0: none. The signal's number goes with it.
typedef enum { NO_REASON, BY_MAX_MINUTES, BY_SCHEDULER, BY_SIGNAL, BY_FOLDER } stop_reason;

static int64_t encode(stop_reason reason, int signal, int rank) {
    return ((int64_t)reason << 40) + ((int64_t)signal << 32) + rank;
}

// "SIGUSR1 on rank 3" into dst.
static const char *describe_reason(const ls_trainer *t, char *dst, size_t bytes) {
    int64_t reason = t->saving.reason;
    switch ((stop_reason)(reason >> 40)) {
    case BY_SIGNAL:
        snprintf(dst, bytes, "%s on rank %d", ls_signals_name((int)(reason >> 32 & 255)), (int)(reason & 0xffffffff));
        break;
    case BY_FOLDER:
        snprintf(dst, bytes, "a move or removal of the run folder");
        break;
    case BY_SCHEDULER:
        snprintf(dst, bytes, "the scheduler's time limit");
        break;
    default:
        snprintf(dst, bytes, "run.max_minutes = %g", t->plan.cfg->run_max_minutes);
    }
    return dst;
}

// --- agreeing ------------------------------------------------------------------------------------

// SLURM says when it will end the job. A time from before the process began, 0 or no number is of no job that it runs
// in: another one's, left in the environment, or none.
static int scheduler_ends_soon(void) {
    const char *text = getenv("SLURM_JOB_END_TIME");
    if (!text || !*text) return 0;
    char *rest;
    double end = strtod(text, &rest), now = ls_clock_unix_seconds();
    int is_ours = *rest == 0 && isfinite(end) && end > now - ls_clock_since_process_start();
    return is_ours && end - now < SCHEDULER_MARGIN_SECONDS;
}

static int64_t own_reason(const ls_trainer *t) {
    int signal = ls_signals_received(), rank = t->plan.info.comm->rank;
    double limit = t->plan.cfg->run_max_minutes * 60;
    char where[LS_HELD_PATH_BYTES];
    if (signal) return encode(BY_SIGNAL, signal, rank);
    if (rank != 0) return NO_REASON;
    if (ls_held_look(where) != LS_HELD_IN_PLACE) return encode(BY_FOLDER, 0, rank);
    if (scheduler_ends_soon()) return encode(BY_SCHEDULER, 0, rank);
    return limit > 0 && ls_clock_since_process_start() >= limit ? encode(BY_MAX_MINUTES, 0, rank) : NO_REASON;
}

// Updates until ranks agree again.
static int64_t interval(const ls_run_saving *k, int64_t update, double now) {
    double seconds = now - k->last_agreed_s;
    int64_t updates = update - k->last_agreed;
    if (updates <= 0 || seconds <= 0) return 1;
    double rate = (double)updates / seconds;
    return rate * AGREE_SECONDS < 1                   ? 1
           : rate * AGREE_SECONDS > AGREE_UPDATES_MAX ? AGREE_UPDATES_MAX
                                                      : (int64_t)(rate * AGREE_SECONDS);
}

ls_status ls_trainer_agree_on_stop(ls_trainer *t) {
    ls_run_saving *k = &t->saving;
    if (!k->on || t->progress.next.updates < k->agree_at) return LS_SUCCESS;
    double now = ls_clock_seconds(), every = t->plan.cfg->checkpoint_every_minutes * 60;
    int first = t->plan.info.comm->rank == 0;
    enum { REASON, DUE, NEXT, WORDS };
    int64_t word[WORDS] = { [REASON] = own_reason(t),
        [DUE] = first && every > 0 && now - k->last_save_s >= every,
        [NEXT] = first ? interval(k, t->progress.next.updates, now) : 0 };
    LS_TRY(ls_comm_allreduce(t->plan.comm, word, WORDS, LS_I64, LS_REDUCE_MAX));
    k->reason = word[REASON];
    if (word[REASON] || word[DUE]) k->meet_at = t->progress.next.updates;
    k->agree_at = t->progress.next.updates + word[NEXT];
    k->last_agreed = t->progress.next.updates;
    k->last_agreed_s = now;
    return LS_SUCCESS;
}

// --- saving --------------------------------------------------------------------------------------

int64_t ls_trainer_next_save(const ls_trainer *t) {
    const ls_run_saving *k = &t->saving;
    int64_t every = t->plan.cfg->checkpoint_every_updates;
    if (!k->on) return INT64_MAX;
    int64_t counted = every ? (t->progress.done.updates / every + 1) * every : INT64_MAX;
    return counted < k->meet_at ? counted : k->meet_at;
}

static int is_due(const ls_trainer *t) {
    const ls_config *cfg = t->plan.cfg;
    int64_t done = t->progress.done.updates, epochs = cfg->checkpoint_every_epochs;
    int ever = epochs || cfg->checkpoint_every_updates || cfg->checkpoint_every_minutes > 0;
    if (done == t->saving.saved) return 0;
    return (cfg->checkpoint_every_updates && done % cfg->checkpoint_every_updates == 0) ||
           (epochs && t->progress.done.window == 0 && t->progress.done.epoch % epochs == 0) ||
           done == t->saving.meet_at || (ever && done == t->plan.info.updates_planned);
}

typedef struct {
    const ls_train_observer *observers;
    int count;
} listeners;

static void warn(const listeners *l, const char *text) {
    if (l->count == 0) ls_warn("%s", text);
    for (int i = 0; i < l->count; i++)
        if (l->observers[i].warning) l->observers[i].warning(l->observers[i].context, text);
}

// Of no bytes: it was there already, and has been reported.
static void report_checkpoint(const listeners *l, const ls_train_checkpoint *event) {
    for (int i = 0; event->bytes > 0 && i < l->count; i++)
        if (l->observers[i].checkpoint) l->observers[i].checkpoint(l->observers[i].context, event);
}

// Rank 0: what the writer has done since the last call.
static ls_status report_written(ls_trainer *t, const listeners *l) {
    ls_train_checkpoint event;
    if (!t->saving.files || !ls_checkpoint_manager_written(t->saving.files, &event)) return LS_SUCCESS;
    if (ls_failed(event.status)) {
        char text[LS_STATUS_TEXT_BYTES];
        snprintf(text, sizeof text,
            "the checkpoint of update %" PRId64 " could not be written (older ones are untouched): %.3500s",
            event.update, event.status.text);
        warn(l, text);
        return event.status;
    }
    report_checkpoint(l, &event);
    return LS_SUCCESS;
}

// Where to take the snapshot to; NULL on other ranks, and where the last one is not written yet: training waits a
// moment for that, but not twice for the same one.
static ls_snapshot *room(ls_trainer *t, const listeners *l, int must) {
    ls_run_saving *k = &t->saving;
    if (!k->files) return NULL;
    ls_checkpoint_manager_wait(k->files, must ? INFINITY : k->busy_warned ? 0 : PATIENCE_SECONDS);
    ls_status reported = report_written(t, l);
    (void)reported; // a new attempt comes
    ls_snapshot *snapshot = ls_checkpoint_manager_begin(k->files);
    if (!snapshot && !k->busy_warned) {
        char text[256];
        snprintf(text, sizeof text,
            "the last checkpoint is still being written: that of update %" PRId64
            " is left out (a slow disk? checkpoint.every_updates and every_minutes say how often)",
            t->progress.done.updates);
        warn(l, text);
    }
    k->busy_warned = !snapshot;
    return snapshot;
}

static ls_status save(ls_trainer *t, const listeners *l, int must) {
    ls_run_saving *k = &t->saving;
    LS_TRY(ls_trainer_check_replicas(t)); // which of diverged ones would be the run's?
    ls_snapshot *snapshot = room(t, l, must);
    if (must) LS_TRY(ls_comm_barrier_napping(t->plan.comm)); // for rank 0, which waits for the one before
    double start = ls_clock_seconds();
    LS_TRY(ls_trainer_snapshot(t, snapshot));
    k->last_save_s = ls_clock_seconds();
    k->saved = t->progress.done.updates;
    if (snapshot) ls_checkpoint_manager_write(k->files, k->last_save_s - start);
    return LS_SUCCESS;
}

static void ignore_damaged(void *context, ls_status why) {
    (void)context;
    (void)why;
}

// ", the newest good one is FOLDER/update-000000000480" into dst.
static const char *describe_newest(const char *folder, char *dst, size_t bytes) {
    ls_checkpoint *newest = NULL;
    ls_status status = ls_checkpoint_manager_newest(folder, ignore_damaged, NULL, &newest);
    if (ls_failed(status) || !newest)
        snprintf(dst, bytes, "there is no older one");
    else
        snprintf(
            dst, bytes, "the newest good one is %s: the same command with --resume goes on from there", newest->path);
    ls_checkpoint_free(newest);
    return dst;
}

// Rank 0: of a run whose folder is no longer where its path leads. written: its last checkpoint, or why it is not.
static ls_status say_moved(const ls_trainer *t, ls_held_state state, const char *where, ls_status written) {
    if (state == LS_HELD_REMOVED)
        return ls_fail(LS_STORAGE,
            "run folder %s: was removed; stopped after update %" PRId64 " of %" PRId64 ", of which nothing is left",
            t->saving.folder, t->progress.done.updates, t->plan.info.updates_planned);
    return ls_fail(LS_STORAGE,
        "run folder %s: was moved, renamed or replaced; stopped after update %" PRId64 " of %" PRId64
        "%s%.1000s; the run is in %.1000s and goes on from there by --resume --run-dir",
        t->saving.folder, t->progress.done.updates, t->plan.info.updates_planned,
        ls_failed(written) ? ", whose checkpoint could not be written: " : "", ls_failed(written) ? written.text : "",
        where[0] ? where : "the folder that was moved");
}

// Rank 0: the last checkpoint is written, or it is said why not and what there is instead.
static ls_status finish_last(ls_trainer *t, const listeners *l, char *path, size_t bytes) {
    const char *folder = ls_checkpoint_manager_folder(t->saving.files);
    ls_train_checkpoint event = { .status = LS_SUCCESS };
    char reason[96], instead[LS_STATUS_TEXT_BYTES / 4], where[LS_HELD_PATH_BYTES];
    ls_checkpoint_manager_wait(t->saving.files, INFINITY);
    int written = ls_checkpoint_manager_written(t->saving.files, &event);
    ls_held_state state = ls_held_look(where);
    if (state != LS_HELD_IN_PLACE) return say_moved(t, state, where, event.status);
    if (ls_failed(event.status))
        return ls_fail(event.status.code,
            "stopped by %s after update %" PRId64 " of %" PRId64
            ", but its checkpoint could not be written: %.2000s; %s",
            describe_reason(t, reason, sizeof reason), t->progress.done.updates, t->plan.info.updates_planned,
            event.status.text, describe_newest(folder, instead, sizeof instead));
    if (written) report_checkpoint(l, &event);
    return ls_checkpoint_path(folder, t->progress.done.updates, path, bytes);
}

// All ranks say the same.
static ls_status stop(ls_trainer *t, const listeners *l) {
    char reason[96], path[LS_TEXT_BYTES] = "";
    ls_status status = LS_SUCCESS;
    ls_comm_phase(t->plan.comm, "writing a checkpoint", t->progress.done.updates);
    if (t->saving.files) status = finish_last(t, l, path, sizeof path);
    LS_TRY(ls_comm_barrier_napping(t->plan.comm)); // a slow disk is no rank that hangs
    LS_TRY(ls_comm_agree(t->plan.comm, status, NULL));
    LS_TRY(ls_comm_broadcast(t->plan.comm, path, sizeof path, 0));
    return ls_fail(LS_STOPPED, "stopped by %s after update %" PRId64 " of %" PRId64 ": %s holds all of it",
        describe_reason(t, reason, sizeof reason), t->progress.done.updates, t->plan.info.updates_planned, path);
}

ls_status ls_trainer_save_if_due(ls_trainer *t, const ls_train_observer *observers, int observer_count) {
    ls_run_saving *k = &t->saving;
    const listeners l = { observers, observer_count };
    if (!k->on) return LS_SUCCESS;
    ls_status reported = report_written(t, &l);
    (void)reported; // training goes on
    int met = t->progress.done.updates == k->meet_at, last = t->progress.done.updates == t->plan.info.updates_planned;
    int stops = met && k->reason && !last;
    int due = is_due(t);
    if (due || stops) LS_TRY(save(t, &l, stops || last));
    if (due) k->agree_at = t->progress.done.updates; // that may have taken long
    if (met) k->meet_at = INT64_MAX;
    return stops ? stop(t, &l) : LS_SUCCESS;
}

ls_status ls_trainer_save_end(ls_trainer *t, const ls_train_observer *observers, int observer_count) {
    const listeners l = { observers, observer_count };
    if (!t->saving.on) return LS_SUCCESS;
    if (t->saving.files) {
        ls_comm_phase(t->plan.comm, "writing a checkpoint", t->progress.done.updates);
        ls_checkpoint_manager_wait(t->saving.files, INFINITY);
        ls_status reported = report_written(t, &l);
        (void)reported; // the run's weights are written elsewhere, too
    }
    return ls_comm_barrier_napping(t->plan.comm);
}

ls_status ls_trainer_save_into(ls_trainer *t, const char *folder) {
    ls_run_saving *k = &t->saving;
    ls_status status = LS_SUCCESS;
    if (t->plan.info.comm->rank == 0)
        status = ls_checkpoint_manager_open(folder, &t->plan.info, t->plan.train_data, &k->files);
    LS_TRY(ls_comm_agree(t->plan.comm, status, NULL));
    k->on = 1;
    k->meet_at = INT64_MAX;
    k->agree_at = k->last_agreed = k->saved = t->progress.done.updates;
    k->last_save_s = k->last_agreed_s = ls_clock_seconds();
    return LS_SUCCESS;
}

// --- resuming ------------------------------------------------------------------------------------

typedef struct {
    int count;
    ls_status newest; // why it is damaged
} damage;

static void warn_of_damaged(void *context, ls_status why) {
    damage *damaged = context;
    if (damaged->count++ == 0) damaged->newest = why;
    ls_alert("%s: this checkpoint is left alone, and an older one looked for", why.text);
}

// One of another run is refused, or taken as this one's where run.adopt says so.
static ls_status check_owner(ls_trainer *t, const char *path, int64_t update) {
    ls_run_identity *run = &t->plan.info.run;
    cJSON *manifest = NULL;
    ls_train_counters counters;
    ls_status read = ls_checkpoint_read_manifest(path, &manifest, &counters);
    if (ls_failed(read)) return read.code == LS_DEVICE ? read : LS_SUCCESS; // damaged: reported when it is looked for
    char id[LS_RUN_ID_BYTES];
    snprintf(id, sizeof id, "%s", ls_manifest_run(manifest));
    cJSON_Delete(manifest);
    if (ls_run_identity_owns(run, id, update)) return LS_SUCCESS;
    if (!t->plan.cfg->run_adopt)
        return ls_fail(LS_USAGE,
            "%s: is a checkpoint of another run (%s; this folder's run is %s): move it elsewhere, or let it be part of "
            "this run by --set run.adopt=true",
            path, id[0] ? id : "without an identity", run->id);
    return ls_run_identity_adopt(run, id, update);
}

static ls_status check_owners(ls_trainer *t, const char *folder) {
    int64_t *updates;
    int count;
    LS_TRY(ls_checkpoint_manager_list(folder, &updates, &count));
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < count && !ls_failed(status); i++) {
        char path[2 * LS_TEXT_BYTES];
        status = ls_checkpoint_path(folder, updates[i], path, sizeof path);
        LS_THEN(status, check_owner(t, path, updates[i]));
    }
    ls_run_identity_close(&t->plan.info.run, count ? updates[count - 1] : 0);
    free(updates);
    return status;
}

static ls_status take_over(ls_trainer *t, const ls_checkpoint *checkpoint, ls_snapshot *snapshot) {
    cJSON *changed = cJSON_CreateArray();
    ls_status status = ls_checkpoint_suits(checkpoint, &t->plan.info, changed);
    if (!ls_json_is_whole(changed)) LS_THEN(status, ls_no_memory(0, "%s", checkpoint->path));
    LS_THEN(status, ls_checkpoint_take(checkpoint, snapshot));
    if (ls_failed(status)) {
        cJSON_Delete(changed);
        return status;
    }
    return ls_trainer_set_parts(
        t, ls_run_parts_new(&t->plan.info, checkpoint->manifest, &checkpoint->counters, changed));
}

// Rank 0.
static ls_status find(ls_trainer *t, const char *folder, ls_snapshot *snapshot, int32_t *found) {
    ls_checkpoint *checkpoint;
    damage damaged = { 0 };
    LS_TRY(check_owners(t, folder));
    LS_TRY(ls_checkpoint_manager_newest(folder, warn_of_damaged, &damaged, &checkpoint));
    if (!checkpoint && damaged.count > 0) // starting anew would put new ones in the place of what may still be saved
        return ls_fail(LS_STORAGE,
            "%s: none of its checkpoints (%d) is good; the newest: %.2000s; to start anew, move this folder away",
            folder, damaged.count, damaged.newest.text);
    if (!checkpoint) return LS_SUCCESS;
    ls_status status = take_over(t, checkpoint, snapshot);
    *found = !ls_failed(status);
    ls_checkpoint_free(checkpoint);
    return status;
}

ls_status ls_trainer_resume(ls_trainer *t, const char *folder, int *resumed) {
    int32_t found = 0;
    ls_snapshot *snapshot = NULL;
    ls_status status = ls_trainer_snapshot_new(t, &snapshot);
    if (t->plan.info.comm->rank == 0) LS_THEN(status, find(t, folder, snapshot, &found));
    status = ls_comm_agree(t->plan.comm, status, NULL);
    LS_THEN(status, ls_comm_broadcast(t->plan.comm, &found, sizeof found, 0));
    if (found) LS_THEN(status, ls_trainer_restore(t, snapshot));
    if (!ls_failed(status) && found) t->plan.info.resumed_at = t->progress.done.updates;
    ls_snapshot_free(snapshot);
    *resumed = found;
    return status;
}
