// commands.h - what main calls: one function a command, called on all ranks with the communicator already started.
//
// They return the same status on all ranks, agreed, with its message already printed by one of them.
#ifndef LS_COMMAND_COMMANDS_H
#define LS_COMMAND_COMMANDS_H

#include <stdio.h>
#include "base/status.h"
#include "command/args.h"
#include "config/config.h"
#include "dist/comm.h"
#include "formats/weights_metadata.h"

#define COMMAND(ID, name, ...) LS_CHECKED ls_status ls_cmd_##name(const ls_args *args, ls_comm *comm);
#include "command/commands.def"

// Steps that commands share. All ranks call them.

// One outcome for all ranks: that of the lowest failing rank, whose message it alone prints.
LS_CHECKED ls_status ls_command_agree(ls_comm *comm, ls_status mine);
// What was printed to stdout is there, or LS_STORAGE: a full disk or a closed pipe shows only when the text is flushed.
LS_CHECKED ls_status ls_command_flush(FILE *file);
// Defaults, the file (where one is named), --set in order, checks; not agreed yet.
LS_CHECKED ls_status ls_command_configure(const ls_args *args, ls_comm *comm, ls_config *cfg);
// A weights file, and what its weights are for: what the file says; where it says nothing, the configuration of
// --config. By the rule of formats/weights_fit.h: values given by hand that differ are refused. Of this rank alone.
LS_CHECKED ls_status ls_command_weights(
    const ls_args *args, ls_config *cfg, ls_safetensors **file, ls_weights_info **info);
// To evaluate: options of the pictures that cfg leaves open get the values of the weights, which args->weights or
// model.init names. Rank 0 reads them. The outcome is the same on all ranks.
LS_CHECKED ls_status ls_command_adopt(const ls_args *args, ls_comm *comm, ls_config *cfg);
// For failures in mid-training, when the other ranks may be waiting for this one. Numerical failures, requests to stop
// and checkpoints that could not be written then are reported to all ranks and are agreed; for all else one rank of
// several prints and ends the job, and does not return.
LS_CHECKED ls_status ls_command_agree_or_abort(ls_comm *comm, ls_status mine);
// ls_check_output, and the files that the configuration names stay, too, whether the command reads them or not.
LS_CHECKED ls_status ls_command_check_output(const ls_config *cfg, const char *option, const char *path);

#endif
