#include "train/run_saving.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/pinned_folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "system/signals.h"
#include "train/diagnose/replicas.h"
#include "train/snapshots.h"

static const double AGREE_SECONDS = 0.1;
// time to wait for a checkpoint that is being written when the next one is due
static const double PATIENCE_SECONDS = 1;
static const double SCHEDULER_MARGIN_SECONDS = 60; // time for the last checkpoint before the scheduler ends the job
enum { AGREE_UPDATES_MAX = 1000 };

// The reasons to stop a run. The largest of several reasons wins; 0: no reason. A signal's number is encoded together
// with the reason.
typedef enum { NO_REASON, BY_MAX_MINUTES, BY_SCHEDULER, BY_SIGNAL, BY_FOLDER } stop_reason;

static int64_t encode(stop_reason reason, int signal, int rank) {
    return ((int64_t)reason << 40) + ((int64_t)signal << 32) + rank;
}

// Writes for example "SIGUSR1 on rank 3" into dst and returns dst.
static const char *describe_reason(const ls_run_saving *saving, const ls_run_plan *plan, char *dst, size_t bytes) {
    int64_t reason = saving->reason;
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
        snprintf(dst, bytes, "run.max_minutes = %g", plan->cfg->run_max_minutes);
    }
    return dst;
}

// --- agreeing ------------------------------------------------------------------------------------

// Returns 1 if SLURM is about to end this job (SLURM_JOB_END_TIME). A time before the start of this process belongs to
// another job whose variable is still in the environment; it is ignored, and so is 0 or a text that is not a number.
static int scheduler_ends_soon(void) {
    const char *text = getenv("SLURM_JOB_END_TIME");
    if (!text || !*text) return 0;
    char *rest;
    double end = strtod(text, &rest), now = ls_clock_unix_seconds();
    int is_ours = *rest == 0 && isfinite(end) && end > now - ls_clock_since_start();
    return is_ours && end - now < SCHEDULER_MARGIN_SECONDS;
}

static int64_t own_reason(const ls_run_plan *plan) {
    int signal = ls_signals_received(), rank = plan->info.comm->rank;
    double limit = plan->cfg->run_max_minutes * 60;
    char where[LS_PINNED_PATH_BYTES];
    if (signal) return encode(BY_SIGNAL, signal, rank);
    if (rank != 0) return NO_REASON;
    if (ls_pinned_look(where) != LS_PINNED_IN_PLACE) return encode(BY_FOLDER, 0, rank);
    if (scheduler_ends_soon()) return encode(BY_SCHEDULER, 0, rank);
    return limit > 0 && ls_clock_since_start() >= limit ? encode(BY_MAX_MINUTES, 0, rank) : NO_REASON;
}

// Returns the number of updates until ranks agree again.
static int64_t interval(const ls_run_saving *saving, int64_t update, double now) {
    double seconds = now - saving->last_agreed_s;
    int64_t updates = update - saving->last_agreed;
    if (updates <= 0 || seconds <= 0) return 1;
    double rate = (double)updates / seconds;
    return rate * AGREE_SECONDS < 1                   ? 1
           : rate * AGREE_SECONDS > AGREE_UPDATES_MAX ? AGREE_UPDATES_MAX
                                                      : (int64_t)(rate * AGREE_SECONDS);
}

ls_status ls_run_saving_agree(ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress) {
    if (!saving->on || progress->next.updates < saving->agree_at) return LS_SUCCESS;
    double now = ls_clock_seconds(), every = plan->cfg->checkpoint_every_minutes * 60;
    int first = plan->info.comm->rank == 0;
    enum { REASON, DUE, NEXT, WORDS };
    int64_t word[WORDS] = { [REASON] = own_reason(plan),
        [DUE] = first && every > 0 && now - saving->last_save_s >= every,
        [NEXT] = first ? interval(saving, progress->next.updates, now) : 0 };
    LS_TRY(ls_comm_allreduce(plan->comm, word, WORDS, LS_I64, LS_REDUCE_MAX));
    saving->reason = word[REASON];
    if (word[REASON] || word[DUE]) saving->meet_at = progress->next.updates;
    saving->agree_at = progress->next.updates + word[NEXT];
    saving->last_agreed = progress->next.updates;
    saving->last_agreed_s = now;
    return LS_SUCCESS;
}

// --- saving --------------------------------------------------------------------------------------

int64_t ls_run_saving_next(const ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress) {
    int64_t every = plan->cfg->checkpoint_every_updates;
    if (!saving->on) return INT64_MAX;
    int64_t counted = every ? (progress->done.updates / every + 1) * every : INT64_MAX;
    return counted < saving->meet_at ? counted : saving->meet_at;
}

static int is_due(const ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress) {
    const ls_config *cfg = plan->cfg;
    int64_t done = progress->done.updates, epochs = cfg->checkpoint_every_epochs;
    int ever = epochs || cfg->checkpoint_every_updates || cfg->checkpoint_every_minutes > 0;
    if (done == saving->saved) return 0;
    return (cfg->checkpoint_every_updates && done % cfg->checkpoint_every_updates == 0) ||
           (epochs && progress->done.window == 0 && progress->done.epoch % epochs == 0) || done == saving->meet_at ||
           (ever && done == progress->last);
}

typedef struct {
    const ls_train_observer *observers;
    int count;
} listeners;

static void warn(const listeners *l, const char *text) {
    if (l->count == 0) ls_warn("%s", text);
    for (int i = 0; i < l->count; i++)
        if (l->observers[i].warning) l->observers[i].warning(l->observers[i].context, LS_LOG_WARNING, text);
}

// Reports a written checkpoint to the observers. An event of 0 bytes is a checkpoint that was already there; it is not
// reported again.
static void report_checkpoint(const listeners *l, const ls_train_checkpoint *event) {
    for (int i = 0; event->bytes > 0 && i < l->count; i++)
        if (l->observers[i].checkpoint) l->observers[i].checkpoint(l->observers[i].context, event);
}

// Rank 0: reports the checkpoint that was written since the last call, if any.
static ls_status report_written(ls_run_saving *saving, const listeners *l) {
    ls_train_checkpoint event;
    if (!saving->files || !ls_checkpoint_manager_written(saving->files, &event)) return LS_SUCCESS;
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

// Returns the memory for the next snapshot. Returns NULL on ranks other than 0, and while the last checkpoint is still
// being written. Training waits a moment for that checkpoint, but only once; with `must` until it is written.
static ls_snapshot *begin_snapshot(
    ls_run_saving *saving, const ls_run_progress *progress, const listeners *l, int must) {
    if (!saving->files) return NULL;
    ls_checkpoint_manager_wait(saving->files, must ? INFINITY : saving->busy_warned ? 0 : PATIENCE_SECONDS);
    ls_status reported = report_written(saving, l);
    (void)reported; // a failed checkpoint is followed by a new attempt
    ls_snapshot *snapshot = ls_checkpoint_manager_begin(saving->files);
    if (!snapshot && !saving->busy_warned) {
        char text[256];
        snprintf(text, sizeof text,
            "the last checkpoint is still being written: that of update %" PRId64
            " is left out (a slow disk? checkpoint.every_updates and every_minutes say how often)",
            progress->done.updates);
        warn(l, text);
    }
    saving->busy_warned = !snapshot;
    return snapshot;
}

static ls_status save(
    ls_run_saving *saving, ls_run_session *session, const ls_run_progress *progress, const listeners *l, int must) {
    // ranks must be equal, because a checkpoint holds the state of rank 0 only
    LS_TRY(ls_replicas_check(session, progress, saving));
    ls_snapshot *snapshot = begin_snapshot(saving, progress, l, must);
    if (must) LS_TRY(ls_comm_barrier_napping(session->plan->comm)); // rank 0 may still wait for the previous checkpoint
    double start = ls_clock_seconds();
    LS_TRY(ls_run_snapshot(session, progress, snapshot));
    saving->last_save_s = ls_clock_seconds();
    saving->saved = progress->done.updates;
    if (snapshot) ls_checkpoint_manager_write(saving->files, saving->last_save_s - start);
    return LS_SUCCESS;
}

static void ignore_damaged(void *context, ls_status why) {
    (void)context;
    (void)why;
}

// Describes the newest good checkpoint, for the message of a failure, in dst. Returns dst.
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

// Rank 0: fails because the run folder was moved or removed. written: the status of writing the last checkpoint.
static ls_status fail_moved(const ls_run_saving *saving, const ls_run_progress *progress, ls_pinned_state state,
    const char *where, ls_status written) {
    if (state == LS_PINNED_REMOVED)
        return ls_fail(LS_STORAGE,
            "run folder %s: was removed; stopped after update %" PRId64 " of %" PRId64 ", of which nothing is left",
            saving->folder, progress->done.updates, progress->last);
    return ls_fail(LS_STORAGE,
        "run folder %s: was moved, renamed or replaced; stopped after update %" PRId64 " of %" PRId64
        "%s%.1000s; the run is in %.1000s and goes on from there by --resume --run-dir",
        saving->folder, progress->done.updates, progress->last,
        ls_failed(written) ? ", whose checkpoint could not be written: " : "", ls_failed(written) ? written.text : "",
        where[0] ? where : "the folder that was moved");
}

// Rank 0: waits until the last checkpoint is written. If that failed, says why and names the newest good one.
static ls_status finish_last(ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress,
    const listeners *l, char *path, size_t bytes) {
    const char *folder = ls_checkpoint_manager_folder(saving->files);
    ls_train_checkpoint event = { .status = LS_SUCCESS };
    char reason[96], instead[LS_STATUS_TEXT_BYTES / 4], where[LS_PINNED_PATH_BYTES];
    ls_checkpoint_manager_wait(saving->files, INFINITY);
    int written = ls_checkpoint_manager_written(saving->files, &event);
    ls_pinned_state state = ls_pinned_look(where);
    if (state != LS_PINNED_IN_PLACE) return fail_moved(saving, progress, state, where, event.status);
    if (ls_failed(event.status))
        return ls_fail(event.status.code,
            "stopped by %s after update %" PRId64 " of %" PRId64
            ", but its checkpoint could not be written: %.2000s; %s",
            describe_reason(saving, plan, reason, sizeof reason), progress->done.updates, progress->last,
            event.status.text, describe_newest(folder, instead, sizeof instead));
    if (written) report_checkpoint(l, &event);
    return ls_checkpoint_path(folder, progress->done.updates, path, bytes);
}

// Fails with LS_STOPPED and the same text on all ranks, after the last checkpoint is written.
static ls_status stop(
    ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress, const listeners *l) {
    char reason[96], path[LS_TEXT_BYTES] = "";
    ls_status status = LS_SUCCESS;
    ls_comm_phase(plan->comm, "writing a checkpoint", progress->done.updates);
    if (saving->files) status = finish_last(saving, plan, progress, l, path, sizeof path);
    LS_TRY(ls_comm_barrier_napping(plan->comm)); // without a timeout: the other ranks may wait long for a slow disk
    LS_TRY(ls_comm_agree(plan->comm, status, NULL));
    LS_TRY(ls_comm_broadcast(plan->comm, path, sizeof path, 0));
    return ls_fail(LS_STOPPED, "stopped by %s after update %" PRId64 " of %" PRId64 ": %s holds all of it",
        describe_reason(saving, plan, reason, sizeof reason), progress->done.updates, progress->last, path);
}

ls_status ls_run_saving_if_due(ls_run_saving *saving, ls_run_session *session, const ls_run_progress *progress,
    const ls_train_observer *observers, int observer_count) {
    const ls_run_plan *plan = session->plan;
    const listeners l = { observers, observer_count };
    if (!saving->on) return LS_SUCCESS;
    ls_status reported = report_written(saving, &l);
    (void)reported; // training continues even if the checkpoint failed
    int met = progress->done.updates == saving->meet_at, last = progress->done.updates == progress->last;
    int stops = met && saving->reason && !last;
    int due = is_due(saving, plan, progress);
    if (due || stops) LS_TRY(save(saving, session, progress, &l, stops || last));
    // the checkpoint may have taken long, so the rate before it is no guide
    if (due) saving->agree_at = progress->done.updates;
    if (met) saving->meet_at = INT64_MAX;
    return stops ? stop(saving, plan, progress, &l) : LS_SUCCESS;
}

ls_status ls_run_saving_end(ls_run_saving *saving, const ls_run_session *session, const ls_run_progress *progress,
    const ls_train_observer *observers, int observer_count) {
    const listeners l = { observers, observer_count };
    if (!saving->on) return LS_SUCCESS;
    if (saving->files) {
        ls_comm_phase(session->plan->comm, "writing a checkpoint", progress->done.updates);
        ls_checkpoint_manager_wait(saving->files, INFINITY);
        ls_status reported = report_written(saving, &l);
        (void)reported; // the weights of the run are also written to another file
    }
    return ls_comm_barrier_napping(session->plan->comm);
}

// --- opening -------------------------------------------------------------------------------------

void ls_run_saving_begin(ls_run_saving *saving) {
    *saving = (ls_run_saving){ .meet_at = INT64_MAX };
}

ls_status ls_run_saving_set_folder(ls_run_saving *saving, const char *folder) {
    if ((size_t)snprintf(saving->folder, sizeof saving->folder, "%s", folder) < sizeof saving->folder)
        return LS_SUCCESS;
    saving->folder[0] = '\0';
    return ls_fail(LS_USAGE, "run folder %s: name longer than %zu bytes", folder, sizeof saving->folder - 1);
}

void ls_run_saving_close(ls_run_saving *saving) {
    ls_checkpoint_manager_close(saving->files);
}

ls_status ls_run_saving_open(
    ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress, const char *folder) {
    ls_status status = LS_SUCCESS;
    if (plan->info.comm->rank == 0)
        status = ls_checkpoint_manager_open(folder, &plan->info, plan->train_data, &saving->files);
    LS_TRY(ls_comm_agree(plan->comm, status, NULL));
    saving->on = 1;
    saving->meet_at = INT64_MAX;
    saving->agree_at = saving->last_agreed = saving->saved = progress->done.updates;
    saving->last_save_s = saving->last_agreed_s = ls_clock_seconds();
    return LS_SUCCESS;
}
