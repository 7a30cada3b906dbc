// cmd_export.c - `train export WEIGHTS OUT.onnx`: writes the network with its weights as an ONNX model.

#include "base/log.h"
#include "command/commands.h"
#include "formats/onnx.h"

static ls_status export(const ls_args *args, ls_config *cfg) {
    ls_safetensors *file;
    ls_weights_info *info;
    LS_TRY(ls_command_weights(args, cfg, &file, &info));
    int operator_set;
    ls_status status = ls_command_check_output(cfg, "OUT.onnx", args->output);
    LS_THEN(status, ls_onnx_write(args->output, info, file, &operator_set));
    if (!ls_failed(status))
        ls_info(
            "%s: ONNX, operator set %d; input 'input': pixels from 0 to 255, (batch, %d, %d, %d); output: %d logits",
            args->output, operator_set, info->graph->input.c, info->graph->input.h, info->graph->input.w,
            info->graph->classes);
    ls_weights_info_free(info);
    ls_safetensors_free(file);
    return status;
}

ls_status ls_cmd_export(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? export(args, &cfg) : LS_SUCCESS);
}
