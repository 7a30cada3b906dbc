// ckpt.h - the actions of `train ckpt`. They run on rank 0 only and print to stdout.
#ifndef LS_CLI_CKPT_H
#define LS_CLI_CKPT_H

#include "command/args.h"
#include "run/checkpoint_list.h"

// Prints a line for each checkpoint: path, "good" or "damaged", and the damage. LS_STORAGE: one is damaged, or a path
// has no checkpoint.
LS_CHECKED ls_status ls_ckpt_verify(const char *const *paths, int count);
// Prints for each path: everything about the checkpoint, or for a folder of checkpoints a table. LS_STORAGE: as above.
LS_CHECKED ls_status ls_ckpt_show(const char *const *paths, int count);

#endif
