// ckpt.h - the actions of `train ckpt`. They print to stdout and run on rank 0 only.
#ifndef LS_CLI_CKPT_H
#define LS_CLI_CKPT_H

#include "command/args.h"
#include "run/checkpoint_list.h"

// A line each: path, "good" or "damaged", reason. LS_STORAGE: one is damaged.
LS_CHECKED ls_status ls_ckpt_verify(const char *const *paths, int count);
// All about one, or a table of several. LS_STORAGE: one is damaged.
LS_CHECKED ls_status ls_ckpt_show(const char *const *paths, int count);

#endif
