// Checks that go beyond a single option's range: combinations that are impossible for any number of ranks, and texts
// with their own syntax.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/files.h"
#include "config/config.h"
#include "config/options.h"
#include "config/shipped.h"
#include "config/values.h"

enum { MAX_NUMBERS = 1024 }; // numbers in a list: more than LS_TEXT_BYTES can hold

// Fails with a message about one option. The given text follows "configs/x.ini:12: train.epochs = 5: ".
static LS_PRINTF(3, 4) ls_status refuse(const ls_config *cfg, int index, const char *format, ...) {
    char where[LS_STATUS_TEXT_BYTES / 2], text[LS_STATUS_TEXT_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ls_fail(LS_USAGE, "%s: %s", ls_config_where(cfg, index, where, sizeof where), text);
}

static ls_status parse_reals(const ls_config *cfg, int index, const char *text, double *out, int *count) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    return ls_parse_reals(ls_config_where(cfg, index, where, sizeof where), text, out, MAX_NUMBERS, count);
}

#define UNPACK(...) __VA_ARGS__
static const ls_chw dataset_shapes[] = {
#define X(NAME, word, shape, ...) { UNPACK shape },
#include "config/datasets.def"
};

ls_status ls_config_picture_shape(const ls_config *cfg, ls_chw *shape) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    ls_chw synthetic, folder = { (int)cfg->data_channels, 0, 0 };
    LS_TRY(ls_parse_chw(ls_config_where(cfg, LS_OPTION_data_shape, where, sizeof where), cfg->data_shape, &synthetic));
    ls_config_where(cfg, LS_OPTION_data_image_size, where, sizeof where);
    LS_TRY(ls_parse_hw(where, cfg->data_image_size, &folder.h, &folder.w));
    *shape = dataset_shapes[cfg->data_dataset];
    if (cfg->data_dataset == LS_DATASET_FOLDER) *shape = folder;
    if (cfg->data_dataset == LS_DATASET_SYNTHETIC) *shape = synthetic;
    return LS_SUCCESS;
}

static ls_status check_augmentation(const ls_config *cfg, ls_chw picture) {
    const ls_augmentation augmentation = ls_config_augmentation(cfg), *a = &augmentation;
#define LIMIT(key, condition, most, message) \
    if ((condition) && a->key > (most)) return refuse(cfg, LS_OPTION_data_##key, message, picture.h, picture.w, most);
#define NEED(key, condition, message) \
    if (a->key && !(condition)) return refuse(cfg, LS_OPTION_data_##key, message, picture.c);
#include "config/augmentations.def"
    return LS_SUCCESS;
}

// Checks data.mean or data.std: empty, or one number per channel, above 0 (may_be_0: or 0) and at most 1.
static ls_status check_normalisation(const ls_config *cfg, int index, const char *text, int channels, int may_be_0) {
    double number[MAX_NUMBERS];
    int count;
    LS_TRY(parse_reals(cfg, index, text, number, &count));
    if (count && count != channels)
        return refuse(cfg, index, "%d numbers; expected %d, one a channel of %s", count, channels,
            ls_config_choice("data.dataset", cfg->data_dataset));
    for (int i = 0; i < count; i++)
        if (!(number[i] > 0 || (may_be_0 && number[i] == 0)) || number[i] > 1)
            return refuse(cfg, index, "%g; expected numbers %s, for pixels are divided by 255 before%s", number[i],
                may_be_0 ? "from 0 to 1" : "above 0 and at most 1", number[i] > 1 ? "; divide it by 255, too" : "");
    return LS_SUCCESS;
}

static ls_status check_data(const ls_config *cfg) {
    ls_chw shape;
    if (!cfg->data_cache[0]) return refuse(cfg, LS_OPTION_data_cache, "expected off, auto, or a folder");
    if (cfg->data_channels == 2)
        return refuse(cfg, LS_OPTION_data_channels, "a picture has 1 channel (gray) or 3 (red, green, blue)");
    LS_TRY(ls_config_picture_shape(cfg, &shape));
    LS_TRY(check_augmentation(cfg, shape));
    if (cfg->eval_tta == LS_TTA_FLIP_SHIFT && ls_augment_side(shape) < 2)
        return refuse(cfg, LS_OPTION_eval_tta,
            "pictures of %d x %d have nothing beside the edge that a shift by a pixel could show; expected off or flip",
            shape.h, shape.w);
    LS_TRY(check_normalisation(cfg, LS_OPTION_data_mean, cfg->data_mean, shape.c, 1));
    LS_TRY(check_normalisation(cfg, LS_OPTION_data_std, cfg->data_std, shape.c, 0));
    if (cfg->data_drop_last && cfg->data_train_samples && cfg->data_train_samples < cfg->train_global_batch)
        return refuse(cfg, LS_OPTION_data_drop_last,
            "an epoch of data.train_samples = %" PRId64 " samples has no full window of train.global_batch = %" PRId64
            "; lower train.global_batch, or data.drop_last = false",
            cfg->data_train_samples, cfg->train_global_batch);
    return LS_SUCCESS;
}

static ls_status check_resolution(const ls_config *cfg) {
    char where[LS_STATUS_TEXT_BYTES / 2];
    ls_resolutions resolutions;
    ls_chw picture;
    ls_config_where(cfg, LS_OPTION_train_resolution, where, sizeof where);
    LS_TRY(ls_parse_resolutions(where, cfg->train_resolution, &resolutions));
    LS_TRY(ls_config_picture_shape(cfg, &picture));
    if (resolutions.count == 0 || (picture.h <= LS_RESOLUTION_SIDE_MAX && picture.w <= LS_RESOLUTION_SIDE_MAX))
        return LS_SUCCESS;
    return refuse(cfg, LS_OPTION_train_resolution,
        "the data's pictures of %d x %d are too large to be resized; expected sides of at most %d pixels", picture.h,
        picture.w, LS_RESOLUTION_SIDE_MAX);
}

static ls_status check_patience(const ls_config *cfg) {
    if (cfg->train_patience == 0 || cfg->train_eval_every > 0) return LS_SUCCESS;
    return refuse(cfg, LS_OPTION_train_patience,
        "it counts evaluations, and with train.eval_every = 0 there is none before the end");
}

static ls_status check_balance(const ls_config *cfg) {
    if (cfg->data_balance != LS_BALANCE_OFF && ls_config_several_labels(cfg))
        return refuse(cfg, LS_OPTION_data_balance,
            "with data.labels a picture is in several classes, which cannot all be drawn equally often; "
            "train.class_weights = balanced lets rare labels count more");
    if (cfg->data_balance == LS_BALANCE_OFF || strcmp(cfg->train_class_weights, "balanced") != 0) return LS_SUCCESS;
    return refuse(cfg, LS_OPTION_data_balance,
        "beside train.class_weights = balanced, rare classes would count more than common ones; expected one of the "
        "two");
}

static ls_status check_distill(const ls_config *cfg) {
    if (cfg->distill_weights[0] && (ls_config_several_labels(cfg) || cfg->train_focal_gamma > 0))
        return refuse(cfg, LS_OPTION_distill_weights,
            "the teacher's part of the loss is a softmax over classes; leave out %s",
            ls_config_several_labels(cfg) ? "data.labels" : "train.focal_gamma");
    if (!cfg->distill_weights[0] || !cfg->train_class_weights[0]) return LS_SUCCESS;
    return refuse(cfg, LS_OPTION_distill_weights,
        "beside train.class_weights, the two parts of the loss would weigh samples differently; use data.balance = "
        "classes instead of weights");
}

static ls_status check_batches(const ls_config *cfg) {
    int64_t micro = cfg->train_micro_batch, global = cfg->train_global_batch;
    if (micro > global)
        return refuse(cfg, LS_OPTION_train_micro_batch,
            "larger than train.global_batch = %" PRId64 ", of which it is a part", global);
    if (micro == LS_AUTO && cfg->run_deterministic)
        return refuse(cfg, LS_OPTION_train_micro_batch,
            "it would depend on what memory is free, and run.deterministic = true on it; expected a number, or 0");
    if (micro > 0 && global % micro)
        return refuse(cfg, LS_OPTION_train_micro_batch,
            "does not divide train.global_batch = %" PRId64 "; expected one of its divisors", global);
    if (cfg->train_sync_batchnorm && cfg->run_deterministic)
        return refuse(cfg, LS_OPTION_train_sync_batchnorm,
            "statistics would depend on how many ranks compute at a time, and run.deterministic = true promises the "
            "same weights for any number of ranks; set one of the two to false");
    return LS_SUCCESS;
}

static ls_status check_cross_check(const ls_config *cfg) {
    if (cfg->run_cross_check == 0 || !cfg->train_sync_batchnorm) return LS_SUCCESS;
    return refuse(cfg, LS_OPTION_run_cross_check,
        "with train.sync_batchnorm = true a gradient depends on the micro-batches of all ranks, so a neighbour cannot "
        "check it; set run.cross_check = 0 or train.sync_batchnorm = false");
}

static ls_status check_sums(const ls_config *cfg) {
    if (cfg->run_deterministic && cfg->dist_reduce_dtype == LS_REDUCE_DTYPE_BF16)
        return refuse(cfg, LS_OPTION_dist_reduce_dtype,
            "its sums depend on the number of ranks, and run.deterministic = true allows none that do; expected fp32");
    return LS_SUCCESS;
}

static ls_status check_optimizer(const ls_config *cfg) {
    char where[LS_STATUS_TEXT_BYTES / 2], readers[128];
    ls_groups groups;
    ls_config_where(cfg, LS_OPTION_optimizer_groups, where, sizeof where);
    LS_TRY(ls_parse_groups(where, cfg->optimizer_groups, &groups));
    double coefficients[MAX_NUMBERS];
    int count;
    LS_TRY(parse_reals(cfg, LS_OPTION_optimizer_ns_coefficients, cfg->optimizer_ns_coefficients, coefficients, &count));
    if (count != 3)
        return refuse(
            cfg, LS_OPTION_optimizer_ns_coefficients, "%d numbers; expected 3, as 3.4445, -4.7750, 2.0315", count);
    if (!cfg->optimizer_nesterov) return LS_SUCCESS;
    if (!ls_config_has_effect(cfg, LS_OPTION_optimizer_nesterov))
        return refuse(cfg, LS_OPTION_optimizer_nesterov, "only optimizer.kind = %s has it, this is %s",
            ls_option_readers(LS_OPTION_optimizer_nesterov, readers, sizeof readers),
            ls_config_choice("optimizer.kind", cfg->optimizer_kind));
    if (cfg->optimizer_momentum == 0)
        return refuse(
            cfg, LS_OPTION_optimizer_nesterov, "needs a momentum; set optimizer.momentum, for example to 0.9");
    return LS_SUCCESS;
}

static ls_status check_schedule(const ls_config *cfg) {
    const double epochs = cfg->schedule_epochs > 0 ? cfg->schedule_epochs : (double)cfg->train_epochs;
    double milestone[MAX_NUMBERS];
    char readers[128];
    int count;
    LS_TRY(parse_reals(cfg, LS_OPTION_schedule_milestones, cfg->schedule_milestones, milestone, &count));
    for (int i = 0; i < count; i++)
        if (milestone[i] <= (i ? milestone[i - 1] : 0))
            return refuse(
                cfg, LS_OPTION_schedule_milestones, "expected numbers above 0, each larger than the one before");
    if (cfg->schedule_kind == LS_SCHEDULE_STEP && count == 0)
        return refuse(
            cfg, LS_OPTION_schedule_kind, "needs schedule.milestones, the epochs at which the factor drops, as 30, 60");
    if (cfg->schedule_kind == LS_SCHEDULE_EXPONENTIAL && cfg->schedule_final == 0)
        return refuse(cfg, LS_OPTION_schedule_kind, "equal factors never reach 0; set schedule.final, as 0.01");
    if (count && !ls_config_has_effect(cfg, LS_OPTION_schedule_milestones))
        return refuse(cfg, LS_OPTION_schedule_milestones, "only schedule.kind = %s has them, this is %s",
            ls_option_readers(LS_OPTION_schedule_milestones, readers, sizeof readers),
            ls_config_choice("schedule.kind", cfg->schedule_kind));
    if (cfg->schedule_warmup_epochs > 0 && !ls_config_has_effect(cfg, LS_OPTION_schedule_warmup_epochs))
        return refuse(
            cfg, LS_OPTION_schedule_warmup_epochs, "one-cycle has its own warm-up; set schedule.peak instead");
    if (cfg->schedule_warmup_epochs > epochs)
        return refuse(cfg, LS_OPTION_schedule_warmup_epochs, "longer than the schedule, which has %g epochs", epochs);
    return LS_SUCCESS;
}

static ls_status check_power_of_two(const ls_config *cfg, int index, double value) {
    int exponent;
    if (frexp(value, &exponent) == 0.5) return LS_SUCCESS;
    return refuse(cfg, index, "expected a power of two: other factors would round the gradients");
}

static ls_status check_loss_scale(const ls_config *cfg) {
    LS_TRY(check_power_of_two(cfg, LS_OPTION_loss_scale_growth, cfg->loss_scale_growth));
    LS_TRY(check_power_of_two(cfg, LS_OPTION_loss_scale_backoff, cfg->loss_scale_backoff));
    LS_TRY(check_power_of_two(cfg, LS_OPTION_loss_scale_minimum, cfg->loss_scale_minimum));
    LS_TRY(check_power_of_two(cfg, LS_OPTION_loss_scale_maximum, cfg->loss_scale_maximum));
    if (cfg->loss_scale_maximum < cfg->loss_scale_minimum)
        return refuse(cfg, LS_OPTION_loss_scale_maximum, "below loss_scale.minimum = %g", cfg->loss_scale_minimum);
    if (isnan(cfg->loss_scale_initial)) return LS_SUCCESS;
    LS_TRY(check_power_of_two(cfg, LS_OPTION_loss_scale_initial, cfg->loss_scale_initial));
    if (cfg->loss_scale_minimum > cfg->loss_scale_initial)
        return refuse(cfg, LS_OPTION_loss_scale_minimum, "above loss_scale.initial = %g", cfg->loss_scale_initial);
    if (cfg->loss_scale_maximum < cfg->loss_scale_initial)
        return refuse(cfg, LS_OPTION_loss_scale_maximum, "below loss_scale.initial = %g", cfg->loss_scale_initial);
    return LS_SUCCESS;
}

// Returns 1 if the file has the contents of the shipped network that the name finds.
static int is_shipped(const char *name, const char *path) {
    char shipped[LS_TEXT_BYTES], *x = NULL, *y = NULL;
    size_t x_bytes = 0, y_bytes = 0;
    const int same = ls_named_shipped(LS_SHIPPED_NETWORK, name, shipped, sizeof shipped) &&
                     !ls_failed(ls_read_file(path, &x, &x_bytes)) && !ls_failed(ls_read_file(shipped, &y, &y_bytes)) &&
                     x_bytes == y_bytes && memcmp(x, y, x_bytes) == 0;
    free(x);
    free(y);
    return same;
}

static ls_status check_paths(const ls_config *cfg) {
    char path[LS_TEXT_BYTES];
    if (strchr(cfg->run_name, '/') || !strcmp(cfg->run_name, ".") || !strcmp(cfg->run_name, ".."))
        return refuse(cfg, LS_OPTION_run_name, "expected a name, not a path; --run-dir takes a path");
    if (!*cfg->model_file) return refuse(cfg, LS_OPTION_model_file, "expected a network file, as models/lenet.ini");
    LS_TRY(ls_config_path(cfg, LS_OPTION_data_path, path, sizeof path));
    LS_TRY(ls_config_path(cfg, LS_OPTION_model_init, path, sizeof path));
    LS_TRY(ls_config_path(cfg, LS_OPTION_distill_weights, path, sizeof path));
    LS_TRY(ls_config_path(cfg, LS_OPTION_data_cache, path, sizeof path));
    LS_TRY(ls_config_path(cfg, LS_OPTION_model_file, path, sizeof path));
    if (cfg->line[LS_OPTION_model_file] >= 0 || ls_path_exists(path)) return LS_SUCCESS;
    // A path of --set that is found only beside the configuration file is refused, because a shipped network of that
    // name would be taken instead. If both files are the same, that does no harm.
    if (ls_named_nearby(LS_SHIPPED_NETWORK, "", cfg->model_file, path, sizeof path) ||
        !ls_named_nearby(LS_SHIPPED_NETWORK, cfg->folder, cfg->model_file, path, sizeof path) ||
        is_shipped(cfg->model_file, path))
        return LS_SUCCESS;
    return refuse(cfg, LS_OPTION_model_file,
        "no such file in the current folder, where a path on the command line "
        "starts; there is %s",
        path);
}

// Moves *list to the first word of a list separated by spaces and commas. Returns the word's length; 0: no word is
// left.
static size_t next_word(const char **list) {
    *list += strspn(*list, ", ");
    return strcspn(*list, ", ");
}

int ls_config_overrides(const ls_config *cfg, const char *word) {
    size_t length;
    for (const char *at = cfg->model_override; (length = next_word(&at)); at += length)
        if (length == strlen(word) && strncmp(at, word, length) == 0) return 1;
    return 0;
}

static ls_status check_quantise(const ls_config *cfg) {
    if (cfg->train_quantise == LS_QUANTISE_OFF) return LS_SUCCESS;
    if (!cfg->model_init[0])
        return refuse(cfg, LS_OPTION_train_quantise,
            "it fine-tunes trained weights; train in floats first, and set model.init to that run's folder");
    if (cfg->model_init_rules[0])
        return refuse(cfg, LS_OPTION_model_init_rules,
            "train.quantise = int8 takes all weights as they are; leave the rules out, or fine-tune by them in floats "
            "first");
    if (ls_config_several_labels(cfg))
        return refuse(cfg, LS_OPTION_train_quantise,
            "calibration needs the loss of one class, and data.labels gives several labels; leave one of them out");
    if (cfg->train_precision == LS_PRECISION_FP32) return LS_SUCCESS;
    return refuse(
        cfg, LS_OPTION_train_quantise, "16 bits cannot hold the values of its grids; expected train.precision = fp32");
}

static ls_status check_override(const ls_config *cfg) {
    static const char *const words[] = { "classes", "image_size", "mean", "std", "resize" };
    size_t length;
    for (const char *at = cfg->model_override; (length = next_word(&at)); at += length) {
        size_t i = 0;
        while (i < sizeof words / sizeof *words && (strlen(words[i]) != length || strncmp(at, words[i], length) != 0))
            i++;
        if (i == sizeof words / sizeof *words)
            return refuse(cfg, LS_OPTION_model_override, "expected some of classes, image_size, mean, std, resize");
    }
    return LS_SUCCESS;
}

static ls_status check(const ls_config *cfg, int has_data) {
    LS_TRY(check_paths(cfg));
    LS_TRY(check_override(cfg));
    LS_TRY(check_quantise(cfg));
    if (has_data) LS_TRY(check_data(cfg));
    LS_TRY(check_resolution(cfg));
    LS_TRY(check_patience(cfg));
    LS_TRY(check_balance(cfg));
    LS_TRY(check_distill(cfg));
    LS_TRY(check_batches(cfg));
    LS_TRY(check_cross_check(cfg));
    LS_TRY(check_sums(cfg));
    LS_TRY(check_optimizer(cfg));
    LS_TRY(check_schedule(cfg));
    return check_loss_scale(cfg);
}

ls_status ls_config_check(const ls_config *cfg) {
    return check(cfg, 1);
}

ls_status ls_config_check_without_data(const ls_config *cfg) {
    return check(cfg, 0);
}
