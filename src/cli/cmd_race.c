// cmd_race.c - `train race CONFIG.ini --seeds 1-40 --gate 94`: time to accuracy over seeds (sweep/race.h).
#include <stdio.h>
#include "command/commands.h"
#include "sweep/race.h"

static ls_status race_alone(const ls_args *args, ls_comm *comm) {
    if (ls_comm_get_info(comm)->world_size > 1)
        return ls_fail(LS_USAGE, "train race starts its runs itself, of one rank each: start it alone");
    LS_TRY(ls_race(args, comm));
    return ls_command_flush(stdout);
}

ls_status ls_cmd_race(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, race_alone(args, comm));
}
