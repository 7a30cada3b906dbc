// Finds options that were set but have no effect, because another option selects something else. check.c refuses
// combinations that would be wrong, not only without effect.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/config.h"
#include "config/options.h"

// Whether the file and --set set every option. Then the file is a run's own record of its options, so it does not show
// which options the user asked for.
static int is_record(const ls_config *cfg) {
    for (int i = 0; i < LS_OPTION_COUNT; i++)
        if (cfg->line[i] == 0) return 0;
    return 1;
}

enum { READERS_BYTES = 128 };

static const char gpu_types[] = ""
#define PLUGIN(NAME, name, vendor, needs) ", " #name
#include "config/plugins.def"
    ; // the GPU plugins: ", cuda"

int ls_config_asks_for(const ls_config *cfg, int option) {
    const int line = cfg->line[option];
    return line < 0 || (line > 0 && !is_record(cfg));
}

typedef struct {
    const ls_config *cfg;
    char by[READERS_BYTES]; // condition under which the option added last has an effect; "": no option was added
    ls_text_room room;
} list;

static void add(list *l, int option, const char *by) {
    if (!ls_config_asks_for(l->cfg, option)) return;
    const int same = strcmp(l->by, by) == 0;
    if (l->by[0] && !same) ls_text_put(&l->room, " (only with %s); ", l->by);
    ls_text_put(&l->room, "%s%s", same ? ", " : "", ls_option_at(option)->name);
    snprintf(l->by, sizeof l->by, "%s", by);
}

char *ls_config_unused(const ls_config *cfg, char *dst, size_t bytes) {
    const int schedule = cfg->schedule_kind, one_cycle = schedule == LS_SCHEDULE_ONE_CYCLE;
    const int falls = schedule == LS_SCHEDULE_LINEAR || schedule == LS_SCHEDULE_COSINE ||
                      schedule == LS_SCHEDULE_EXPONENTIAL ||
                      schedule == LS_SCHEDULE_COSINE_RESTARTS; // schedules that go from 1 to final
    const int renormalises = ls_config_has_effect(cfg, LS_OPTION_optimizer_renormalise_growth);
    const int teacher = cfg->distill_weights[0] != 0;
    const int fp16 = cfg->train_precision == LS_PRECISION_FP16;
    const int synthetic = cfg->data_dataset == LS_DATASET_SYNTHETIC, folder = cfg->data_dataset == LS_DATASET_FOLDER;
    const int idx = cfg->data_dataset == LS_DATASET_MNIST || cfg->data_dataset == LS_DATASET_FASHION_MNIST;
    const int type = cfg->device_type, cpu = type == LS_DEVICE_TYPE_AUTO || type == LS_DEVICE_TYPE_CPU;
    const int gpu = type != LS_DEVICE_TYPE_CPU && type != LS_DEVICE_TYPE_REF;
    const ls_augmentation augmentation = ls_config_augmentation(cfg), *a = &augmentation;
    char on_gpu[READERS_BYTES];
    snprintf(on_gpu, sizeof on_gpu, "device.type = %s", gpu_types + strlen(", "));
    const struct {
        int option, heeded;
        const char *by;
    } rows[] = {
        { LS_OPTION_optimizer_decay_biases_and_norms, cfg->optimizer_weight_decay > 0, "optimizer.weight_decay > 0" },
        { LS_OPTION_schedule_warmup_start, one_cycle || cfg->schedule_warmup_epochs > 0,
            "schedule.warmup_epochs > 0 or schedule.kind = one-cycle" },
        { LS_OPTION_schedule_floor, cfg->schedule_floor == 0 || cfg->schedule_floor > cfg->schedule_final || !falls,
            "schedule.floor > schedule.final" },
        { LS_OPTION_optimizer_renormalise_growth,
            cfg->optimizer_renormalise_growth == 0 || cfg->optimizer_renormalise_every > 0 || !renormalises,
            "optimizer.renormalise_every > 0" },
        { LS_OPTION_run_cross_check_action, cfg->run_cross_check > 0, "run.cross_check > 0" },
        { LS_OPTION_average_decay, cfg->average_kind != LS_AVERAGE_OFF, "average.kind = ema or lookahead" },
        { LS_OPTION_average_decay_power, cfg->average_kind != LS_AVERAGE_OFF, "average.kind = ema or lookahead" },
        { LS_OPTION_average_every, cfg->average_kind != LS_AVERAGE_OFF, "average.kind = ema or lookahead" },
        { LS_OPTION_average_start, cfg->average_kind != LS_AVERAGE_OFF, "average.kind = ema or lookahead" },
        { LS_OPTION_loss_scale_initial, fp16, "train.precision = fp16" },
        { LS_OPTION_loss_scale_growth, fp16, "train.precision = fp16" },
        { LS_OPTION_loss_scale_backoff, fp16, "train.precision = fp16" },
        { LS_OPTION_loss_scale_growth_interval, fp16, "train.precision = fp16" },
        { LS_OPTION_loss_scale_minimum, fp16, "train.precision = fp16" },
        { LS_OPTION_loss_scale_maximum, fp16, "train.precision = fp16" },
        { LS_OPTION_loss_scale_max_skips, fp16, "train.precision = fp16" },
        { LS_OPTION_data_path, !synthetic, "a data.dataset of files" },
        { LS_OPTION_data_shape, synthetic, "data.dataset = synthetic" },
        { LS_OPTION_data_classes, synthetic, "data.dataset = synthetic" },
        { LS_OPTION_data_labels, folder, "data.dataset = folder" },
        { LS_OPTION_data_image_size, folder, "data.dataset = folder" },
        { LS_OPTION_data_channels, folder, "data.dataset = folder" },
        { LS_OPTION_data_resize, folder, "data.dataset = folder" },
        { LS_OPTION_data_decoder, folder, "data.dataset = folder" },
        { LS_OPTION_data_cache, folder || idx, "data.dataset = folder, mnist, fashion-mnist" },
        { LS_OPTION_data_test_fraction, folder, "data.dataset = folder" },
        { LS_OPTION_data_balance, cfg->data_balance == LS_BALANCE_OFF || cfg->data_shuffle, "data.shuffle = true" },
#define READ(key, condition, by) { LS_OPTION_data_##key, condition, by },
#include "config/augmentations.def"
        { LS_OPTION_model_init_rules, cfg->model_init[0] != 0, "model.init" },
        { LS_OPTION_model_override, cfg->model_init[0] != 0, "model.init" },
        { LS_OPTION_distill_weights, !teacher || cfg->distill_share > 0, "distill.share > 0" },
        { LS_OPTION_distill_temperature, teacher, "distill.weights" },
        { LS_OPTION_distill_share, teacher, "distill.weights" },
        { LS_OPTION_train_label_smoothing, !teacher || cfg->distill_share < 1, "distill.share < 1" },
        { LS_OPTION_device_winograd, cpu, "device.type = cpu" },
        { LS_OPTION_device_tf32, gpu, on_gpu },
        { LS_OPTION_device_graphs, gpu, on_gpu },
        { LS_OPTION_device_share, gpu, on_gpu },
        { LS_OPTION_device_affinity, gpu, on_gpu },
        { LS_OPTION_device_autotune, gpu, on_gpu },
        { LS_OPTION_device_workspace, gpu, on_gpu },
        { LS_OPTION_device_autotune, !gpu || !cfg->run_deterministic, "run.deterministic = false" },
        { LS_OPTION_eval_tta_share, cfg->eval_tta != LS_TTA_OFF, "eval.tta = flip, flip-shift" },
        { LS_OPTION_log_every_seconds, cfg->log_progress == LS_PROGRESS_AUTO || cfg->log_progress == LS_PROGRESS_LINES,
            "log.progress = lines" },
    };
    list l = { .cfg = cfg, .room = { dst, bytes } };
    dst[0] = '\0';
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        char readers[READERS_BYTES / 2], by[READERS_BYTES];
        if (ls_config_has_effect(cfg, i)) continue;
        const char *name = ls_option_at(i)->name;
        snprintf(by, sizeof by, "%.*s.kind = %s", (int)strcspn(name, "."), name,
            ls_option_readers(i, readers, sizeof readers));
        add(&l, i, by);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!rows[i].heeded) add(&l, rows[i].option, rows[i].by);
    if (l.by[0]) ls_text_put(&l.room, " (only with %s)", l.by);
    return dst;
}
