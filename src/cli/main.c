// main.c - reads the command line, starts the communicator, calls the command and ends all ranks with its exit code.

#include "base/json.h"
#include "base/log.h"
#include "system/signals.h"
#include "system/streams.h"
#include "command/command_table.h"
#include "command/commands.h"
#include "tools/doctor/doctor.h"
#include "command/paths.h"
#include "dist/comm.h"

static ls_status (*const run[])(const ls_args *args, ls_comm *comm) = {
#define COMMAND(ID, name, ...) ls_cmd_##name,
#include "command/commands.def"
};

static int trains(const ls_args *args) {
    if (args->command == LS_COMMAND_SWEEP) return !args->dry_run && !args->table;
    if (args->command == LS_COMMAND_RACE) return 1;
    return args->command == LS_COMMAND_TRAIN && !args->dry_run && !args->print_config;
}

// Returns 1 if the command continues when nobody reads its output any more, because it works for files or other ranks.
// `train` that only prints (--dry-run, --print-config) does not continue.
static int keeps_on(const ls_args *args) {
    return ls_command_at(args->command)->keeps_on && (args->command != LS_COMMAND_TRAIN || trains(args));
}

int main(int argc, char **argv) {
    ls_streams_fill();
    ls_json_setup();
    ls_args args;
    ls_status parsed = ls_args_parse(argc, argv, &args);
    if (!ls_failed(parsed)) ls_streams_fail_quietly(keeps_on(&args));
    // Listen before the communicator starts: a launcher's signal may reach ranks that have only just started. The run
    // heeds the signal from its first update on.
    if (!ls_failed(parsed) && trains(&args)) parsed = ls_signals_listen();
    const int is_doctor = !ls_failed(parsed) && args.command == LS_COMMAND_DOCTOR;
    if (is_doctor) ls_doctor_look(&args);
    ls_comm *comm = NULL;
    ls_status status = ls_comm_start(&argc, &argv, ls_failed(parsed) ? NULL : args.joint, &comm);
    if (ls_failed(status)) {
        if (is_doctor) status = ls_doctor_alone(&args, status);
        ls_log_status(ls_failed(parsed) ? parsed : status);
        ls_args_free(&args);
        return ls_failed(parsed) ? (int)parsed.code : (int)status.code;
    }
    const ls_comm_info *self = ls_comm_get_info(comm);
    ls_log_setup(self->rank, self->world_size, args.quiet ? LS_LOG_ALERT : LS_LOG_INFO);

    status = ls_command_agree(comm, parsed);
    LS_THEN(status, ls_command_agree(comm, self->rank == 0 ? ls_paths_check(&args) : LS_SUCCESS));
    ls_comm_set_timeout(comm, 0); // the start is over; the command sets its own timeout
    LS_THEN(status, run[args.command](&args, comm));
    ls_comm_finish(comm);
    ls_args_free(&args);
    return status.code;
}
