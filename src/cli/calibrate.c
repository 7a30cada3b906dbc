#include "cli/calibrate.h"

#include <sys/stat.h>
#include "base/files.h"
#include "base/log.h"
#include "deploy/calibrate.h"
#include "deploy/quantise.h"

ls_status ls_calibrate_find_config(const ls_args *args, ls_args *own, char *config, size_t bytes) {
    struct stat info;
    *own = *args;
    if (args->config) return LS_SUCCESS;
    if (stat(args->weights, &info) == 0 && S_ISDIR(info.st_mode)) {
        LS_TRY(ls_path_join(config, bytes, args->weights, "config.ini"));
        own->config = config;
        if (!ls_path_exists(config)) own->config = NULL;
    }
    return LS_SUCCESS;
}

static ls_status quantise(const ls_args *args, const ls_config *cfg, ls_network *network) {
    ls_dataset *set = NULL;
    if (ls_graph_is_quantised(network->info->graph)) {
        if (args->calibrate != LS_CALIBRATE_PICTURES)
            ls_warn("--calibrate %d has no effect: the weights have the ranges with which they were trained",
                args->calibrate);
        return ls_integers_make(network, &(ls_quantised){ 0 });
    }
    if (!args->config)
        return ls_fail(LS_USAGE,
            "%s: --int8 needs training pictures, which these weights do not name: name the folder of a run, or its "
            "configuration by --config CONFIG.ini",
            args->weights);
    LS_TRY(ls_dataset_open(cfg, LS_SPLIT_TRAIN, &set));
    const ls_status status = ls_calibrate_network(network, set, args->calibrate);
    ls_dataset_free(set);
    return status;
}

ls_status ls_calibrate(const ls_args *args, const ls_config *cfg, const ls_weights_info *info,
    const ls_safetensors *file, ls_network **out) {
    ls_network *network;
    if (info->several || ls_config_several_labels(cfg))
        return ls_fail(LS_USAGE,
            "--int8: the ranges are chosen by the loss of one class a picture, and these pictures have several labels "
            "(data.labels); leave out --int8");
    LS_TRY(ls_network_new(info, file, 1, &network));
    const ls_status status = quantise(args, cfg, network);
    return LS_GIVE_OR_FREE(status, network, out, ls_network_free);
}
