// main.c - reads the command line, starts the communicator, calls a command, ends all ranks with its exit code.

#include <stdio.h>
#include "base/log.h"
#include "base/stop.h"
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
    printf("lockstep %s\ncompiler   %s\nlibraries  %s\n", ls_version(), ls_version_compiler(), ls_version_libraries());
    return LS_SUCCESS;
}

// A command either works on all ranks, or only prints something on rank 0.
static const struct {
    ls_status (*run)(const ls_args *args, ls_comm *comm);
    ls_status (*print)(void);
} commands[] = {
    [LS_COMMAND_TRAIN] = { ls_cmd_train, NULL },
    [LS_COMMAND_BENCH] = { ls_cmd_bench, NULL },
    [LS_COMMAND_EVAL] = { ls_cmd_eval, NULL },
    [LS_COMMAND_PREDICT] = { ls_cmd_predict, NULL },
    [LS_COMMAND_EXPORT] = { ls_cmd_export, NULL },
    [LS_COMMAND_REPLAY] = { ls_cmd_replay, NULL },
    [LS_COMMAND_CKPT] = { ls_cmd_ckpt, NULL },
    [LS_COMMAND_VERIFY_RESUME] = { ls_cmd_verify_resume, NULL },
    [LS_COMMAND_DEVICES] = { ls_cmd_devices, NULL },
    [LS_COMMAND_LIST] = { NULL, print_list },
    [LS_COMMAND_HELP] = { NULL, print_help },
    [LS_COMMAND_VERSION] = { NULL, print_version },
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

int main(int argc, char **argv) {
    ls_args args;
    ls_status parsed = ls_args_parse(argc, argv, &args);
    // From here on, acted on from the first update on: a launcher's signal may meet ranks that have only just started.
    if (!ls_failed(parsed) && trains(&args)) parsed = ls_stop_listen();
    ls_comm *comm = NULL;
    ls_status status = ls_comm_start(&argc, &argv, &comm);
    if (ls_failed(status)) {
        ls_log_status(ls_failed(parsed) ? parsed : status);
        ls_args_free(&args);
        return ls_failed(parsed) ? (int)parsed.code : (int)status.code;
    }
    const ls_comm_facts *about = ls_comm_about(comm);
    ls_log_setup(about->rank, about->world_size, args.quiet ? LS_LOG_ERROR : LS_LOG_INFO);

    status = ls_command_agree(comm, parsed);
    ls_comm_set_timeout(comm, 0); // of the start; a command's own comes with its configuration
    if (!ls_failed(status)) {
        if (commands[args.command].run) {
            status = commands[args.command].run(&args, comm);
        } else {
            status = ls_command_agree(comm, print_once(commands[args.command].print, about->rank));
        }
    }
    ls_comm_finish(comm);
    ls_args_free(&args);
    return status.code;
}
