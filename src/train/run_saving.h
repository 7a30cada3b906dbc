// run_saving.h - decides when a run saves and when it stops. All ranks agree on this and do it between two updates.
//
// A signal, the scheduler's time limit or a clock is seen by only one rank, but all ranks must act at the same update.
// So the ranks agree about ten times a second, by one small all-reduce before an update is enqueued. Rank 0 decides
// after how many updates they agree again. Checkpoints that are due by a count of updates or epochs need no agreement.
//
// ls_run_saving_begin sets it up so that it saves nothing and ignores requests to stop. ls_run_saving_open turns it on.
// ls_run_saving_agree and ls_run_saving_if_due change it between two updates. Only the thread that drives the run uses
// it. The checkpoint manager writes files in its own thread.
#ifndef LS_TRAIN_RUN_SAVING_H
#define LS_TRAIN_RUN_SAVING_H

#include "run/checkpoint_manager.h"
#include "train/run_progress.h"
#include "train/run_session.h"

typedef struct {
    char folder[LS_TEXT_BYTES];   // the run's folder on rank 0; "" on other ranks, or if the run has no folder
    int on;                       // 1: the run saves checkpoints and reacts to requests to stop; the same on all ranks
    ls_checkpoint_manager *files; // rank 0's checkpoint manager; NULL on other ranks. Owned
    int64_t agree_at;             // the ranks agree again before this update
    // Agreed: all earlier updates must be completed before this one, to save or to stop. INT64_MAX: not agreed.
    int64_t meet_at;
    int64_t reason;                    // why the run stops: an encoded reason and rank; 0: it does not stop
    int64_t saved;                     // number of updates in the last snapshot
    int64_t last_agreed;               // update before which the ranks last agreed
    double last_agreed_s, last_save_s; // times of the last agreement and the last snapshot
    int busy_warned;                   // 1: the warning that the last checkpoint takes long has been given
} ls_run_saving;

void ls_run_saving_begin(ls_run_saving *saving); // sets up a run without a folder and without checkpoints
// Rank 0: sets the run's folder, where the evidence of a failure is kept. LS_USAGE: the path is too long.
LS_CHECKED ls_status ls_run_saving_set_folder(ls_run_saving *saving, const char *folder);
// Turns saving on: from now on the run saves into `folder` and reacts to requests to stop. Only rank 0's folder is
// used. Collective.
LS_CHECKED ls_status ls_run_saving_open(
    ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress, const char *folder);
void ls_run_saving_close(ls_run_saving *saving); // waits for the checkpoint that is being written; {0} is allowed

// Call before update `next` is enqueued. Agrees with the other ranks if that is due. Collective.
LS_CHECKED ls_status ls_run_saving_agree(
    ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress);
// Returns the next update after `done` at which a checkpoint is due by count or the ranks have agreed to meet.
int64_t ls_run_saving_next(const ls_run_saving *saving, const ls_run_plan *plan, const ls_run_progress *progress);
// Call after all enqueued updates are completed. Saves if due. If the ranks have agreed to stop, then fails on all of
// them with LS_STOPPED, or LS_STORAGE if the checkpoint failed. Rank 0 reports finished checkpoints to the observers.
// Collective.
LS_CHECKED ls_status ls_run_saving_if_due(ls_run_saving *saving, ls_run_session *session,
    const ls_run_progress *progress, const ls_train_observer *observers, int observer_count);
// Call after the last update. Waits for the checkpoint that is being written. Collective.
LS_CHECKED ls_status ls_run_saving_end(ls_run_saving *saving, const ls_run_session *session,
    const ls_run_progress *progress, const ls_train_observer *observers, int observer_count);

#endif
