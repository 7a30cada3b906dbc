// run.h - runs updates to the end of the run (run.c, advance.c), with records, evaluations and checkpoints.
#ifndef LS_TRAIN_RUN_H
#define LS_TRAIN_RUN_H

#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"

// Implemented in advance.c. Enqueues updates as long as fewer than session->depth are in progress and the next one is
// before update number `end`. Then completes the oldest. *state: the state after that update. LS_NUMERIC on all ranks:
// the loss or the gradient is not finite and that ends the run (diagnose/nonfinite_search.h). Collective.
LS_CHECKED ls_status ls_run_advance(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t end, ls_train_state *state);

// Implemented in advance.c. Enqueues the next micro-batch of `input`, which belongs to the update at this position.
LS_CHECKED ls_status ls_run_enqueue_micro_batch(
    ls_run_session *session, ls_input_pipeline *input, const ls_position *at);

// Runs until progress->last, or progress->pause if that is earlier. LS_STOPPED on all ranks: the run was asked to stop,
// and a checkpoint holds all work so far. Calls the observers on rank 0. Collective.
LS_CHECKED ls_status ls_run_to_end(ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving,
    const ls_train_observer *observers, int observer_count, ls_train_summary *summary);
// Runs more updates without evaluation. loss[i] (or NULL): mean loss of the i-th one over all ranks. Collective.
LS_CHECKED ls_status ls_run_updates(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t updates, double *loss);

#endif
