// nonfinite_search.h - an update that ends the run because its loss or gradient was not finite: where that began.
//
// Such an update is skipped whole, so the weights are still those that it began with (a device that was ahead of the
// host may have applied later ones: only with fp16, and the report says so). All ranks learn of it alike. Each
// computes its micro-batches of that update again, one after the other, and looks at every tensor (tensor_stats.h);
// the first bad one over all ranks, by micro-batch, instruction, rank, is where it began. Nothing of this costs
// anything before.
#ifndef LS_TRAIN_DIAGNOSE_NONFINITE_SEARCH_H
#define LS_TRAIN_DIAGNOSE_NONFINITE_SEARCH_H

#include "train/diagnose/nonfinite.h"
#include "train/run_progress.h"
#include "train/run_session.h"

// Call after each update that is completed; progress->done is still the place before it. folder: the run's, or "".
// bad_losses: of this rank's samples. Updates may be skipped while the loss scale is sought. LS_NUMERIC on all ranks
// if the run is lost: the message says where it began, progress->nonfinite has the report, and the folder
// RUN/nonfinite-update-N has that micro-batch (nonfinite_dump.h). Collective.
LS_CHECKED ls_status ls_run_check_finite(ls_run_session *session, ls_run_progress *progress, const char *folder,
    const ls_train_state *state, int64_t bad_losses);

#endif
