// cmd_help.c - `train help [TOPIC...]`, --help, --list and --version, printed by rank 0.

#include <string.h>
#include "command/commands.h"
#include "command/help/help.h"

// Returns the program's name as the user should call it. A program named train is taken to lie in the current folder,
// so it is called "./train"; an installed program has another name and is on the PATH.
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
