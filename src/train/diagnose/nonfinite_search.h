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
// run, or "", for the message. bad_losses: number of this rank's samples in the update whose loss is not finite.
// Updates may be skipped while the loss scale adapts. LS_NUMERIC on all ranks: the run is lost. The message then says
// where the failure began, and progress->nonfinite has the report. Collective.
LS_CHECKED ls_status ls_run_check_finite(ls_run_session *session, ls_run_progress *progress, const char *folder,
    const ls_train_state *state, int64_t bad_losses);

// The tensors of one micro-batch in the order in which the program reads or writes them. The caller frees row.
typedef struct {
    ls_tensor_stats *row;
    int count;
    int micro, samples; // number of the micro-batch in its window; number of its samples
} ls_tensor_table;

// Computes the micro-batches of the next update, or of the update that ended the run, and examines their tensors. The
// weights stay as they are, but no further update is possible. On all ranks, *report says where a value first became
// not finite, if one did, and *table has the tensors of that micro-batch, or else of rank 0's last micro-batch. All
// enqueued updates must be completed. Collective.
LS_CHECKED ls_status ls_run_tensors(
    ls_run_session *session, const ls_run_progress *progress, ls_nonfinite *report, ls_tensor_table *table);

#endif
