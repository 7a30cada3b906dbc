// snapshots.h - the state of a run, taken from the device and put back.
#ifndef LS_TRAIN_SNAPSHOTS_H
#define LS_TRAIN_SNAPSHOTS_H

#include "train/run_session.h"

// Memory for a snapshot of this run; ls_snapshot_free it.
LS_CHECKED ls_status ls_run_snapshot_new(const ls_run_plan *plan, ls_snapshot **out);
// Call when all enqueued updates are completed. The tensors are this rank's own, which equal those of all ranks;
// `snapshot` may be NULL on ranks that do not want it. Collective.
LS_CHECKED ls_status ls_run_snapshot(ls_run_session *session, const ls_run_progress *progress, ls_snapshot *snapshot);
// Copies one tensor of this rank after `updates` updates to tensor->values. An export that failed shows at the
// queue's next sync.
void ls_run_export_tensor(ls_run_session *session, int64_t updates, const ls_snapshot_tensor *tensor);
// The run goes on as the one that the snapshot was taken of. Rank 0's snapshot counts; on the others it is
// overwritten. Call before the first update or when all enqueued updates are completed. Collective.
LS_CHECKED ls_status ls_run_restore(ls_run_session *session, ls_run_progress *progress, ls_snapshot *snapshot);

#endif
