// advance.h - the updates of a run, one after another: enqueue some, complete the oldest.
#ifndef LS_TRAIN_ADVANCE_H
#define LS_TRAIN_ADVANCE_H

#include "train/run_progress.h"
#include "train/run_saving.h"
#include "train/run_session.h"

// Enqueues updates while fewer than session->depth are under way and before update number `end`; then completes the
// oldest. *state: after that update. LS_NUMERIC on all ranks if its loss or gradient is not finite and that ends the
// run (diagnose/nonfinite_search.h). Collective.
LS_CHECKED ls_status ls_run_advance(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t end, ls_train_state *state);

#endif
