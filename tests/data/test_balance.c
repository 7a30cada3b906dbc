// data.balance = classes: how often classes and samples come in an epoch, how a sample that comes several times is
// augmented, and that any number of ranks, or a start in the middle, loads the same draws.
#include "data_files.h"

#include <math.h>

#include "data/balance.h"
#include "data/format.h"
#include "data/loader.h"

enum { SAMPLES_MAX = 500, CLASSES_MAX = 8, EPOCHS = 200 };

static const struct {
    const char *name;
    int samples[CLASSES_MAX]; // by class
} rows[] = {
    { "as many of each", { 7, 7, 7 } },
    { "a rare class", { 1, 90, 30 } },
    { "a class without samples", { 20, 0, 13, 5 } },
    { "as many draws of each, a part of some", { 40, 8, 12 } },
    { "one class", { 0, 9 } },
    { "one sample of each", { 1, 1, 1, 1, 1 } },
    { "one common class", { 400, 3, 2, 1, 1, 1, 1, 1 } },
};

typedef struct {
    ls_dataset set;
    uint8_t labels[SAMPLES_MAX], pixel;
    int classes; // with samples
} labelled;

// Makes a set of one black pixel a sample. Its labels are in a mixed order.
static void make_set(size_t row, labelled *out) {
    uint32_t place[SAMPLES_MAX];
    int count = 0, at = 0;
    *out = (labelled){ 0 };
    for (int k = 0; k < CLASSES_MAX; k++) count += rows[row].samples[k];
    ls_order_shuffle(place, count, 42, 0);
    for (int k = 0; k < CLASSES_MAX; k++) {
        out->classes += rows[row].samples[k] > 0;
        for (int i = 0; i < rows[row].samples[k]; i++) out->labels[place[at++]] = (uint8_t)k;
    }
    out->set.facts = (ls_dataset_info){ .shape = { 1, 1, 1 }, .classes = CLASSES_MAX, .count = count };
    out->set.pixels = &out->pixel;
    out->set.labels = out->labels;
    out->set.label_stride = 1;
}

static ls_balance *balance_of(const labelled *data) {
    ls_config cfg;
    ls_balance *balance;
    ls_config_defaults(&cfg);
    require_ok(ls_config_set(&cfg, "data.balance=classes"), "option");
    require_ok(ls_balance_new(&cfg, &data->set, &balance), "balance");
    return balance;
}

// Counts the draws of each class and sample in one epoch, and checks that they are as often as they should be.
static void count_epoch(const char *name, const labelled *data, const uint32_t *order, int *by_class, int *by_sample) {
    const int count = (int)data->set.facts.count;
    int least[CLASSES_MAX], most[CLASSES_MAX] = { 0 };
    uint8_t seen[SAMPLES_MAX] = { 0 };
    memset(by_class, 0, CLASSES_MAX * sizeof *by_class);
    memset(by_sample, 0, SAMPLES_MAX * sizeof *by_sample);
    for (int i = 0; i < count; i++) {
        by_class[data->labels[order[i] % (uint32_t)count]]++;
        by_sample[order[i] % (uint32_t)count]++;
    }
    for (int i = 0; i < count; i++) { // the draws of a sample are numbered from 0 on
        const int time = (int)(order[i] / (uint32_t)count), sample = (int)(order[i] % (uint32_t)count);
        if (time >= by_sample[sample]) fail_msg("%s: sample %d, draw %d of %d", name, sample, time, by_sample[sample]);
        if (time == 0 && seen[sample]++) fail_msg("%s: sample %d has its first draw twice", name, sample);
    }
    for (int k = 0; k < CLASSES_MAX; k++) least[k] = SAMPLES_MAX;
    for (int i = 0; i < count; i++) {
        const int k = data->labels[i];
        if (by_sample[i] < least[k]) least[k] = by_sample[i];
        if (by_sample[i] > most[k]) most[k] = by_sample[i];
    }
    for (int k = 0; k < CLASSES_MAX; k++) {
        if (by_class[k] == 0) continue;
        if (by_class[k] / (count / data->classes) != 1 || by_class[k] > count / data->classes + 1)
            fail_msg("%s: class %d has %d of %d draws", name, k, by_class[k], count);
        if (most[k] > least[k] + 1) fail_msg("%s: samples of class %d come %d to %d times", name, k, least[k], most[k]);
    }
}

// Fails if a count over all epochs is too far from `expected`, of which each epoch adds 0 or 1 to its whole part.
static void check_total(const char *name, const char *what, int which, int total, double expected) {
    const double share = expected - floor(expected), sigma = sqrt(EPOCHS * share * (1 - share));
    if (fabs(total - EPOCHS * expected) > 5 * sigma + 1e-6)
        fail_msg("%s: %s %d comes %d times, expected %g", name, what, which, total, EPOCHS * expected);
}

static void classes_come_equally_often(void **state) {
    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        static labelled data;
        uint32_t order[SAMPLES_MAX], again[SAMPLES_MAX];
        int by_class[CLASSES_MAX], by_sample[SAMPLES_MAX], of_class[CLASSES_MAX] = { 0 },
                                                           of_sample[SAMPLES_MAX] = { 0 };
        make_set(row, &data);
        ls_balance *balance = balance_of(&data);
        const int count = (int)data.set.facts.count;
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            ls_balance_order(balance, order, count, 7, epoch);
            ls_balance_order(balance, again, count, 7, epoch);
            assert_memory_equal(order, again, (size_t)count * sizeof *order);
            ls_balance_order(balance, again, count, 8, epoch);
            if (count > 20) assert_memory_not_equal(order, again, (size_t)count * sizeof *order);
            count_epoch(rows[row].name, &data, order, by_class, by_sample);
            for (int k = 0; k < CLASSES_MAX; k++) of_class[k] += by_class[k];
            for (int i = 0; i < count; i++) of_sample[i] += by_sample[i];
        }
        const double per_class = (double)count / data.classes;
        for (int k = 0; k < CLASSES_MAX; k++)
            if (rows[row].samples[k]) check_total(rows[row].name, "class", k, of_class[k], per_class);
        for (int i = 0; i < count && per_class == floor(per_class); i++)
            check_total(rows[row].name, "sample", i, of_sample[i], per_class / rows[row].samples[data.labels[i]]);
        ls_balance_free(balance);
    }
}

// The place of a class does not say where its draws are in the epoch.
static void draws_are_mixed(void **state) {
    (void)state;
    static labelled data;
    uint32_t order[SAMPLES_MAX];
    double place[CLASSES_MAX] = { 0 };
    int draws[CLASSES_MAX] = { 0 };
    make_set(1, &data);
    ls_balance *balance = balance_of(&data);
    const int count = (int)data.set.facts.count;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        ls_balance_order(balance, order, count, 3, epoch);
        for (int i = 0; i < count; i++) {
            const int k = data.labels[order[i] % (uint32_t)count];
            place[k] += (i + 0.5) / count;
            draws[k]++;
        }
    }
    for (int k = 0; k < 3; k++) // a place has a deviation of 0.29; 8000 of them
        if (fabs(place[k] / draws[k] - 0.5) > 5 * 0.0033) fail_msg("class %d: mean place %g", k, place[k] / draws[k]);
    ls_balance_free(balance);
}

enum { MICRO = 4, SLOTS = 3 };

// Loads the draws of three epochs on each of `ranks` ranks, from window `window` of the first one on, and compares
// samples, labels and augmentation with the order of draws.
static void load(const labelled *data, const ls_balance *balance, int ranks, int window) {
    const int64_t count = data->set.facts.count;
    const ls_augmentation augmentation = { .pad = 4, .flip = 1 };
    int32_t labels[SAMPLES_MAX];
    int64_t loaded = 0;
    require_ok(ls_dataset_labels(&data->set, labels), "labels");
    for (int rank = 0; rank < ranks; rank++) {
        ls_augment_sample drawn[SLOTS][MICRO];
        int32_t label[SLOTS][MICRO], index[SLOTS][MICRO];
        ls_slot slots[SLOTS];
        ls_config cfg;
        ls_loader *loader;
        uint32_t order[SAMPLES_MAX];
        ls_config_defaults(&cfg);
        cfg.train_global_batch = 16;
        cfg.train_micro_batch = MICRO;
        for (int s = 0; s < SLOTS; s++)
            slots[s] = (ls_slot){ .labels = label[s], .augment = drawn[s], .index = index[s] };
        ls_loader_options o = { .dataset = &data->set, .labels = labels, .seed = 5, .shuffle = 1, .balance = balance };
        o.augmentation = augmentation;
        o.first_window = window;
        o.epochs = 3;
        o.workers = 2;
        o.slots = slots;
        o.slot_count = SLOTS;
        require_ok(ls_batches_plan(&cfg, count, rank, ranks, &o.batches), "plan");
        require_ok(ls_loader_new(&o, &loader), "loader");
        int64_t expected = 0;
        for (int64_t w = window; w < 3 * o.batches.windows; w++)
            for (int j = 0; j < o.batches.per_rank; j++)
                expected += ls_batches_micro_samples(&o.batches, w % o.batches.windows, rank * o.batches.per_rank + j);
        while (expected > 0) {
            ls_batch b;
            require_ok(ls_loader_acquire(loader, &b), "acquire");
            ls_balance_order(balance, order, count, 5, b.epoch);
            for (int i = 0; i < b.count; i++) {
                const uint32_t draw = order[b.window * 16 + (int64_t)b.position + i];
                const ls_augment_sample want = ls_augment_draw(&augmentation, data->set.facts.shape, 5, b.epoch, draw);
                assert_int_equal(index[b.slot][i], draw % count);
                assert_int_equal(label[b.slot][i], labels[draw % count]);
                assert_memory_equal(&drawn[b.slot][i], &want, sizeof want);
            }
            expected -= b.count;
            loaded += b.count;
            ls_loader_release(loader, &b);
        }
        ls_loader_free(loader);
    }
    assert_int_equal(loaded, 3 * count - 16 * window);
}

static void loaders_draw_alike(void **state) {
    (void)state;
    static labelled data;
    make_set(1, &data);
    ls_balance *balance = balance_of(&data);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int window = 0; window < 4; window += 3) load(&data, balance, ranks, window);
    ls_balance_free(balance);
}

static void off_is_each_sample_once(void **state) {
    (void)state;
    static labelled data;
    ls_config cfg;
    ls_balance *balance;
    uint32_t order[SAMPLES_MAX], expected[SAMPLES_MAX];
    make_set(1, &data);
    ls_config_defaults(&cfg);
    require_ok(ls_balance_new(&cfg, &data.set, &balance), "off");
    assert_null(balance);
    const int count = (int)data.set.facts.count;
    ls_balance_order(balance, order, count, 9, 4);
    ls_order_shuffle(expected, count, 9, 4);
    assert_memory_equal(order, expected, (size_t)count * sizeof *order);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_come_equally_often),
        cmocka_unit_test(draws_are_mixed),
        cmocka_unit_test(loaders_draw_alike),
        cmocka_unit_test(off_is_each_sample_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
