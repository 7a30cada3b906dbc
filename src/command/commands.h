// commands.h - the functions that main calls: one for each command, called on all ranks after the communicator has
// started. Each returns the same status on all ranks; one rank has already printed its message.
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

// Steps that commands share.

// Lets the ranks agree on a status. Collective. Returns the same status on all ranks: the failure of the lowest failing
// rank, which alone prints it. Ends the job, and does not return, if an exchange between the ranks has failed
// (ls_comm_broken).
LS_CHECKED ls_status ls_command_agree(ls_comm *comm, ls_status mine);
// Flushes stdout (`file`). LS_STORAGE: the text could not be written; a full disk or a closed pipe shows only here.
LS_CHECKED ls_status ls_command_flush(FILE *file);
// Fills cfg with the defaults, the configuration file (if one is named) and each --set in order, and checks it. Sets
// the timeout and the hierarchy of comm. The ranks have not agreed on the outcome yet: pass it to ls_command_agree.
LS_CHECKED ls_status ls_command_configure(const ls_args *args, ls_comm *comm, ls_config *cfg);
// Reads the weights file that args->weights names, and its facts about pictures, classes and network (*info). Called by
// one rank. Facts that the file lacks come from the configuration of --config. A value given by hand that differs from
// the file's is refused (formats/weights_fit.h). The caller frees *file and *info.
LS_CHECKED ls_status ls_command_weights(
    const ls_args *args, ls_config *cfg, ls_safetensors **file, ls_weights_info **info);
// Sets the options of the pictures (size, mean, std, ...) that cfg leaves open to the values in the weights file, for
// evaluation. args->weights or model.init names the file; rank 0 reads it. Collective.
LS_CHECKED ls_status ls_command_adopt(const ls_args *args, ls_comm *comm, ls_config *cfg);
// Agrees on failures in the middle of training, when the other ranks may be waiting for this one. Collective. All ranks
// learn of LS_NUMERIC, LS_STOPPED and LS_STORAGE (a checkpoint could not be written): these are agreed, as by
// ls_command_agree, and so is a failure that the ranks have agreed on before. After any other failure in a job of
// several ranks, this rank prints the message and ends the job.
LS_CHECKED ls_status ls_command_agree_or_abort(ls_comm *comm, ls_status mine);
// Like ls_check_output, refuses an output that would replace a file that the command reads. Also refuses to replace the
// files of model.file, model.init and distill.weights, even if the command does not read them.
LS_CHECKED ls_status ls_command_check_output(
    const ls_config *cfg, const char *option, const char *path, const char *kind, const char *pattern);

#endif
