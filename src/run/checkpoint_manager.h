// checkpoint_manager.h - the checkpoints of one run: the folder that holds them, the thread that writes them, which are retained.
//
// Rank 0 alone has one. A snapshot is taken between two updates and written by a thread of its own while training goes
// on; of those up to it only the newest `checkpoint.keep_last`, and the `checkpoint.keep_best` with the best test
// accuracy, stay. (Later ones are there where the run went on from an older one, because they were damaged.)
#ifndef LS_RUN_CHECKPOINT_MANAGER_H
#define LS_RUN_CHECKPOINT_MANAGER_H

#include "run/checkpoint.h"

typedef struct ls_checkpoint_manager ls_checkpoint_manager;

// folder: RUN/checkpoints, made with the first of them. info is borrowed, it goes into every manifest; data: the training
// set, of which weights files say what it is.
LS_CHECKED ls_status ls_checkpoint_manager_open(
    const char *folder, const ls_train_info *info, const ls_dataset *data, ls_checkpoint_manager **out);
void ls_checkpoint_manager_close(
    ls_checkpoint_manager *checkpoints); // waits for what is being written; NULL is allowed
const char *ls_checkpoint_manager_folder(const ls_checkpoint_manager *checkpoints);

// Room to take the next snapshot into; NULL while the last one is still being written.
ls_snapshot *ls_checkpoint_manager_begin(ls_checkpoint_manager *checkpoints);
// The snapshot is taken, which held training up for held_seconds: the thread writes it.
void ls_checkpoint_manager_write(ls_checkpoint_manager *checkpoints, double held_seconds);
// 1, once, when one has been written, or could not be: event.status is which, and its path lives until the next
// begin.
int ls_checkpoint_manager_written(ls_checkpoint_manager *checkpoints, ls_train_checkpoint *event);
// Until the thread has nothing to do, or so many seconds have passed (INFINITY: no limit).
void ls_checkpoint_manager_wait(ls_checkpoint_manager *checkpoints, double seconds);

// The update of the retained one with the best test accuracy; -1: none was evaluated. While nothing is being written.
int64_t ls_checkpoint_manager_best(const ls_checkpoint_manager *checkpoints, double *accuracy);

// The newest good checkpoint below `folder`: *out is NULL when there is none. For each damaged one that is newer,
// `damaged` is called with the reason. LS_DEVICE: no memory to read one.
LS_CHECKED ls_status ls_checkpoint_manager_newest(
    const char *folder, void (*damaged)(void *context, ls_status why), void *context, ls_checkpoint **out);
// Removes what processes that were killed left half-written (".update-000000000481.tmp" and ".old").
void ls_checkpoint_manager_clean(const char *folder);
// The updates that checkpoints below `folder` are of, oldest first; *updates to be freed by the caller. No folder:
// none.
LS_CHECKED ls_status ls_checkpoint_manager_list(const char *folder, int64_t **updates, int *count);

#endif
