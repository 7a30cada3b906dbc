// eval_folder.h - evaluates weights on a folder of pictures. The folder has one folder for each class of the weights.
#ifndef LS_CLI_EVAL_FOLDER_H
#define LS_CLI_EVAL_FOLDER_H

#include "command/commands.h"
#include "run/evaluation.h"

// Called by one rank. Evaluates args->weights, with the network, the normalisation and the classes of the weights file,
// in fp32 like `train predict`; with eval.tta it averages over all views. In *out, `set` is "folder" and paths of
// pictures are "class/name". LS_DATA: classes are missing or unknown, or pictures cannot be read (with data.broken =
// skip only if all pictures cannot). LS_USAGE: the weights' pictures have several labels. The caller frees *out.
LS_CHECKED ls_status ls_eval_folder(const ls_args *args, ls_config *cfg, const char *folder, ls_evaluation **out);

#endif
