// nonfinite_search.h - finds where a loss or gradient first became not finite, after such an update has ended the run.
//
// The update was skipped as a whole, so the weights are still those from its beginning. Only with fp16 may a device
// ahead of the host have applied later updates; the report says so. Each rank computes its micro-batches of that update
// again, one by one, and examines every tensor (tensor_stats.h). The failure began at the first bad tensor over all
// ranks, in the order of micro-batch, instruction, rank. A healthy run pays nothing.
#ifndef LS_TRAIN_DIAGNOSE_NONFINITE_SEARCH_H
#define LS_TRAIN_DIAGNOSE_NONFINITE_SEARCH_H

#include "train/diagnose/nonfinite.h"
#include "train/run_progress.h"
#include "train/run_session.h"

// Call after each completed update, while progress->done is still the position before it. folder: the folder of the
// run, or "". bad_losses: number of this rank's samples with a bad loss. Updates may be skipped while the loss scale
// adapts. LS_NUMERIC on all ranks: the run is lost. The message then says where the failure began, progress->nonfinite
// has the report, and the folder RUN/nonfinite-update-N has the micro-batch (nonfinite_dump.h). Collective.
LS_CHECKED ls_status ls_run_check_finite(ls_run_session *session, ls_run_progress *progress, const char *folder,
    const ls_train_state *state, int64_t bad_losses);

#endif
