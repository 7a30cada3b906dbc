#include "cli/export_c.h"

#include <stdio.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/calibrate.h"
#include "command/commands.h"
#include "deploy/execute.h"
#include "deploy/report.h"
#include "deploy/write_c.h"
#include "train/predict.h"

// The picture of --test, and its logits.
typedef struct {
    uint8_t *pixels;
    float *logits;
} test_picture;

static ls_status set_numbers(ls_config *cfg, const char *key, const float *numbers, int count) {
    char text[LS_TEXT_BYTES];
    ls_text_room room = { text, sizeof text };
    ls_text_put(&room, "%s=", key);
    for (int i = 0; i < count; i++) ls_text_put(&room, "%s%.9g", i ? "," : "", (double)numbers[i]);
    return ls_config_set(cfg, text);
}

// Opens a set of one synthetic picture of the network's shape, with the normalisation of the weights.
static ls_status open_picture(const ls_config *cfg, const ls_weights_info *info, ls_dataset **out) {
    ls_config own = *cfg;
    char shape[64], classes[64];
    const ls_chw in = info->graph->input;
    snprintf(shape, sizeof shape, "data.shape=%dx%dx%d", in.c, in.h, in.w);
    snprintf(classes, sizeof classes, "data.classes=%d", info->graph->classes < 2 ? 2 : info->graph->classes);
    LS_TRY(ls_config_set(&own, "data.dataset=synthetic"));
    LS_TRY(ls_config_set(&own, "data.test_samples=1"));
    LS_TRY(ls_config_set(&own, shape));
    LS_TRY(ls_config_set(&own, classes));
    LS_TRY(set_numbers(&own, "data.mean", info->mean, in.c));
    LS_TRY(set_numbers(&own, "data.std", info->std, in.c));
    return ls_dataset_open(&own, LS_SPLIT_TEST, out);
}

// Computes the picture's logits as `train predict` does, on the CPU, by convolutions without Winograd.
static ls_status predict(
    const ls_config *cfg, const ls_weights_info *info, const ls_safetensors *file, ls_dataset *picture, float *logits) {
    ls_config own = *cfg;
    ls_predictor *predictor;
    ls_prediction prediction;
    LS_TRY(ls_config_set(&own, "device.type=cpu"));
    LS_TRY(ls_config_set(&own, "device.winograd=off"));
    LS_TRY(ls_config_set(&own, "eval.tta=off"));
    const ls_predictor_options options = { .cfg = &own, .facts = info, .file = file, .count = 1, .pictures = picture };
    LS_TRY(ls_predictor_new(&options, &predictor));
    ls_status status = ls_predictor_next(predictor, &prediction);
    if (!ls_failed(status)) memcpy(logits, prediction.logits, (size_t)info->graph->classes * sizeof *logits);
    ls_predictor_free(predictor);
    return status;
}

// Computes the picture's logits in integers, as `train eval --int8` does.
static ls_status execute_int8(const ls_network *network, const test_picture *test) {
    int8_t *slab;
    LS_TRY(ls_try_new(&slab, network->slab_elements, sizeof *slab, "buffers of --test"));
    ls_execute_int8(network, test->pixels, slab, test->logits);
    free(slab);
    return LS_SUCCESS;
}

static ls_status make_test(
    const ls_config *cfg, const ls_network *network, const ls_safetensors *file, test_picture *test) {
    const ls_weights_info *info = network->info;
    ls_dataset *picture;
    int32_t label;
    LS_TRY(open_picture(cfg, info, &picture));
    test->pixels = ls_new(ls_chw_count(info->graph->input), sizeof *test->pixels, "picture of --test");
    test->logits = ls_new(info->graph->classes, sizeof *test->logits, "logits of --test");
    ls_status status = ls_dataset_read(picture, 0, test->pixels, &label);
    LS_THEN(status, network->integer ? execute_int8(network, test) : predict(cfg, info, file, picture, test->logits));
    ls_dataset_free(picture);
    return status;
}

static ls_status write_network(
    const ls_args *args, const ls_network *network, const char *name, const test_picture *test) {
    const ls_write_c_test embedded = { .pixels = test->pixels, .logits = test->logits };
    LS_TRY(ls_write_c(args->output, name, network, &embedded));
    ls_info("%s: C99; int %s_predict(const uint8_t *pixels, float *logits); %lld multiplications, %lld bytes of "
            "constants, %lld bytes of buffers",
        args->output, name, (long long)ls_network_multiplications(network),
        (long long)ls_network_constant_bytes(network), (long long)ls_network_slab_bytes(network));
    if (!args->report) return LS_SUCCESS;
    ls_deploy_report(network, stdout);
    return ls_command_flush(stdout);
}

ls_status ls_export_c(
    const ls_args *args, const ls_config *cfg, const ls_weights_info *info, const ls_safetensors *file) {
    char name[LS_WRITE_C_NAME_BYTES];
    ls_network *network = NULL;
    test_picture test = { 0 };
    LS_TRY(ls_write_c_name(args->name, args->output, name));
    ls_status status =
        args->int8 ? ls_calibrate(args, cfg, info, file, &network) : ls_network_new(info, file, 0, &network);
    if (args->test) LS_THEN(status, make_test(cfg, network, file, &test));
    LS_THEN(status, write_network(args, network, name, &test));
    ls_network_free(network);
    free(test.pixels);
    free(test.logits);
    return status;
}
