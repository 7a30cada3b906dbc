// checkpoint_manager.h - manages the checkpoints of one run: the folder that holds them, the thread that writes them,
// and which of them are kept. Only rank 0 has a manager.
//
// A snapshot is taken between two updates. A separate thread writes it while training continues. Afterwards only the
// newest `checkpoint.keep_last` checkpoints are kept, and the `checkpoint.keep_best` ones with the best accuracy.
// Checkpoints of later updates are not counted and stay; they are damaged ones that the run could not continue from.
#ifndef LS_RUN_CHECKPOINT_MANAGER_H
#define LS_RUN_CHECKPOINT_MANAGER_H

#include "run/checkpoint.h"

typedef struct ls_checkpoint_manager ls_checkpoint_manager;

// Makes the manager of a run's checkpoints. folder: RUN/checkpoints, made with the first checkpoint. info: written into
// every manifest; borrowed until close. data: the training set, described in the metadata of weights files.
LS_CHECKED ls_status ls_checkpoint_manager_open(
    const char *folder, const ls_train_info *info, const ls_dataset *data, ls_checkpoint_manager **out);
// Waits until the checkpoint in progress is written, and frees the manager. NULL is allowed.
void ls_checkpoint_manager_close(ls_checkpoint_manager *checkpoints);
const char *ls_checkpoint_manager_folder(const ls_checkpoint_manager *checkpoints);

// Returns the snapshot to fill next, or NULL until ls_checkpoint_manager_written has returned 1 for the last one.
ls_snapshot *ls_checkpoint_manager_begin(ls_checkpoint_manager *checkpoints);
// Lets the thread write the snapshot, which is now filled. held_seconds: time for which training waited.
void ls_checkpoint_manager_write(ls_checkpoint_manager *checkpoints, double held_seconds);
// Returns 1 once after a checkpoint was written or failed (event->status). event->path is valid until the next begin.
int ls_checkpoint_manager_written(ls_checkpoint_manager *checkpoints, ls_train_checkpoint *event);
// Waits until the thread has nothing to write, but at most `seconds`, rounded up to whole ones (INFINITY: no limit).
void ls_checkpoint_manager_wait(ls_checkpoint_manager *checkpoints, double seconds);

// Returns the update of the kept checkpoint with the best accuracy (ls_train_evaluation_accuracy); -1: no kept
// checkpoint was evaluated. Call it only while nothing is being written.
int64_t ls_checkpoint_manager_best(const ls_checkpoint_manager *checkpoints, double *accuracy);

// Reads the newest good checkpoint in `folder`; *out is NULL if there is no good one. Calls `damaged` with the reason
// for each damaged checkpoint that is newer. LS_DEVICE: no memory to read a checkpoint.
LS_CHECKED ls_status ls_checkpoint_manager_newest(
    const char *folder, void (*damaged)(void *context, ls_status why), void *context, ls_checkpoint **out);
// Removes partly written checkpoints of killed processes (".update-000000000481.tmp" and ".old").
void ls_checkpoint_manager_clean(const char *folder);
// Lists the updates of the checkpoints in `folder`, oldest first: nothing if it does not exist. The caller frees
// *updates.
LS_CHECKED ls_status ls_checkpoint_manager_list(const char *folder, int64_t **updates, int *count);

#endif
