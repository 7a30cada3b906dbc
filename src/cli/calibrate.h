// calibrate.h - quantises a network, for `train export --int8` and `train eval --int8`. With the same options both read
// the same training pictures, so both make the same integers.
#ifndef LS_CLI_CALIBRATE_H
#define LS_CLI_CALIBRATE_H

#include "command/args.h"
#include "config/config.h"
#include "deploy/network.h"

// Copies args to *own. If no configuration was given and args->weights is a folder with a config.ini, own->config
// becomes the path of that file, which is written into `config`.
LS_CHECKED ls_status ls_calibrate_find_config(const ls_args *args, ls_args *own, char *config, size_t bytes);
// Lowers the network for int8 and quantises it: with the scales that its weights were trained with (train.quantise), or
// on args->calibrate training pictures of cfg's data. LS_USAGE, for example: no configuration says which
// pictures to calibrate on, or pictures have several labels. The caller frees *out with ls_network_free.
LS_CHECKED ls_status ls_calibrate(const ls_args *args, const ls_config *cfg, const ls_weights_info *info,
    const ls_safetensors *file, ls_network **out);

#endif
