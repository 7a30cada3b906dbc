#include "cli/calibrate.h"

#include <sys/stat.h>
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "deploy/quantise.h"

static const double clipped_most = 0.01; // share of clipped values above which a layer is named

ls_status ls_calibrate_find_config(const ls_args *args, ls_args *own, char *config, size_t bytes) {
    struct stat info;
    *own = *args;
    if (args->config) return LS_SUCCESS;
    if (stat(args->weights, &info) == 0 && S_ISDIR(info.st_mode)) {
        LS_TRY(ls_path_join(config, bytes, args->weights, "config.ini"));
        own->config = config;
        if (ls_path_exists(config)) return LS_SUCCESS;
    }
    return ls_fail(LS_USAGE,
        "%s: --int8 needs training pictures, which these weights do not name: name the folder of a run, or its "
        "configuration by --config CONFIG.ini",
        args->weights);
}

static ls_status read_pictures(const ls_dataset *set, uint8_t *pixels, int32_t *labels, int count) {
    const ls_dataset_info *facts = ls_dataset_get_info(set);
    const size_t bytes = (size_t)ls_chw_count(facts->shape);
    for (int i = 0; i < count; i++)
        LS_TRY(ls_dataset_read_whole(set, i * facts->count / count, pixels + (size_t)i * bytes, &labels[i]));
    return LS_SUCCESS;
}

static ls_status check_pictures(const ls_dataset_info *facts, const ls_chw wanted, int count) {
    const ls_chw shape = facts->shape;
    if (count < LS_QUANTISE_PICTURES_MIN)
        return ls_fail(LS_USAGE, "--int8: the training set has %d pictures; calibration needs at least %d", count,
            LS_QUANTISE_PICTURES_MIN);
    if (ls_chw_equal(shape, wanted)) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "--int8: the training pictures are %dx%dx%d, but the network takes %dx%dx%d", shape.c,
        shape.h, shape.w, wanted.c, wanted.h, wanted.w);
}

static void tell(const ls_quantised *q, int count) {
    ls_info("int8: calibrated on %d training pictures, of which a quarter is held out; range: %s; loss there %.4f, in "
            "floats %.4f",
        count, q->rule, q->loss, q->float_loss);
    if (q->constant_layer)
        ls_warn("int8: %d output channels have weights that are all 0 ('%s'): they are constant", q->constant_channels,
            q->constant_layer);
    if (q->clipped > clipped_most)
        ls_warn("int8: layer '%s' saturates: %.1f %% of its values on training pictures are clipped", q->clipped_layer,
            100 * q->clipped);
}

static ls_status quantise(const ls_args *args, const ls_dataset *set, ls_network *network) {
    const ls_dataset_info *facts = ls_dataset_get_info(set);
    const int count = facts->count < args->calibrate ? (int)facts->count : args->calibrate;
    uint8_t *pixels = NULL;
    int32_t *labels = NULL;
    ls_quantised result;
    LS_TRY(check_pictures(facts, network->info->graph->input, count));
    ls_status status = ls_try_new(&pixels, count, (size_t)ls_chw_count(facts->shape), "%d pictures", count);
    LS_THEN(status, ls_try_new(&labels, count, sizeof *labels, "%d labels", count));
    LS_THEN(status, read_pictures(set, pixels, labels, count));
    const ls_quantise_pictures pictures = { .pixels = pixels, .labels = labels, .count = count };
    LS_THEN(status, ls_quantise(network, &pictures, &result));
    if (!ls_failed(status)) tell(&result, count);
    free(pixels);
    free(labels);
    return status;
}

ls_status ls_calibrate(const ls_args *args, const ls_config *cfg, const ls_weights_info *info,
    const ls_safetensors *file, ls_network **out) {
    ls_dataset *set = NULL;
    ls_network *network;
    if (info->several || ls_config_several_labels(cfg))
        return ls_fail(LS_USAGE,
            "--int8: the ranges are chosen by the loss of one class a picture, and these pictures have several labels "
            "(data.labels); leave out --int8");
    LS_TRY(ls_network_new(info, file, 1, &network));
    ls_status status = ls_dataset_open(cfg, LS_SPLIT_TRAIN, &set);
    LS_THEN(status, quantise(args, set, network));
    ls_dataset_free(set);
    return LS_GIVE_OR_FREE(status, network, out, ls_network_free);
}
