// A run that goes on with other numbers of ranks: whatever the update where it is cut, the loaders of all ranks, begun
// at the cursor that the checkpoint has, bring every sample of every epoch exactly once, augmented alike and beside the same
// partner of its micro-batch.
#include "data/loader.h"
#include "whole_run.h"

enum { SAMPLES = 203, GLOBAL = 48, MICRO = 4, EPOCHS = 3, SLOTS = 2 };

static const struct {
    const char *name;
    struct {
        int ranks, until; // update
    } part[6];
} rows[] = {
    { "one rank, never cut", { { 1, 15 } } },
    { "4, then 2, then 3, in mid-epoch", { { 4, 3 }, { 2, 7 }, { 3, 15 } } },
    { "at an epoch's end", { { 3, 5 }, { 4, 10 }, { 2, 15 } } },
    { "before and behind the short window", { { 2, 4 }, { 4, 5 }, { 1, 9 }, { 3, 10 }, { 4, 15 } } },
    { "cut after each update", { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 }, { 6, 5 }, { 12, 15 } } },
};

static const ls_augmentation augmentation = { .pad = 2,
    .flip = LS_FLIP_ALTERNATING,
    .cutout = 1,
    .brightness = 0.1F,
    .contrast = 0.1F,
    .crop_scale = 0.2F,
    .crop_ratio = 1.5F,
    .mixup = 1,
    .erase = 0.5F,
    .erase_area = 0.33F,
    .cutmix = 0.5F };
static int seen[EPOCHS][SAMPLES], partner[EPOCHS][SAMPLES];
static const ls_chw picture = { 1, 9, 8 };

static void see(int64_t epoch, int sample, int beside, const ls_augment_sample *drawn) {
    const ls_augment_sample expected = ls_augment_draw(&augmentation, picture, 1, epoch, sample);
    seen[epoch][sample]++;
    assert_memory_equal(drawn, &expected, sizeof expected);
    if (partner[epoch][sample] < 0) partner[epoch][sample] = beside;
    assert_int_equal(partner[epoch][sample], beside);
}

// What one rank reads of updates [from, until).
static void read_part(const ls_dataset *data, const ls_batches *batches, int from, int until, int shuffle) {
    int32_t labels[SLOTS][MICRO], index[SLOTS][MICRO], all_labels[SAMPLES] = { 0 };
    ls_augment_sample augment[SLOTS][MICRO];
    ls_slot slots[SLOTS];
    for (int s = 0; s < SLOTS; s++)
        slots[s] = (ls_slot){ .labels = labels[s], .augment = augment[s], .index = index[s] };
    ls_loader_options options = { .dataset = data,
        .labels = all_labels,
        .batches = *batches,
        .seed = 1,
        .shuffle = shuffle,
        .augmentation = augmentation,
        .first_epoch = from / batches->windows,
        .first_window = from % batches->windows,
        .epochs = EPOCHS,
        .workers = 1,
        .slots = slots,
        .slot_count = SLOTS };
    ls_loader *loader;
    must(ls_loader_new(&options, &loader));
    for (int u = from; u < until; u++) {
        for (int m = 0; m < batches->per_rank; m++) {
            int64_t window = u % batches->windows;
            if (ls_batches_micro_samples(batches, window, batches->rank * batches->per_rank + m) == 0) continue;
            ls_batch batch;
            must(ls_loader_acquire(loader, &batch));
            assert_int_equal(batch.epoch, u / batches->windows);
            assert_int_equal(batch.window, window);
            const ls_slot *slot = &slots[batch.slot];
            for (int i = 0; i < batch.count; i++)
                see(batch.epoch, slot->index[i], slot->index[batch.count - 1 - i], &slot->augment[i]);
            ls_loader_release(loader, &batch);
        }
    }
    ls_loader_free(loader);
}

static void every_sample_once(void **state) {
    (void)state;
    ls_config cfg;
    ls_dataset *data;
    ls_config_defaults(&cfg);
    must(ls_config_set(&cfg, "data.dataset=synthetic"));
    must(ls_config_set(&cfg, "data.shape=1x9x8"));
    cfg.data_train_samples = SAMPLES;
    cfg.train_global_batch = GLOBAL;
    cfg.train_micro_batch = MICRO;
    must(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &data));
    memset(partner, -1, sizeof partner);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int from = 0;
        memset(seen, 0, sizeof seen);
        for (int p = 0; p < 6 && rows[r].part[p].until; p++) {
            for (int rank = 0; rank < rows[r].part[p].ranks; rank++) {
                ls_batches batches;
                must(ls_batches_plan(&cfg, SAMPLES, rank, rows[r].part[p].ranks, &batches));
                read_part(data, &batches, from, rows[r].part[p].until, 1);
            }
            from = rows[r].part[p].until;
        }
        for (int e = 0; e < EPOCHS; e++)
            for (int i = 0; i < SAMPLES; i++)
                if (seen[e][i] != 1)
                    fail_msg("%s: sample %d comes %d times in epoch %d", rows[r].name, i, seen[e][i], e);
    }
    ls_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_sample_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
