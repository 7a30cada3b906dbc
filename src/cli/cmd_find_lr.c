// cmd_find_lr.c - `train find-lr CONFIG.ini`: suggests a learning rate after a short range test (tools/find_lr).
#include <stdio.h>
#include "command/commands.h"
#include "config/values.h"
#include "tools/find_lr/find_lr.h"

static ls_status read_range(const ls_args *args, ls_find_lr *test) {
    *test = (ls_find_lr){ .from = 1e-6, .to = 10, .planned = args->updates };
    if (args->from) LS_TRY(ls_parse_real("--from", args->from, 1e-12, 1000, &test->from));
    if (args->to) LS_TRY(ls_parse_real("--to", args->to, 1e-12, 1000, &test->to));
    if (test->to > test->from) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "--to %g: not above --from %g, the rate of the first update", test->to, test->from);
}

static ls_status print(const ls_args *args, const ls_find_lr *test) {
    if (args->json) return ls_find_lr_print_json(test, stdout);
    ls_find_lr_print(test, stdout);
    return ls_command_flush(stdout);
}

ls_status ls_cmd_find_lr(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    ls_find_lr test;
    LS_TRY(ls_command_agree(comm, read_range(args, &test)));
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    ls_status status = ls_command_agree_or_abort(comm, ls_find_lr_run(&cfg, comm, &test));
    if (!ls_failed(status)) {
        ls_find_lr_suggest(&test);
        status = ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? print(args, &test) : LS_SUCCESS);
    }
    ls_find_lr_free(&test);
    return status;
}
