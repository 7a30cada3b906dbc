// cmd_help.c - `train help [TOPIC...]`, --help, --list and --version: on rank 0, from the tables.

#include <string.h>
#include "command/commands.h"
#include "command/help/help.h"

// As a person calls the program here: installed it is on the PATH, by another name.
static const char *program(const ls_args *args) {
    const char *path = args->argc ? args->argv[0] : "train", *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strcmp(name, "train") == 0 ? "./train" : name;
}

static ls_status print(const ls_args *args) {
    ls_status status = ls_help_print(program(args), args->files, args->file_count, stdout);
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

ls_status ls_cmd_help(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? print(args) : LS_SUCCESS);
}
