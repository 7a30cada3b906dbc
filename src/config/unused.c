// Options that were set and that nothing heeds, as another option chooses something else. What would be wrong, and not
// only without effect, check.c refuses.
#include <string.h>

#include "base/text.h"
#include "config/config.h"
#include "config/options.h"

// A file that names every option is a run's own record of them, which wants nothing by what it names.
static int is_record(const ls_config *cfg) {
    for (int i = 0; i < LS_OPTION_COUNT; i++)
        if (cfg->line[i] == 0) return 0;
    return 1;
}

char *ls_config_unused(const ls_config *cfg, char *dst, size_t bytes) {
    const int schedule = cfg->schedule_kind, one_cycle = schedule == LS_SCHEDULE_ONE_CYCLE;
    const int sgd = cfg->optimizer_kind == LS_OPTIMIZER_SGD, fp16 = cfg->train_precision == LS_PRECISION_FP16;
    const int synthetic = cfg->data_dataset == LS_DATASET_SYNTHETIC, folder = cfg->data_dataset == LS_DATASET_FOLDER;
    const int type = cfg->device_type, cpu = type == LS_DEVICE_TYPE_AUTO || type == LS_DEVICE_TYPE_CPU;
    const int cuda = type == LS_DEVICE_TYPE_AUTO || type == LS_DEVICE_TYPE_CUDA;
    const struct {
        int option, heeded;
        const char *by;
    } rows[] = {
        { LS_OPTION_optimizer_momentum, sgd, "optimizer.kind = sgd" },
        { LS_OPTION_optimizer_beta1, !sgd, "optimizer.kind = adamw" },
        { LS_OPTION_optimizer_beta2, !sgd, "optimizer.kind = adamw" },
        { LS_OPTION_optimizer_eps, !sgd, "optimizer.kind = adamw" },
        { LS_OPTION_optimizer_decay_biases_and_norms, cfg->optimizer_weight_decay > 0, "optimizer.weight_decay > 0" },
        { LS_OPTION_schedule_warmup_start, one_cycle || cfg->schedule_warmup_epochs > 0,
            "schedule.warmup_epochs > 0 or schedule.kind = one-cycle" },
        { LS_OPTION_schedule_final, one_cycle || schedule == LS_SCHEDULE_LINEAR || schedule == LS_SCHEDULE_COSINE,
            "schedule.kind = linear, cosine or one-cycle" },
        { LS_OPTION_schedule_gamma, schedule == LS_SCHEDULE_STEP, "schedule.kind = step" },
        { LS_OPTION_schedule_peak, one_cycle, "schedule.kind = one-cycle" },
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
        { LS_OPTION_data_image_size, folder, "data.dataset = folder" },
        { LS_OPTION_data_test_fraction, folder, "data.dataset = folder" },
        { LS_OPTION_data_pad_mode, cfg->data_pad > 0, "data.pad > 0" },
        { LS_OPTION_device_winograd, cpu, "device.type = cpu" },
        { LS_OPTION_device_tf32, cuda, "device.type = cuda" },
        { LS_OPTION_device_graphs, cuda, "device.type = cuda" },
        { LS_OPTION_device_share, cuda, "device.type = cuda" },
        { LS_OPTION_device_affinity, cuda, "device.type = cuda" },
        { LS_OPTION_device_autotune, !cfg->run_deterministic, "run.deterministic = false" },
        { LS_OPTION_log_every_seconds, cfg->log_progress == LS_PROGRESS_AUTO || cfg->log_progress == LS_PROGRESS_LINES,
            "log.progress = lines" },
    };
    const int record = is_record(cfg);
    const char *by = NULL; // of what stands at the end
    ls_text_room room = { dst, bytes };
    dst[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int line = cfg->line[rows[i].option];
        if (rows[i].heeded || line == 0 || (record && line > 0)) continue;
        const int same = by && strcmp(by, rows[i].by) == 0;
        if (by && !same) ls_text_put(&room, " (only with %s); ", by);
        ls_text_put(&room, "%s%s", same ? ", " : "", ls_option_at(rows[i].option)->name);
        by = rows[i].by;
    }
    if (by) ls_text_put(&room, " (only with %s)", by);
    return dst;
}
