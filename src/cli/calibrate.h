// calibrate.h - quantises a network on training pictures, for `train export --int8` and `train eval --int8`. Both read
// the same pictures, so both make the same integers.
#ifndef LS_CLI_CALIBRATE_H
#define LS_CLI_CALIBRATE_H

#include "command/args.h"
#include "config/config.h"
#include "deploy/network.h"

// Names the run's config.ini as own->config if WEIGHTS is a run's folder and no configuration was given. config: room
// for the path.
LS_CHECKED ls_status ls_calibrate_find_config(const ls_args *args, ls_args *own, char *config, size_t bytes);
// Lowers the network for int8 and quantises it: with the scales that its weights were trained with (train.quantise), or
// on args->calibrate training pictures of cfg's data. LS_USAGE: no configuration says which pictures to calibrate on.
LS_CHECKED ls_status ls_calibrate(const ls_args *args, const ls_config *cfg, const ls_weights_info *info,
    const ls_safetensors *file, ls_network **out);

#endif
