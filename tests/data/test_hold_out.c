// data.validation_fraction: which samples are held out, of every kind of data set, and that both parts are the whole set.
#include "data_files.h"

enum { SAMPLES = 203, CLASSES = 7, PIXELS = 3 * 4 * 5 };

static ls_config synthetic(double fraction) {
    ls_config cfg;
    ls_config_defaults(&cfg);
    require_ok(ls_config_set(&cfg, "data.dataset=synthetic"), "dataset");
    require_ok(ls_config_set(&cfg, "data.shape=3x4x5"), "shape");
    cfg.data_classes = CLASSES;
    cfg.data_train_samples = SAMPLES;
    cfg.data_validation_fraction = fraction;
    return cfg;
}

static ls_dataset *open_train(const ls_config *cfg) {
    ls_dataset *dataset;
    require_ok(ls_dataset_open(cfg, LS_SPLIT_TRAIN, &dataset), "open");
    return dataset;
}

static int64_t count_of(const ls_dataset *dataset) {
    return ls_dataset_get_info(dataset)->count;
}

// Samples of each class.
static void count_classes(const ls_dataset *dataset, int counts[CLASSES]) {
    uint8_t pixels[PIXELS];
    int32_t label;
    memset(counts, 0, CLASSES * sizeof *counts);
    for (int64_t i = 0; i < count_of(dataset); i++) {
        require_ok(ls_dataset_read(dataset, i, pixels, &label), "read");
        counts[label]++;
    }
}

// Walks through the whole set: each sample comes next in one of the two parts.
static void parts_are_the_whole(void **state) {
    (void)state;
    static const double fractions[] = { 0.1, 0.5, 0.9, 0.001 };
    for (size_t f = 0; f < sizeof fractions / sizeof *fractions; f++) {
        const ls_config none = synthetic(0), cfg = synthetic(fractions[f]);
        ls_dataset *whole = open_train(&none), *train = open_train(&cfg), *held = ls_dataset_held_out(train);
        assert_null(ls_dataset_held_out(whole));
        assert_non_null(held);
        assert_int_equal(count_of(train) + count_of(held), SAMPLES);
        int64_t at_train = 0, at_held = 0;
        for (int64_t i = 0; i < SAMPLES; i++) {
            uint8_t wanted[PIXELS], got[PIXELS] = { 0 };
            int32_t label, got_label = -1;
            require_ok(ls_dataset_read(whole, i, wanted, &label), "whole");
            if (at_train < count_of(train)) require_ok(ls_dataset_read(train, at_train, got, &got_label), "train");
            if (memcmp(got, wanted, sizeof got) == 0 && got_label == label) {
                at_train++;
                continue;
            }
            require_ok(ls_dataset_read_whole(held, at_held++, got, &got_label), "held out");
            assert_memory_equal(got, wanted, sizeof got);
            assert_int_equal(got_label, label);
        }
        assert_int_equal(at_train, count_of(train));
        int all[CLASSES], out[CLASSES];
        count_classes(whole, all);
        count_classes(held, out);
        for (int c = 0; c < CLASSES; c++) {
            int expected = (int)(all[c] * fractions[f] + 0.5);
            if (expected < 1) expected = 1;
            if (out[c] != expected) fail_msg("%g of class %d: %d of %d", fractions[f], c, out[c], all[c]);
        }
        assert_true(ls_dataset_get_info(train)->checksum != ls_dataset_get_info(whole)->checksum);
        assert_true(ls_dataset_get_info(train)->checksum != ls_dataset_get_info(held)->checksum);
        ls_dataset_free(whole);
        ls_dataset_free(train);
    }
}

// Of the same pictures with another seed others are held out; of five pictures of five classes none can be.
static void follows_from_the_seed(void **state) {
    (void)state;
    const char *folder = new_folder();
    put_sets(folder);
    for (int i = 0; i < 5; i++) { // two of each of five classes
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        put_cifar(folder, name, 1, i * CIFAR_RECORDS % 5);
    }
    ls_config cfg;
    ls_config_defaults(&cfg);
    require_ok(ls_config_set(&cfg, "data.dataset=cifar10"), "dataset");
    snprintf(cfg.data_path, sizeof cfg.data_path, "%s", folder);
    cfg.data_validation_fraction = 0.5;
    uint64_t checksum[3];
    for (int i = 0; i < 3; i++) {
        cfg.run_seed = i == 2 ? 4 : 3;
        ls_dataset *train = open_train(&cfg);
        checksum[i] = ls_dataset_get_info(train)->checksum;
        assert_string_equal(ls_dataset_class(ls_dataset_held_out(train), 0), "airplane");
        ls_dataset_free(train);
    }
    assert_true(checksum[0] == checksum[1] && checksum[0] != checksum[2]);
    require_ok(ls_config_set(&cfg, "data.dataset=mnist"), "dataset");
    ls_dataset *train;
    ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &train);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text,
        "data.validation_fraction = 0.5 holds nothing out of mnist, of which no class has two training pictures");
}

// Files: names, a place of their own for what is remembered as good, what is broken is left out of the part alone.
static void files_are_held_out(void **state) {
    (void)state;
    const char *folder = new_folder();
    static const char *const classes[] = { "train/a", "train/b", "test/a", "test/b" };
    for (int c = 0; c < 4; c++) {
        char command[512];
        snprintf(command, sizeof command,
            "mkdir -p '%s/%s' && for i in 0 1 2 3 4 5 6 7; do printf %%s%%s x $i >'%s/%s/'$i.png; done", folder,
            classes[c], folder, classes[c]);
        assert_int_equal(system(command), 0);
    }
    ls_config cfg;
    ls_config_defaults(&cfg);
    require_ok(ls_config_set(&cfg, "data.dataset=folder"), "dataset");
    snprintf(cfg.data_path, sizeof cfg.data_path, "%s", folder);
    cfg.data_validation_fraction = 0.25;
    ls_dataset *train = open_train(&cfg), *held = ls_dataset_held_out(train);
    assert_int_equal(count_of(train), 12);
    assert_int_equal(count_of(held), 4);
    assert_true(ls_dataset_may_break(held));
    char name[64], other[64];
    for (int64_t i = 0; i < 4; i++)
        for (int64_t k = 0; k < 12; k++)
            assert_string_not_equal(ls_dataset_sample_name(held, i, name, sizeof name),
                ls_dataset_sample_name(train, k, other, sizeof other));
    ls_dataset_sample_name(held, 1, name, sizeof name);
    const uint8_t broken[4] = { 1, 0, 0, 0 };
    require_ok(ls_dataset_leave_out(held, broken), "leave out");
    assert_int_equal(count_of(held), 3);
    assert_int_equal(ls_dataset_get_info(held)->broken, 1);
    assert_string_equal(ls_dataset_sample_name(held, 0, other, sizeof other), name);
    assert_string_equal(ls_dataset_class(held, 1), "b");
    ls_dataset_free(train);
    // a folder of its own wins
    char command[512];
    snprintf(
        command, sizeof command, "mv '%s/test' '%s/val' && cp -r '%s/train' '%s/test'", folder, folder, folder, folder);
    assert_int_equal(system(command), 0);
    train = open_train(&cfg);
    assert_int_equal(count_of(train), 16);
    assert_int_equal(count_of(ls_dataset_held_out(train)), 16);
    assert_string_equal(ls_dataset_get_info(train)->note, "data.validation_fraction has no effect, for there is val/");
    ls_dataset_free(train);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(follows_from_the_seed),
        cmocka_unit_test(files_are_held_out),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folders);
}
