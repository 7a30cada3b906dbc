// checkpoint_list.h - finds the checkpoints that a path names: the path itself, or all in this folder, or in its
// folder checkpoints/.
#ifndef LS_RUN_CHECKPOINT_LIST_H
#define LS_RUN_CHECKPOINT_LIST_H

#include "base/status.h"

typedef struct {  // owns the paths
    char **paths; // paths of the checkpoints, oldest first
    int count;
    int one; // 1: the path itself is a checkpoint
} ls_checkpoint_list;

// Sets *is to 1 if `path` is a checkpoint: by its name or its manifest, which a damaged checkpoint may lack.
LS_CHECKED ls_status ls_checkpoint_is(const char *path, int *is);
// Lists the checkpoints that `path` names. LS_STORAGE: there is no checkpoint. LS_USAGE: the path is too long.
LS_CHECKED ls_status ls_checkpoint_list_find(const char *path, ls_checkpoint_list *out);
void ls_checkpoint_list_free(ls_checkpoint_list *list);

#endif
