// cmd_export.c - `train export WEIGHTS OUT`: writes the network with its weights as an ONNX model, or, if OUT ends with
// .c, as one C file.

#include <string.h>
#include "base/log.h"
#include "cli/calibrate.h"
#include "cli/export_c.h"
#include "command/commands.h"
#include "deploy/write_onnx.h"
#include "formats/onnx.h"

static ls_status write_quantised(const ls_args *args, const ls_config *cfg, const ls_weights_info *info,
    const ls_safetensors *file, int *operator_set) {
    ls_network *network;
    LS_TRY(ls_calibrate(args, cfg, info, file, &network));
    const ls_status status = ls_write_onnx(args->output, network, operator_set);
    ls_network_free(network);
    return status;
}

static ls_status export_onnx(
    const ls_args *args, const ls_config *cfg, const ls_weights_info *info, const ls_safetensors *file) {
    int operator_set;
    LS_TRY(args->int8 ? write_quantised(args, cfg, info, file, &operator_set)
                      : ls_onnx_write(args->output, info, file, &operator_set));
    ls_info("%s: ONNX%s, operator set %d; input 'input': pixels from 0 to 255, (batch, %d, %d, %d); output: %d logits",
        args->output, args->int8 ? " with int8 (QDQ)" : "", operator_set, info->graph->input.c, info->graph->input.h,
        info->graph->input.w, info->graph->classes);
    return LS_SUCCESS;
}

// Refuses options that only a C file has.
static ls_status check_options(const ls_args *args) {
    const char *const given = args->name ? "--name" : args->test ? "--test" : args->report ? "--report" : NULL;
    if (!given) return LS_SUCCESS;
    return ls_fail(
        LS_USAGE, "%s: only for a C file: train export WEIGHTS OUT.c, but the output is %s", given, args->output);
}

static int is_c(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".c") == 0;
}

static ls_status export(const ls_args *args, ls_config *cfg) {
    ls_safetensors *file;
    ls_weights_info *info;
    const int c = is_c(args->output);
    if (!c) LS_TRY(check_options(args));
    LS_TRY(ls_command_weights(args, cfg, &file, &info));
    ls_status status = ls_command_check_output(cfg, "OUT", args->output, c ? "C file of this program" : "ONNX model",
        c ? "/[*] *_predict: a network *" : "\b*");
    LS_THEN(status, c ? ls_export_c(args, cfg, info, file) : export_onnx(args, cfg, info, file));
    ls_weights_info_free(info);
    ls_safetensors_free(file);
    return status;
}

ls_status ls_cmd_export(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    ls_args own = *args;
    char config[2 * LS_TEXT_BYTES];
    if (args->int8) LS_TRY(ls_command_agree(comm, ls_calibrate_find_config(args, &own, config, sizeof config)));
    LS_TRY(ls_command_agree(comm, ls_command_configure(&own, comm, &cfg)));
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? export(&own, &cfg) : LS_SUCCESS);
}
