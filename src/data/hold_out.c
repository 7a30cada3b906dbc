// hold_out.c - divides a training set into a part to train on and a part for validation (data.validation_fraction).
//
// The fraction of each class (of all samples, if pictures have several labels) is held out, rounded to the nearest
// number. A class of two or more samples is in both parts. The seed decides which samples are held out: those with the
// lowest word(i) = ls_random_word(seed, LS_PURPOSE_VALIDATION, 0, i, 0), where i is the sample's index. If words are
// equal, the lower index comes first. Both parts keep the order of the whole set. They are views of the whole set, so
// pictures are stored once.
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/philox.h"
#include "config/purpose.h"
#include "data/format.h"

typedef struct {
    ls_dataset *owned; // the whole set, in the part to train on, which frees it; else NULL
    uint32_t *index;   // index of each sample in the whole set
} part;

static int64_t whole_index(const ls_dataset *dataset, int64_t index) {
    return ((const part *)dataset->state)->index[index];
}

static ls_status read_sample(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    return ls_dataset_read(dataset->whole, whole_index(dataset, index), pixels, label);
}

static void name_sample(const ls_dataset *dataset, int64_t index, char *dst, size_t bytes) {
    dataset->whole->name(dataset->whole, whole_index(dataset, index), dst, bytes);
}

static int label_sample(const ls_dataset *dataset, int64_t index) {
    return dataset->whole->label(dataset->whole, whole_index(dataset, index));
}

static int64_t file_of_sample(const ls_dataset *dataset, int64_t index) {
    return dataset->whole->file(dataset->whole, whole_index(dataset, index));
}

static void leave_out(ls_dataset *dataset, const uint8_t *broken) {
    part *p = dataset->state;
    int64_t kept = 0;
    for (int64_t i = 0; i < dataset->facts.count; i++)
        if (!broken[i]) p->index[kept++] = p->index[i];
    dataset->facts.count = kept;
}

static void free_part(void *state) {
    part *p = state;
    ls_dataset_free(p->owned);
    free(p->index);
    free(p);
}

// Makes a part of the set: a view of the samples for which taken[i] == wanted.
static ls_status new_part(ls_dataset *whole, const uint8_t *taken, int wanted, ls_split split, ls_dataset **out) {
    const ls_dataset_info *facts = &whole->facts;
    ls_dataset *d = *out = ls_new(1, sizeof *d, "data set"); // the caller frees it, also after a failure
    part *p = ls_new(1, sizeof *p, "data set");
    *d = (ls_dataset){ .facts = *facts,
        .format = whole->format,
        .split = split,
        .read = read_sample,
        .name = whole->name ? name_sample : NULL,
        .label = whole->label ? label_sample : NULL,
        .file = whole->file ? file_of_sample : NULL,
        .leave_out = leave_out,
        .whole = whole,
        .state = p,
        .free_state = free_part,
        .label_sets = whole->label_sets,
        .class_names = whole->class_names };
    LS_TRY(ls_try_new(&p->index, facts->count, sizeof *p->index, "list of %" PRId64 " samples", facts->count));
    d->facts.count = 0;
    if (split != LS_SPLIT_TRAIN) d->facts.source = 0;
    for (int64_t i = 0; i < facts->count; i++)
        if (taken[i] == wanted) p->index[d->facts.count++] = (uint32_t)i;
    d->facts.checksum = ls_hash_more(facts->checksum, p->index, (size_t)d->facts.count * sizeof *p->index);
    return ls_dataset_prepare(d);
}

// --- choice of samples ------------------------------------------------------------------------------

typedef struct {
    int32_t label;
    uint32_t word, index;
} candidate;

static int compare(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    if (x->word != y->word) return x->word < y->word ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int64_t share_of(int64_t count, double fraction) {
    int64_t held = (int64_t)((double)count * fraction + 0.5);
    if (held < 1) held = 1;
    return held < count ? held : count - 1;
}

// Sets taken[i] = 1 for each sample i that is held out.
static ls_status choose(const ls_dataset *d, uint64_t seed, double fraction, uint8_t *taken) {
    const int64_t count = d->facts.count;
    candidate *list;
    int32_t *labels = NULL;
    ls_status status = ls_try_new(&list, count, sizeof *list, "list of %" PRId64 " samples", count);
    LS_THEN(status, ls_try_new(&labels, count, sizeof *labels, "list of %" PRId64 " samples", count));
    LS_THEN(status, ls_dataset_labels(d, labels));
    for (int64_t i = 0; i < count && !ls_failed(status); i++)
        list[i] = (candidate){ d->label_sets ? 0 : labels[i],
            ls_random_word(seed, LS_PURPOSE_VALIDATION, 0, (uint32_t)i, 0), (uint32_t)i };
    if (!ls_failed(status)) qsort(list, (size_t)count, sizeof *list, compare);
    for (int64_t first = 0, end; first < count && !ls_failed(status); first = end) {
        for (end = first; end < count && list[end].label == list[first].label;) end++;
        const int64_t held = share_of(end - first, fraction);
        for (int64_t i = first; i < first + held; i++) taken[list[i].index] = 1;
    }
    free(labels);
    free(list);
    return status;
}

ls_status ls_dataset_hold_out(const ls_config *cfg, ls_dataset *whole, ls_dataset **out) {
    const int64_t count = whole->facts.count;
    uint8_t *taken;
    ls_dataset *train = NULL;
    ls_status status = ls_try_new(&taken, count, sizeof *taken, "list of %" PRId64 " samples", count);
    LS_THEN(status, choose(whole, (uint64_t)cfg->run_seed, cfg->data_validation_fraction, taken));
    LS_THEN(status, new_part(whole, taken, 0, LS_SPLIT_TRAIN, &train));
    LS_THEN(status, new_part(whole, taken, 1, LS_SPLIT_VALIDATION, &train->held_out));
    free(taken);
    if (!ls_failed(status) && train->held_out->facts.count == 0)
        status = ls_fail(LS_USAGE,
            "data.validation_fraction = %g holds nothing out of %s, of which no class has two training pictures",
            cfg->data_validation_fraction, whole->facts.name);
    if (ls_failed(status)) {
        ls_dataset_free(train);
        return status;
    }
    ((part *)train->state)->owned = whole;
    train->held_out->facts.note[0] = '\0';
    *out = train;
    return LS_SUCCESS;
}
