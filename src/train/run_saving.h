// run_saving.h - when a run saves and when it stops: agreed by all ranks, done between two updates.
//
// A signal, the scheduler's limit or a clock is seen by one rank, but all ranks must act at the same update. So ranks
// agree about every tenth of a second, by one small all-reduce before an update is enqueued; rank 0 says after how
// many updates they agree again. Checkpoints that are due by counting updates or epochs need no agreement.
//
// It starts as {0}, which saves nothing and heeds no request; ls_run_saving_open turns it on. ls_run_saving_agree and
// ls_run_saving_if_due change it between two updates. Only the thread that drives the run uses it; the checkpoint
// manager writes files in a thread of its own.
#ifndef LS_TRAIN_RUN_SAVING_H
#define LS_TRAIN_RUN_SAVING_H

#include "run/checkpoint_manager.h"
#include "train/run_progress.h"
#include "train/run_session.h"

typedef struct {
    char folder[LS_TEXT_BYTES];        // the run's; "": it has none, or this is not rank 0
    int on;                            // this run saves and heeds requests; the same on all ranks
    ls_checkpoint_manager *files;      // rank 0; NULL elsewhere. Owned
    int64_t agree_at;                  // update before which ranks agree next
    int64_t meet_at;                   // update before which all updates must be completed, as agreed; INT64_MAX: none
    int64_t reason;                    // to stop: an encoded reason and rank; 0: none
    int64_t saved;                     // update of the last snapshot
    int64_t last_agreed;               // update
    double last_agreed_s, last_save_s; // on the clock
    int busy_warned;                   // a warning has said that the last checkpoint takes long
} ls_run_saving;

void ls_run_saving_begin(ls_run_saving *saving); // no run folder, no checkpoints
// Rank 0: the run's folder, where evidence of a failure is kept. LS_USAGE: its name is too long.
LS_CHECKED ls_status ls_run_saving_set_folder(ls_run_saving *saving, const char *folder);
// From here on the run saves into `folder` (rank 0's; the others' is ignored) and heeds requests to stop. Collective.
LS_CHECKED ls_status ls_run_saving_open(
    ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress, const char *folder);
void ls_run_saving_close(ls_run_saving *saving); // waits for the checkpoint that is being written; {0} is allowed

// Call before update `next` is enqueued: agrees with the other ranks when that is due. Collective.
LS_CHECKED ls_status ls_run_saving_agree(
    ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress);
// The next update after `done` at which a checkpoint is due by counting, or at which ranks are to meet.
int64_t ls_run_saving_next(const ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress);
// Call when all enqueued updates are completed: saves if that is due, then fails with LS_STOPPED on all ranks if they
// have agreed to stop. Rank 0 calls the observers for what was written. Collective.
LS_CHECKED ls_status ls_run_saving_if_due(ls_run_saving *saving, ls_run_session *session,
    const ls_run_progress *progress, const ls_train_observer *observers, int observer_count);
// Call after the last update: waits for the checkpoint that is being written. Collective.
LS_CHECKED ls_status ls_run_saving_end(ls_run_saving *saving, const ls_run_session *session,
    const ls_run_progress *progress, const ls_train_observer *observers, int observer_count);

#endif
