#include "cli/commands.h"

#include <errno.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/log.h"
#include "files/weights.h"

static _Noreturn void end_job(ls_comm *comm, ls_status status) {
    ls_comm_claim_end(comm);
    ls_log_status(status);
    ls_comm_abort(comm, status.code);
}

ls_status ls_command_agree(ls_comm *comm, ls_status mine) {
    int failed_rank = -1;
    ls_status agreed = ls_comm_agree(comm, mine, &failed_rank);
    if (ls_failed(agreed) && ls_comm_broken(comm)) end_job(comm, agreed);
    if (ls_failed(agreed) && ls_comm_get_info(comm)->rank == (failed_rank < 0 ? 0 : failed_rank)) ls_log_status(agreed);
    return agreed;
}

ls_status ls_command_agree_or_abort(ls_comm *comm, ls_status mine) {
    const ls_code code = mine.code;
    if (!ls_failed(mine) || code == LS_NUMERIC || code == LS_STORAGE || code == LS_STOPPED ||
        ls_comm_agreed(comm, mine) || ls_comm_get_info(comm)->world_size == 1)
        return ls_command_agree(comm, mine);
    end_job(comm, mine);
}

ls_status ls_command_flush(FILE *file) {
    errno = 0;
    // What was flushed on the way, when the buffer was full, may have failed as well.
    if (fflush(file) == 0 && !ferror(file)) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "standard output: cannot be written: %s", strerror(errno ? errno : EIO));
}

ls_status ls_command_configure(const ls_args *args, ls_comm *comm, ls_config *cfg) {
    ls_config_defaults(cfg);
    if (args->config) LS_TRY(ls_config_read_file(cfg, args->config));
    for (int i = 0; i < args->set_count; i++) LS_TRY(ls_config_set(cfg, args->sets[i]));
    if (args->resume) cfg->run_resume = LS_RESUME_MUST;
    LS_TRY(ls_config_check(cfg));
    ls_comm_set_timeout(comm, cfg->dist_timeout);
    ls_comm_set_hierarchy(comm, cfg->dist_hierarchy);
    return LS_SUCCESS;
}

ls_status ls_command_weights(const ls_args *args, const ls_config *cfg, ls_safetensors **file, ls_weights_info **info) {
    char path[2 * LS_TEXT_BYTES];
    LS_TRY(ls_weights_locate(args->weights, path, sizeof path));
    LS_TRY(ls_safetensors_read(path, file));
    ls_status status = args->config ? ls_weights_info_configured(cfg, info) : ls_weights_info_read(path, *file, info);
    if (ls_failed(status)) ls_safetensors_free(*file);
    return status;
}
