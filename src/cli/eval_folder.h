// eval_folder.h - weights on the pictures of a folder that has one for each of their classes.
#ifndef LS_CLI_EVAL_FOLDER_H
#define LS_CLI_EVAL_FOLDER_H

#include "command/commands.h"
#include "run/evaluation.h"

// By the program of `train predict`, in fp32; with eval.tta the mean over all views. args->weights, whose network, normalisation and
// classes count. Set "folder"; paths are "class/name". One rank by itself. LS_DATA: classes are missing or unknown, or pictures cannot
// be read, which data.broken = skip leaves out.
LS_CHECKED ls_status ls_eval_folder(const ls_args *args, ls_config *cfg, const char *folder, ls_evaluation **out);

#endif
