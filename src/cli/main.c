// main.c - reads the command line, starts the communicator, calls a command, ends all ranks with its exit code.

#include <stdio.h>
#include "base/log.h"
#include "base/signals.h"
#include "base/streams.h"
#include "base/version.h"
#include "cli/args.h"
#include "cli/commands.h"
#include "dist/comm.h"

static ls_status print_list(void) {
    ls_config_list(stdout);
    return LS_SUCCESS;
}

static ls_status print_help(void) {
    ls_args_help(stdout);
    return LS_SUCCESS;
}

static ls_status print_version(void) {
    printf("lockstep %s\ncompiler   %s\nlibraries  %s, %s\n", ls_version(), ls_version_compiler(),
        ls_version_libraries(), ls_comm_library());
    return LS_SUCCESS;
}

// A command either works on all ranks, or only prints something on rank 0. One that works for longer, for files or for
// other ranks, goes on when its lines are read no more; the others end then, as tools do.
enum { PRINTS, KEEPS_ON };
static const struct {
    ls_status (*run)(const ls_args *args, ls_comm *comm);
    ls_status (*print)(void);
    int keeps_on;
} commands[] = {
    [LS_COMMAND_TRAIN] = { ls_cmd_train, NULL, KEEPS_ON },
    [LS_COMMAND_BENCH] = { ls_cmd_bench, NULL, KEEPS_ON },
    [LS_COMMAND_EVAL] = { ls_cmd_eval, NULL, KEEPS_ON },
    [LS_COMMAND_PREDICT] = { ls_cmd_predict, NULL, PRINTS },
    [LS_COMMAND_EXPORT] = { ls_cmd_export, NULL, KEEPS_ON },
    [LS_COMMAND_AUGMENT] = { ls_cmd_augment, NULL, KEEPS_ON },
    [LS_COMMAND_REPLAY] = { ls_cmd_replay, NULL, PRINTS },
    [LS_COMMAND_CKPT] = { ls_cmd_ckpt, NULL, PRINTS },
    [LS_COMMAND_VERIFY_RESUME] = { ls_cmd_verify_resume, NULL, KEEPS_ON },
    [LS_COMMAND_DEVICES] = { ls_cmd_devices, NULL, PRINTS },
    [LS_COMMAND_LIST] = { NULL, print_list, PRINTS },
    [LS_COMMAND_HELP] = { NULL, print_help, PRINTS },
    [LS_COMMAND_VERSION] = { NULL, print_version, PRINTS },
};

static ls_status print_once(ls_status (*print)(void), int rank) {
    if (rank != 0) return LS_SUCCESS;
    ls_status status = print();
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

static int trains(const ls_args *args) {
    return args->command == LS_COMMAND_TRAIN && !args->dry_run && !args->print_config;
}

static int keeps_on(const ls_args *args) {
    return commands[args->command].keeps_on && (args->command != LS_COMMAND_TRAIN || trains(args));
}

int main(int argc, char **argv) {
    ls_streams_fill();
    ls_args args;
    ls_status parsed = ls_args_parse(argc, argv, &args);
    if (!ls_failed(parsed)) ls_streams_fail_quietly(keeps_on(&args));
    // From here on, heeded from the first update on: a launcher's signal may meet ranks that have only just started.
    if (!ls_failed(parsed) && trains(&args)) parsed = ls_signals_listen();
    ls_comm *comm = NULL;
    ls_status status = ls_comm_start(&argc, &argv, ls_failed(parsed) ? NULL : args.joint, &comm);
    if (ls_failed(status)) {
        ls_log_status(ls_failed(parsed) ? parsed : status);
        ls_args_free(&args);
        return ls_failed(parsed) ? (int)parsed.code : (int)status.code;
    }
    const ls_comm_info *self = ls_comm_get_info(comm);
    ls_log_setup(self->rank, self->world_size, args.quiet ? LS_LOG_ALERT : LS_LOG_INFO);

    status = ls_command_agree(comm, parsed);
    ls_comm_set_timeout(comm, 0); // of the start; a command's own comes with its configuration
    if (!ls_failed(status)) {
        if (commands[args.command].run) {
            status = commands[args.command].run(&args, comm);
        } else {
            status = ls_command_agree(comm, print_once(commands[args.command].print, self->rank));
        }
    }
    ls_comm_finish(comm);
    ls_args_free(&args);
    return status.code;
}
