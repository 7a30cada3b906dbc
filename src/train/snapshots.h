// snapshots.h - a run's state: taken from the device, restored (snapshots.c), read from a checkpoint (resume.c).
#ifndef LS_TRAIN_SNAPSHOTS_H
#define LS_TRAIN_SNAPSHOTS_H

#include "train/run_session.h"

// Allocates a snapshot for this run. Free it with ls_snapshot_free.
LS_CHECKED ls_status ls_run_snapshot_new(const ls_run_plan *plan, ls_snapshot **out);
// Copies the state of the run into a snapshot. Call after all enqueued updates are completed. The tensors are this
// rank's own, which are equal on all ranks. `snapshot` may be NULL on ranks that do not need it. Collective.
LS_CHECKED ls_status ls_run_snapshot(ls_run_session *session, const ls_run_progress *progress, ls_snapshot *snapshot);
// Copies one of this rank's tensors after `updates` updates to tensor->values. The next queue sync returns errors.
void ls_run_export_tensor(ls_run_session *session, int64_t updates, const ls_snapshot_tensor *tensor);
// Continues the run from the snapshot. Rank 0's snapshot is used and overwrites the others. Call before the first
// update, or after all enqueued updates are completed. Collective.
LS_CHECKED ls_status ls_run_restore(ls_run_session *session, ls_run_progress *progress, ls_snapshot *snapshot);

// Implemented in resume.c. On rank 0, reads the newest good checkpoint of the folder (rank 0's path) into *out. *found,
// on all ranks: whether there is a good checkpoint. The plan's record of parts then begins with the checkpoint's
// record. The caller frees *out, even if this fails. Warnings report damaged checkpoints and changed options. LS_USAGE:
// the folder has a checkpoint of another run and run.adopt is false, or an option was changed that must stay the same
// within a run. LS_STORAGE: there are checkpoints, but no good one. Collective; writes no file.
LS_CHECKED ls_status ls_run_find_checkpoint(ls_run_plan *plan, const char *folder, ls_snapshot **out, int *found);

#endif
