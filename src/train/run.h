// run.h - a run: updates until its end (run.c, advance.c), with everything between them: records, evaluations,
// checkpoints.
#ifndef LS_TRAIN_RUN_H
#define LS_TRAIN_RUN_H

#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"

// advance.c. Enqueues updates while fewer than session->depth are under way and before update number `end`; then
// completes the oldest. *state: after that update. LS_NUMERIC on all ranks if its loss or gradient is not finite and
// that ends the run (diagnose/nonfinite_search.h). Collective.
LS_CHECKED ls_status ls_run_advance(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t end, ls_train_state *state);

// Until progress->last, or LS_STOPPED on all ranks: the run was asked to stop, and a checkpoint holds all that was
// done. Observers are called on rank 0. Collective.
LS_CHECKED ls_status ls_run_to_end(ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving,
    const ls_train_observer *observers, int observer_count, ls_train_summary *summary);
// So many further updates without evaluation; loss[i] (may be NULL): the mean loss of the window over all ranks.
// Collective.
LS_CHECKED ls_status ls_run_updates(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t updates, double *loss);

#endif
