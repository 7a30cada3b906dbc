// snapshots.h - the state of a run: taken from the device and put back (snapshots.c), found in a checkpoint (resume.c).
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

// resume.c. Reads the newest good checkpoint of the folder (rank 0's) into *out, on rank 0; *found (all ranks): there
// is one. The plan's record of parts then begins with the checkpoint's. The caller frees *out, also if this fails.
// Damaged checkpoints and changed options are told in warnings. LS_USAGE: a checkpoint of another run is there and
// run.adopt is false, or an option differs that a run may not change. LS_STORAGE: no checkpoint is good. Collective;
// writes nothing.
LS_CHECKED ls_status ls_run_find_checkpoint(ls_run_plan *plan, const char *folder, ls_snapshot **out, int *found);

#endif
