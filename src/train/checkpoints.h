// checkpoints.h - the checkpoints of one run: the folder that holds them, the thread that writes them, which are kept.
//
// Rank 0 alone has one. A snapshot is taken between two updates and written by a thread of its own while training goes
// on; of those up to it only the newest `checkpoint.keep_last`, and the `checkpoint.keep_best` with the best test
// accuracy, stay. (Later ones are there where the run went on from an older one, because they were damaged.)
#ifndef LS_TRAIN_CHECKPOINTS_H
#define LS_TRAIN_CHECKPOINTS_H

#include "train/checkpoint.h"

typedef struct ls_checkpoints ls_checkpoints;

// folder: RUN/checkpoints, made with the first of them. facts are borrowed, they go into every manifest; data: the training
// set, of which weights files say what it is.
LS_CHECKED ls_status ls_checkpoints_open(
    const char *folder, const ls_train_facts *facts, const ls_dataset *data, ls_checkpoints **out);
void ls_checkpoints_close(ls_checkpoints *checkpoints); // waits for what is being written; NULL is allowed
const char *ls_checkpoints_folder(const ls_checkpoints *checkpoints);

// Room to take the next snapshot into; NULL while the last one is still being written.
ls_snapshot *ls_checkpoints_begin(ls_checkpoints *checkpoints);
// The snapshot is taken, which held training up for held_seconds: the thread writes it.
void ls_checkpoints_write(ls_checkpoints *checkpoints, double held_seconds);
// 1, once, when one has been written, or could not be: event.status says which, and its path lives until the next
// begin.
int ls_checkpoints_written(ls_checkpoints *checkpoints, ls_train_checkpoint *event);
// Until the thread has nothing to do, or so many seconds have passed (INFINITY: no limit).
void ls_checkpoints_wait(ls_checkpoints *checkpoints, double seconds);

// The update of the kept one with the best test accuracy; -1: none was evaluated. While nothing is being written.
int64_t ls_checkpoints_best(const ls_checkpoints *checkpoints, double *accuracy);

// The newest good checkpoint below `folder`: *out is NULL when there is none. For each damaged one that is newer,
// `damaged` is called with the reason. LS_DEVICE: no memory to read one.
LS_CHECKED ls_status ls_checkpoints_newest(
    const char *folder, void (*damaged)(void *context, ls_status why), void *context, ls_checkpoint **out);
// Removes what processes that were killed left half-written (".update-000000000481.tmp" and ".old").
void ls_checkpoints_clean(const char *folder);
// The updates that checkpoints below `folder` are of, oldest first; *updates to be freed by the caller. No folder:
// none.
LS_CHECKED ls_status ls_checkpoints_list(const char *folder, int64_t **updates, int *count);

#endif
