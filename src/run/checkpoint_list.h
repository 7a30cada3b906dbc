// checkpoint_list.h - the checkpoints that a path names: the path itself, or all in the folder, or all in checkpoints/ of
// a run's folder.
#ifndef LS_RUN_CHECKPOINT_LIST_H
#define LS_RUN_CHECKPOINT_LIST_H

#include "base/status.h"

typedef struct {  // owns the paths
    char **paths; // oldest first
    int count;
    int one; // the path itself is a checkpoint
} ls_checkpoint_list;

// Whether the folder is a checkpoint: by its manifest or by its name, as a damaged checkpoint may lack its manifest.
LS_CHECKED ls_status ls_checkpoint_is(const char *path, int *is);
// LS_STORAGE: the path is not a checkpoint and contains none.
LS_CHECKED ls_status ls_checkpoint_list_find(const char *path, ls_checkpoint_list *out);
void ls_checkpoint_list_free(ls_checkpoint_list *list);

#endif
