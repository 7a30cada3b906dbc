// cmd_help.c - `train help [TOPIC...]`, --help, --list and --version: on rank 0, from the tables.

#include "cli/commands.h"
#include "cli/help/help.h"

static ls_status print(const ls_args *args) {
    ls_status status = ls_help_print(args->files, args->file_count, stdout);
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

ls_status ls_cmd_help(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? print(args) : LS_SUCCESS);
}
