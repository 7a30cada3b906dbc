#include "data/balance.h"

#include <stdlib.h>
#include "base/memory.h"
#include "base/philox.h"
#include "data/sampler.h"

struct ls_balance {
    int classes;       // number of classes that have samples
    int64_t *first;    // for each of these classes the place of its first sample in `members`; then the end
    uint32_t *members; // all samples, class by class
};

// Sorts the samples by class. place: a work space, one number for each label, 0 before the call.
static void sort_members(ls_balance *b, const int32_t *labels, int64_t count, int label_count, int64_t *place) {
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) place[labels[i]]++;
    for (int k = 0; k < label_count; k++) {
        const int64_t samples = place[k];
        place[k] = at;
        if (samples > 0) b->first[b->classes++] = at;
        at += samples;
    }
    b->first[b->classes] = at;
    for (int64_t i = 0; i < count; i++) b->members[place[labels[i]]++] = (uint32_t)i;
}

static ls_status fill(ls_balance *b, const ls_dataset *dataset) {
    const ls_dataset_info *info = ls_dataset_get_info(dataset);
    const long long count = info->count;
    int32_t *labels;
    b->first = ls_new(info->classes + 1, sizeof *b->first, "samples of %d classes", info->classes);
    LS_TRY(ls_try_new(&b->members, count, sizeof *b->members, "classes of %lld samples", count));
    LS_TRY(ls_try_new(&labels, count, sizeof *labels, "labels of %lld samples", count));
    ls_status status = ls_dataset_labels(dataset, labels);
    int64_t *place = ls_new(info->classes, sizeof *place, "samples of %d classes", info->classes);
    if (!ls_failed(status)) sort_members(b, labels, count, info->classes, place);
    free(place);
    free(labels);
    return status;
}

ls_status ls_balance_new(const ls_config *cfg, const ls_dataset *dataset, ls_balance **out) {
    *out = NULL;
    if (cfg->data_balance == LS_BALANCE_OFF) return LS_SUCCESS;
    ls_balance *b = ls_new(1, sizeof *b, "balance of classes");
    ls_status status = fill(b, dataset);
    return LS_GIVE_OR_FREE(status, b, out, ls_balance_free);
}

void ls_balance_free(ls_balance *b) {
    if (!b) return;
    free(b->first);
    free(b->members);
    free(b);
}

typedef struct {
    int64_t count, draws; // count: samples of the set; draws: number of draws of one class
    uint64_t seed;
    uint32_t epoch;
} epoch_draws;

// Writes the draws of class k and returns their end. Each member comes draws / members times. Those that come once more
// are chosen one after the other: with `left` members to come, the next is one of `more` with probability more / left.
static uint32_t *draw_class(const ls_balance *b, int k, const epoch_draws *e, uint32_t *to) {
    const int64_t limit = (int64_t)UINT32_MAX / e->count, end = b->first[k + 1];
    int64_t left = end - b->first[k], times = e->draws / left, more = e->draws % left;
    for (int64_t m = b->first[k]; m < end; m++, left--) {
        const uint32_t sample = b->members[m];
        const uint32_t word = ls_random_word(e->seed, LS_PURPOSE_BALANCE, e->epoch, sample, 0);
        const int once_more = ls_below(word, (uint32_t)left) < more;
        for (int64_t t = 0; t < times + once_more; t++) *to++ = sample + (uint32_t)(t % limit * e->count);
        more -= once_more;
    }
    return to;
}

void ls_balance_order(const ls_balance *b, uint32_t *order, int64_t count, uint64_t seed, int64_t epoch) {
    if (!b) {
        ls_order_shuffle(order, count, seed, epoch);
        return;
    }
    epoch_draws e = { .count = count, .seed = seed, .epoch = (uint32_t)epoch };
    const uint32_t word = ls_random_word(seed, LS_PURPOSE_BALANCE, e.epoch, 0, 1);
    const int64_t start = ls_below(word, (uint32_t)b->classes), more = count % b->classes;
    uint32_t *to = order;
    for (int k = 0; k < b->classes; k++) {
        e.draws = count / b->classes + ((k - start + b->classes) % b->classes < more);
        to = draw_class(b, k, &e, to);
    }
    ls_order_mix(order, count, seed, epoch);
}
