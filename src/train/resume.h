// resume.h - finds the checkpoint that a run goes on from.
#ifndef LS_TRAIN_RESUME_H
#define LS_TRAIN_RESUME_H

#include "files/snapshot.h"
#include "train/run_plan.h"

// Reads the newest good checkpoint of the folder (rank 0's) into *out, on rank 0; *found (all ranks): there is one.
// The plan's record of parts then begins with the checkpoint's. The caller frees *out, also if this fails. Damaged
// checkpoints and changed options are told in warnings. LS_USAGE: a checkpoint of another run is there and run.adopt
// is false, or an option differs that a run may not change. LS_STORAGE: no checkpoint is good. Collective; writes
// nothing.
LS_CHECKED ls_status ls_run_find_checkpoint(ls_run_plan *plan, const char *folder, ls_snapshot **out, int *found);

#endif
