// cmd_report.c - `train report RUN... [-o report.html]`: writes one page that shows runs and benchmarks.

#include "base/files.h"
#include "base/log.h"
#include "command/commands.h"
#include "tools/report/page.h"
#include "tools/report/collect.h"

static const char default_output[] = "report.html"; // in the current folder

static ls_status write(const ls_collected_folders *folders, const char *output) {
    cJSON *data = ls_page_data();
    ls_status status = ls_collect_data(folders, data);
    LS_THEN(status, ls_page_write(output, data));
    const int runs = cJSON_GetArraySize(ls_json_get(data, "runs"));
    const int benches = cJSON_GetArraySize(ls_json_get(data, "benches"));
    cJSON_Delete(data);
    LS_TRY(status);
    ls_info(
        "report    %s: %d run%s, %d benchmark%s", output, runs, runs == 1 ? "" : "s", benches, benches == 1 ? "" : "s");
    return LS_SUCCESS;
}

static ls_status report(const ls_args *args) {
    const char *output = args->output ? args->output : default_output;
    LS_TRY(ls_check_output("--out", output, "page of this program", LS_PAGE_PATTERN));
    ls_collected_folders folders;
    ls_status status = ls_collect_find(args->files, args->file_count, &folders);
    LS_THEN(status, write(&folders, output));
    ls_collect_free(&folders);
    return status;
}

ls_status ls_cmd_report(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? report(args) : LS_SUCCESS);
}
