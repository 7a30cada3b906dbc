// train.class_weights: what is made of them, the sum that a window's mean divides by, and that twice all weights is the same run.
#include <math.h>
#include "whole_run.h"

enum { SAMPLES = 101, CLASSES = 4 };

static ls_config config(const char *weights, const char *option) {
    const char *const options[] = { "data.dataset=synthetic", "data.shape=3x4x5", "data.classes=4",
        "data.train_samples=101", "train.global_batch=24", "train.micro_batch=8", weights, option };
    ls_config cfg;
    ls_config_defaults(&cfg);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) must(ls_config_set(&cfg, options[i]));
    return cfg;
}

static ls_dataset *open_train(const ls_config *cfg) {
    ls_dataset *dataset;
    must(ls_dataset_open(cfg, LS_SPLIT_TRAIN, &dataset));
    return dataset;
}

static void balanced(void **state) {
    (void)state;
    const ls_config cfg = config("train.class_weights=balanced", "data.shuffle=true");
    ls_dataset *dataset = open_train(&cfg);
    ls_class_weights *weights;
    must(ls_class_weights_new(&cfg, dataset, NULL, &weights));
    int32_t labels[SAMPLES];
    int counts[CLASSES] = { 0 };
    must(ls_dataset_labels(dataset, labels));
    for (int i = 0; i < SAMPLES; i++) counts[labels[i]]++;
    for (int k = 0; k < CLASSES; k++)
        assert_true(ls_class_weights_values(weights)[k] == (float)((double)SAMPLES / (double)(CLASSES * counts[k])));
    ls_class_weights_free(weights);
    ls_dataset_free(dataset);
}

// Sums over all windows of two epochs against the loader's own order and draws.
static void sums_of_windows(void **state) {
    (void)state;
    static const char *const options[] = { "data.shuffle=true", "data.shuffle=false", "data.mixup=0.4",
        "data.balance=classes" };
    for (int o = 0; o < 4; o++) {
        ls_config cfg = config("train.class_weights=1, 0.5, 0, 3", options[o]);
        if (o == 3) cfg.data_mixup = 0.4;
        static const double given[CLASSES] = { 1, 0.5, 0, 3 };
        const ls_augmentation augmentation = ls_config_augmentation(&cfg);
        ls_dataset *dataset = open_train(&cfg);
        ls_class_weights *weights;
        ls_balance *balance;
        ls_batches b;
        int32_t labels[SAMPLES];
        uint32_t order[SAMPLES];
        must(ls_balance_new(&cfg, dataset, &balance));
        must(ls_class_weights_new(&cfg, dataset, balance, &weights));
        must(ls_dataset_labels(dataset, labels));
        must(ls_batches_plan(&cfg, SAMPLES, 0, 1, &b));
        for (int64_t epoch = 0; epoch < 2; epoch++) {
            ls_balance_order(balance, order, SAMPLES, (uint64_t)cfg.run_seed, epoch);
            for (int at = 0; at < SAMPLES && !cfg.data_shuffle; at++) order[at] = (uint32_t)at;
            for (int64_t window = 0; window < b.windows; window++) {
                double expected = 0;
                for (int at = (int)window * 24; at < (int)(window + 1) * 24 && at < SAMPLES; at++) {
                    const int first = at / 8 * 8, end = first + 8 < SAMPLES ? first + 8 : SAMPLES;
                    const double mix = ls_augment_draw(&augmentation, (ls_chw){ 3, 4, 5 }, (uint64_t)cfg.run_seed,
                                           epoch, (int64_t)order[at])
                                           .mix /
                                       65536.0;
                    expected += (1 - mix) * given[labels[order[at] % SAMPLES]] +
                                mix * given[labels[order[first + end - 1 - at] % SAMPLES]];
                }
                const double got = ls_class_weights_sum(weights, &b, epoch, window);
                if (fabs(got - expected) > 1e-12 * expected)
                    fail_msg("%s, epoch %d, window %d: %.17g, expected %.17g", options[o], (int)epoch, (int)window, got,
                        expected);
            }
        }
        ls_class_weights_free(weights);
        ls_balance_free(balance);
        ls_dataset_free(dataset);
    }
}

static void refused(void **state) {
    (void)state;
    static const char *const rows[] = { "train.class_weights=1, 2, 3", "train.class_weights=1, 2, 3, 4, 5, 6",
        "train.class_weights=1, 2, 3, -4", "train.class_weights=0, 0, 0, 0", "train.class_weights=equal" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_config cfg = config(rows[i], "data.shuffle=true");
        ls_dataset *dataset = open_train(&cfg);
        ls_class_weights *weights;
        ls_status status = ls_class_weights_new(&cfg, dataset, NULL, &weights);
        assert_int_equal(status.code, LS_USAGE);
        assert_non_null(strstr(status.text, ": expected 4 numbers from 0 to 1e6, one for each class of data.dataset = "
                                            "synthetic, and not all 0; or balanced"));
        ls_dataset_free(dataset);
    }
}

// With several labels a picture: pictures without the label, over those with it. The divisor is the number of samples.
static void balanced_labels(void **state) {
    (void)state;
    char folder[] = "/tmp/lockstep_labels_XXXXXX", path[64], command[128];
    assert_non_null(mkdtemp(folder));
    static const char *const files[] = { "a.png", "b.png", "c.png", "l.csv" };
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        FILE *file = fopen(path, "w");
        fputs(i < 3 ? "x" : "file,one,two,all,none\na.png,1,1,1,0\nb.png,0,1,1,0\nc.png,0,0,1,0\n", file);
        fclose(file);
    }
    ls_config cfg = config("train.class_weights=balanced", "data.dataset=folder");
    must(ls_config_set(&cfg, "data.labels=l.csv"));
    must(ls_config_set(&cfg, "data.train_samples=0"));
    must(ls_config_set(&cfg, "data.test_fraction=0"));
    snprintf(cfg.data_path, sizeof cfg.data_path, "%s", folder);
    ls_dataset *dataset = open_train(&cfg);
    ls_class_weights *weights;
    must(ls_class_weights_new(&cfg, dataset, NULL, &weights));
    const float *values = ls_class_weights_values(weights);
    const float expected[] = { 2, 0.5F, 1, 1 };
    for (int k = 0; k < 4; k++) assert_true(values[k] == expected[k]);
    const ls_batches b = { .samples = 3,
        .windows = 1,
        .global_batch = 24,
        .micro_batch = 8,
        .micro_batches = 3,
        .per_rank = 3,
        .world_size = 1 };
    assert_true(ls_class_weights_sum(weights, &b, 0, 0) == 3);
    ls_class_weights_free(weights);
    ls_dataset_free(dataset);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static uint64_t weights_after(const char *class_weights, const char *device) {
    static char network_path[] = "/tmp/lockstep_weights_XXXXXX";
    static const char network[] =
        "[network]\ninput = 3x4x5\n[c]\nlayer = conv2d\nout_channels = 8\nkernel = 3\n"
        "[r]\nlayer = relu\n[p]\nlayer = globalavgpool\n[l]\nlayer = linear\nout_features = 4\n";
    char path[sizeof network_path];
    memcpy(path, network_path, sizeof path);
    assert_int_equal(run_write_network(path, network), 0);
    const char *const options[] = { "data.dataset=synthetic", "data.shape=3x4x5", "data.classes=4",
        "data.train_samples=101", "data.test_samples=8", "train.global_batch=24", "train.micro_batch=8",
        "train.epochs=2", "train.label_smoothing=0.1", "device.threads=1", class_weights, device, NULL };
    run r = { 0 };
    ls_train_summary summary;
    must(run_open(&r, path, (const char *const *const[RUN_LISTS_MAX]){ options }));
    must(ls_trainer_run(r.trainer, NULL, 0, &summary));
    run_close(&r);
    unlink(path);
    return summary.weights_hash;
}

// Gradients and what they are divided by are then both twice as large, which fp32 has exactly.
static void twice_is_once(void **state) {
    (void)state;
    static const char *const devices[] = { "device.type=cpu", "device.type=ref" };
    for (int d = 0; d < 2; d++) {
        const uint64_t none = weights_after("train.class_weights=", devices[d]);
        assert_true(weights_after("train.class_weights=2, 2, 2, 2", devices[d]) == none);
        assert_true(weights_after("train.class_weights=2, 1, 2, 2", devices[d]) != none);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced),
        cmocka_unit_test(sums_of_windows),
        cmocka_unit_test(balanced_labels),
        cmocka_unit_test(refused),
        cmocka_unit_test(twice_is_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
