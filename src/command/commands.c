#include "command/commands.h"

#include <errno.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "formats/weights.h"
#include "formats/weights_fit.h"

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
    // ferror: an earlier flush, when the buffer was full, may have failed.
    if (fflush(file) == 0 && !ferror(file)) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "standard output: cannot be written: %s", strerror(errno ? errno : EIO));
}

ls_status ls_command_configure(const ls_args *args, ls_comm *comm, ls_config *cfg) {
    ls_config_defaults(cfg);
    if (args->config) LS_TRY(ls_config_read_file(cfg, args->config));
    for (int i = 0; i < args->set_count; i++) LS_TRY(ls_config_set(cfg, args->sets[i]));
    if (args->resume) cfg->run_resume = LS_RESUME_MUST;
    LS_TRY(args->weights && !args->config ? ls_config_check_without_data(cfg) : ls_config_check(cfg));
    ls_comm_set_timeout(comm, cfg->dist_timeout);
    ls_comm_set_hierarchy(comm, cfg->dist_hierarchy);
    return LS_SUCCESS;
}

// Warns about options of --set that predict, export and eval on a folder do not read. With --config they read all of
// [data] and [model]; without it the weights file says which data and network the weights belong to.
static void mention_unread(const ls_args *args, const ls_config *cfg) {
    static const char *const read[] = { "device.", "dist.", "log.", "eval.tta", "data.workers", "data.prefetch",
        "data.decoder", "data.broken", "data.mean", "data.std", "data.resize", "data.image_size", "model.override" };
    char list[LS_STATUS_TEXT_BYTES / 2] = "", value[LS_TEXT_BYTES];
    ls_text_room room = { list, sizeof list };
    const char *name;
    for (int i = 0; ls_config_value(cfg, i, &name, value, sizeof value); i++) {
        size_t k = 0;
        if (args->config && (strncmp(name, "data.", 5) == 0 || strncmp(name, "model.", 6) == 0)) continue;
        while (k < sizeof read / sizeof *read && strncmp(name, read[k], strlen(read[k])) != 0) k++;
        if (cfg->line[i] < 0 && k == sizeof read / sizeof *read) ls_text_put(&room, "%s%s", list[0] ? ", " : "", name);
    }
    if (list[0]) ls_warn("no effect %s%s", list, args->config ? "" : ": the weights say what they are for");
}

// Compares `info`, read from the file `path`, with the configuration, and sets info's values to those that are used.
static ls_status fit_to_config(const ls_args *args, const char *path, ls_config *cfg, ls_weights_info *info) {
    ls_weights_info *here = NULL;
    ls_weights_fit *fit = NULL;
    mention_unread(args, cfg);
    if (args->config) {
        ls_weights_adopt(info, cfg);
        LS_TRY(ls_weights_info_configured(cfg, &here));
    } else {
        LS_TRY(ls_weights_info_check(path, info));
        LS_TRY(ls_weights_info_by_hand(cfg, &here));
        if (here->input.h) here->input.c = info->input.c;
    }
    const ls_weights_fit_options options = { .path = path,
        .file = info,
        .here = here,
        .graph = here->graph ? here->graph : info->graph,
        .cfg = cfg,
        .use = LS_WEIGHTS_PREDICT };
    ls_status status = ls_weights_fit_new(&options, &fit);
    if (!ls_failed(status) && fit->note[0]) ls_alert("%s", fit->note);
    if (!ls_failed(status) && fit->class_note[0]) ls_alert("%s", fit->class_note);
    LS_THEN(status, ls_weights_complete(cfg, info, here));
    ls_weights_fit_free(fit);
    ls_weights_info_free(here);
    return status;
}

ls_status ls_command_weights(const ls_args *args, ls_config *cfg, ls_safetensors **file, ls_weights_info **info) {
    char path[2 * LS_TEXT_BYTES];
    LS_TRY(ls_weights_locate(args->weights, path, sizeof path));
    LS_TRY(ls_safetensors_read(path, file));
    ls_status status = ls_weights_info_read(path, *file, info);
    if (!ls_failed(status)) {
        status = fit_to_config(args, path, cfg, *info);
        if (ls_failed(status)) ls_weights_info_free(*info);
    }
    if (ls_failed(status)) ls_safetensors_free(*file);
    return status;
}

// Rank 0: reads the weights file and fills in the options of cfg that are left open.
static ls_status adopt(const ls_args *args, ls_config *cfg) {
    char named[2 * LS_TEXT_BYTES], path[2 * LS_TEXT_BYTES];
    ls_safetensors *file;
    ls_weights_info *info;
    if (args->weights)
        snprintf(named, sizeof named, "%s", args->weights);
    else
        LS_TRY(ls_config_path(cfg, LS_OPTION_model_init, named, sizeof named));
    LS_TRY(ls_weights_locate(named, path, sizeof path));
    LS_TRY(ls_safetensors_read(path, &file));
    ls_status status = ls_weights_info_read(path, file, &info);
    if (!ls_failed(status)) ls_weights_adopt(info, cfg);
    if (!ls_failed(status)) ls_weights_info_free(info);
    ls_safetensors_free(file);
    return status;
}

ls_status ls_command_adopt(const ls_args *args, ls_comm *comm, ls_config *cfg) {
    const int reads = ls_comm_get_info(comm)->rank == 0;
    LS_TRY(ls_comm_agree(comm, reads ? adopt(args, cfg) : LS_SUCCESS, NULL));
    LS_TRY(ls_comm_broadcast(comm, cfg->data_image_size, sizeof cfg->data_image_size, 0));
    LS_TRY(ls_comm_broadcast(comm, &cfg->data_channels, sizeof cfg->data_channels, 0));
    LS_TRY(ls_comm_broadcast(comm, cfg->data_shape, sizeof cfg->data_shape, 0));
    LS_TRY(ls_comm_broadcast(comm, cfg->data_mean, sizeof cfg->data_mean, 0));
    LS_TRY(ls_comm_broadcast(comm, cfg->data_std, sizeof cfg->data_std, 0));
    LS_TRY(ls_comm_broadcast(comm, &cfg->data_resize, sizeof cfg->data_resize, 0));
    return ls_comm_broadcast(comm, &cfg->data_decoder, sizeof cfg->data_decoder, 0);
}

ls_status ls_command_check_output(
    const ls_config *cfg, const char *option, const char *path, const char *kind, const char *pattern) {
    static const int named[] = { LS_OPTION_model_file, LS_OPTION_model_init, LS_OPTION_distill_weights };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        char file[LS_TEXT_BYTES];
        struct stat info;
        LS_TRY(ls_config_path(cfg, named[i], file, sizeof file));
        if (stat(file, &info) == 0 && S_ISREG(info.st_mode)) ls_note_read(&info);
    }
    return ls_check_output(option, path, kind, pattern);
}
