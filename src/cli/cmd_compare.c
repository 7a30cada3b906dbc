// cmd_compare.c - `train compare A B [--json]`: rank 0 prints the first difference between two runs, checkpoints or
// weights files.
#include <stdio.h>
#include "base/memory.h"
#include "command/commands.h"
#include "tools/compare/compare.h"

static ls_status print_report(const cJSON *report, int json) {
    char *text = json ? ls_json_text(report, 1) : NULL;
    if (json)
        puts(text);
    else
        ls_compare_print(report, stdout);
    cJSON_free(text);
    return ls_command_flush(stdout);
}

static ls_status compare(const ls_args *args) {
    ls_side *a = NULL, *b = NULL;
    cJSON *report = NULL;
    ls_status status = ls_side_read(args->files[0], &a);
    LS_THEN(status, ls_side_read(args->files[1], &b));
    LS_THEN(status, ls_compare(a, b, &report));
    LS_THEN(status, print_report(report, args->json));
    LS_THEN(status, ls_compare_outcome(report));
    cJSON_Delete(report);
    ls_side_free(a);
    ls_side_free(b);
    return status;
}

ls_status ls_cmd_compare(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? compare(args) : LS_SUCCESS);
}
