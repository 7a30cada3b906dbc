// ckpt.h - what `train ckpt` does, each to stdout, on rank 0 alone.
#ifndef LS_CLI_CKPT_H
#define LS_CLI_CKPT_H

#include "cli/args.h"
#include "files/checkpoint_manager.h"

// The checkpoints that a path means: itself, or all in the folder, or in the checkpoints/ of the run's folder.
typedef struct {
    char **paths; // oldest first
    int count;
    int one; // the path itself is one
} ls_ckpt_list;

// Is the folder a checkpoint? By its manifest, or by its name: without a manifest it is a damaged checkpoint.
LS_CHECKED ls_status ls_ckpt_is_one(const char *path, int *is);
// LS_STORAGE: it is none, and there is none in it.
LS_CHECKED ls_status ls_ckpt_find(const char *path, ls_ckpt_list *out);
void ls_ckpt_list_free(ls_ckpt_list *list);

// A line each: path, "good" or "damaged", reason. LS_STORAGE: one is damaged.
LS_CHECKED ls_status ls_ckpt_verify(const char *const *paths, int count);
// All about one, or a table of several. LS_STORAGE: one is damaged.
LS_CHECKED ls_status ls_ckpt_show(const char *const *paths, int count);

#endif
