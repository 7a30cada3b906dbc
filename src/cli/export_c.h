// export_c.h - the C file of `train export WEIGHTS OUT.c`.
#ifndef LS_CLI_EXPORT_C_H
#define LS_CLI_EXPORT_C_H

#include "command/args.h"
#include "config/config.h"
#include "formats/weights_metadata.h"

// Writes the file that args->output names, and prints the report that --report asks for. LS_USAGE: the name is no C
// identifier; a layer or a size has no form in C (deploy/network.h). LS_STORAGE: the file cannot be written.
LS_CHECKED ls_status ls_export_c(
    const ls_args *args, const ls_config *cfg, const ls_weights_info *info, const ls_safetensors *file);

#endif
