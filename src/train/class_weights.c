#include "train/class_weights.h"

#include <string.h>
#include "base/memory.h"
#include "config/values.h"

struct ls_class_weights {
    const ls_config *cfg;
    ls_augmentation augmentation;
    const ls_balance *balance;
    const ls_dataset_info *info;
    const uint8_t *sets; // rows of labels, which `labels` number; NULL: labels are classes
    float *values;
    int32_t *labels; // labels of all samples
    uint32_t *order; // draws of epoch `epoch` (data/balance.h); NULL: samples are not shuffled
    int64_t epoch;
};

static void balance(ls_class_weights *w, int64_t *counts) {
    int64_t samples = 0, classes = 0;
    for (int64_t i = 0; i < w->info->count; i++) counts[w->labels[i]]++;
    for (int k = 0; k < w->info->classes; k++) {
        samples += counts[k];
        classes += counts[k] > 0;
    }
    for (int k = 0; k < w->info->classes; k++)
        w->values[k] = counts[k] ? (float)((double)samples / ((double)classes * (double)counts[k])) : 0;
}

// With several labels a picture, a class has as much weight where it is a label as where it is none. A class without
// both kinds of pictures has weight 1.
static void balance_labels(ls_class_weights *w, int64_t *counts) {
    const int classes = w->info->classes;
    const int64_t all = w->info->count;
    for (int64_t i = 0; i < all; i++)
        for (int k = 0; k < classes; k++) counts[k] += w->sets[(int64_t)w->labels[i] * classes + k];
    for (int k = 0; k < classes; k++)
        w->values[k] = counts[k] && counts[k] < all ? (float)((double)(all - counts[k]) / (double)counts[k]) : 1;
}

static ls_status take_list(ls_class_weights *w, double *numbers) {
    char where[LS_STATUS_TEXT_BYTES / 4];
    const int classes = w->info->classes;
    int count, positive = 0, good = 1;
    ls_config_where(w->cfg, LS_OPTION_train_class_weights, where, sizeof where);
    if (ls_failed(ls_parse_reals(where, w->cfg->train_class_weights, numbers, classes + 1, &count))) count = 0;
    for (int k = 0; k < count && k < classes; k++) {
        w->values[k] = (float)numbers[k];
        good &= numbers[k] >= 0 && numbers[k] <= 1e6;
        positive += numbers[k] > 0;
    }
    if (count == classes && good && positive > 0) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: expected %d numbers from 0 to 1e6, one for each class of data.dataset = %s, and not all 0; or balanced",
        where, classes, w->info->name);
}

static ls_status fill(ls_class_weights *w, const ls_dataset *dataset) {
    const int64_t samples = w->info->count, classes = w->info->classes;
    w->values = ls_new(classes, sizeof *w->values, "class weights");
    LS_TRY(ls_try_new(&w->labels, samples, sizeof *w->labels, "labels of %lld samples", (long long)samples));
    if (w->cfg->data_shuffle)
        LS_TRY(ls_try_new(&w->order, samples, sizeof *w->order, "order of %lld samples", (long long)samples));
    LS_TRY(ls_dataset_labels(dataset, w->labels));
    int64_t *counts = ls_new(classes, sizeof *counts, "class weights");
    double *numbers = ls_new(classes + 1, sizeof *numbers, "class weights");
    ls_status status = LS_SUCCESS;
    if (strcmp(w->cfg->train_class_weights, "balanced") == 0)
        (w->sets ? balance_labels : balance)(w, counts);
    else
        status = take_list(w, numbers);
    free(counts);
    free(numbers);
    return status;
}

ls_status ls_class_weights_new(
    const ls_config *cfg, const ls_dataset *dataset, const ls_balance *balance, ls_class_weights **out) {
    *out = NULL;
    if (!cfg->train_class_weights[0]) return LS_SUCCESS;
    ls_class_weights *w = ls_new(1, sizeof *w, "class weights");
    *w = (ls_class_weights){ .cfg = cfg,
        .augmentation = ls_config_augmentation(cfg),
        .balance = balance,
        .info = ls_dataset_get_info(dataset),
        .sets = ls_dataset_label_sets(dataset),
        .epoch = -1 };
    ls_status status = fill(w, dataset);
    return LS_GIVE_OR_FREE(status, w, out, ls_class_weights_free);
}

void ls_class_weights_free(ls_class_weights *w) {
    if (!w) return;
    free(w->values);
    free(w->labels);
    free(w->order);
    free(w);
}

const float *ls_class_weights_values(const ls_class_weights *w) {
    return w->values;
}

static int64_t draw_at(const ls_class_weights *w, int64_t position) {
    return w->order ? (int64_t)w->order[position] : position;
}

static double weight_of(const ls_class_weights *w, int64_t draw) {
    return (double)w->values[w->labels[draw % w->info->count]];
}

// Returns the sum of the weights w[n] of the samples in a micro-batch of `count` samples, which starts at position
// `first` of the epoch. For the partners of mixed samples see mixup in config/augmentations.def.
static double micro_sum(const ls_class_weights *w, int64_t first, int count) {
    const int mixes = ls_augment_mixes(&w->augmentation);
    double sum = 0;
    if (w->sets) return count; // as torch.nn.BCEWithLogitsLoss
    for (int n = 0; n < count; n++) {
        const int64_t draw = draw_at(w, first + n);
        const double own = weight_of(w, draw), other = weight_of(w, draw_at(w, first + count - 1 - n));
        double mix = 0;
        if (mixes)
            mix = ls_augment_draw(&w->augmentation, w->info->shape, (uint64_t)w->cfg->run_seed, w->epoch, draw).mix /
                  65536.0;
        sum += (1 - mix) * own + mix * other;
    }
    return sum;
}

double ls_class_weights_sum(ls_class_weights *w, const ls_batches *b, int64_t epoch, int64_t window) {
    if (w->order && epoch != w->epoch)
        ls_balance_order(w->balance, w->order, w->info->count, (uint64_t)w->cfg->run_seed, epoch);
    w->epoch = epoch;
    double sum = 0;
    for (int j = 0; j < b->micro_batches; j++)
        sum += micro_sum(
            w, window * b->global_batch + (int64_t)j * b->micro_batch, ls_batches_micro_samples(b, window, j));
    return sum > 0 ? sum : 1;
}
