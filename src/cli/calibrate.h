// calibrate.h - quantises a network on training pictures, for `train export --int8` and `train eval --int8`. Both read
// the same pictures, so both make the same integers.
#ifndef LS_CLI_CALIBRATE_H
#define LS_CLI_CALIBRATE_H

#include "command/args.h"
#include "config/config.h"
#include "deploy/network.h"

// Copies args to *own. If WEIGHTS is a run's folder and no configuration was given, own->config is the run's
// config.ini. config: room for the path. LS_USAGE: there is no configuration, so that nothing says which pictures to
// calibrate on.
LS_CHECKED ls_status ls_calibrate_find_config(const ls_args *args, ls_args *own, char *config, size_t bytes);
// Lowers the network for int8 and quantises it on args->calibrate training pictures of cfg's data, evenly spread over
// the set. Prints the chosen rule and the losses, and warns of layers with constant channels or many clipped values.
LS_CHECKED ls_status ls_calibrate(const ls_args *args, const ls_config *cfg, const ls_weights_info *info,
    const ls_safetensors *file, ls_network **out);

#endif
