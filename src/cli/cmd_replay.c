// cmd_replay.c - `train replay FOLDER`: computes the micro-batch that a run saved because its numbers were not finite
// (train/diagnose/nonfinite_dump.h) again, and prints a table with a line for each instruction. The folder's config.ini
// applies; --set changes it.

#include "base/atomic_file.h"
#include "command/commands.h"
#include "train/diagnose/replay.h"

static ls_status configure(const ls_args *args, ls_comm *comm, ls_config *cfg) {
    char path[LS_TEXT_BYTES];
    ls_args own = *args;
    if (ls_comm_get_info(comm)->world_size > 1)
        return ls_fail(LS_USAGE, "train replay computes one micro-batch: start it on one rank, without mpirun");
    LS_TRY(ls_path_join(path, sizeof path, args->batch, "config.ini"));
    if (!ls_path_exists(path))
        return ls_fail(LS_USAGE, "%s: no folder of a batch that was not finite: %s is not there", args->batch, path);
    own.config = path;
    return ls_command_configure(&own, comm, cfg);
}

ls_status ls_cmd_replay(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, configure(args, comm, &cfg)));
    ls_status status = ls_replay(args->batch, &cfg, stdout);
    ls_keep_first(&status, ls_command_flush(stdout));
    return ls_command_agree(comm, status);
}
