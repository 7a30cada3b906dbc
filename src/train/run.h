// run.h - updates until the end of a run, with everything that happens between them: records, evaluations, checkpoints.
#ifndef LS_TRAIN_RUN_H
#define LS_TRAIN_RUN_H

#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"

// Until progress->last, or LS_STOPPED on all ranks: the run was asked to stop, and a checkpoint holds all that was
// done. Observers are called on rank 0. Collective.
LS_CHECKED ls_status ls_run_to_end(ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving,
    const ls_train_observer *observers, int observer_count, ls_train_summary *summary);
// So many further updates without evaluation; loss[i] (may be NULL): the mean loss of the window over all ranks.
// Collective.
LS_CHECKED ls_status ls_run_updates(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t updates, double *loss);

#endif
