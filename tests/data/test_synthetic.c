// Synthetic pictures: the values are those of the definition, whatever shape they have.
#include "data_files.h"

#include "base/philox.h"
#include "config/purpose.h"

static void values_are_as_defined(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        ls_chw want;
        int classes;
    } rows[] = { { "3x32x32", { 3, 32, 32 }, 10 }, { "1x28x28", { 1, 28, 28 }, 2 }, { "1x1x1", { 1, 1, 1 }, 3 },
        { "5x3x7", { 5, 3, 7 }, 1000 }, { "16x1x2", { 16, 1, 2 }, 65536 } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        for (int split = 0; split < 2; split++) {
            ls_config cfg = config_for(LS_DATASET_SYNTHETIC, "");
            snprintf(cfg.data_shape, sizeof cfg.data_shape, "%s", rows[r].shape);
            cfg.data_classes = rows[r].classes;
            cfg.run_seed = 77;
            ls_dataset *dataset;
            require_ok(ls_dataset_open(&cfg, split ? LS_SPLIT_TEST : LS_SPLIT_TRAIN, &dataset), "open");
            const ls_dataset_info *facts = ls_dataset_get_info(dataset);
            assert_true(ls_chw_equal(rows[r].want, facts->shape));
            assert_int_equal(split ? 10000 : 50000, facts->count);
            size_t bytes = (size_t)ls_chw_count(facts->shape);
            uint8_t *pixels = malloc(bytes + 1);
            for (int64_t i = 0; i < facts->count; i += 4999) {
                int32_t label;
                pixels[bytes] = 0xa5;
                require_ok(ls_dataset_read(dataset, i, pixels, &label), "read");
                uint32_t word = ls_random_word(77, LS_PURPOSE_SYNTHETIC, (uint32_t)split, (uint32_t)i, 1 << 20);
                assert_int_equal(ls_below(word, (uint32_t)rows[r].classes), label);
                for (size_t j = 0; j < bytes; j++) {
                    uint32_t four = ls_random_word(77, LS_PURPOSE_SYNTHETIC, (uint32_t)split, (uint32_t)i, j / 4);
                    int byte = (int)(four >> 8 * (j % 4) & 255), want = (byte + 16 * (label % 8)) / 2;
                    if (pixels[j] != want)
                        fail_msg("%s sample %d pixel %zu: %d, expected %d", rows[r].shape, (int)i, j, pixels[j], want);
                }
                assert_int_equal(0xa5, pixels[bytes]); // nothing beyond
            }
            free(pixels);
            ls_dataset_free(dataset);
        }
    }
}

static void checksum_follows_what_decides_the_pixels(void **state) {
    (void)state;
    uint64_t seen[6];
    for (int i = 0; i < 6; i++) {
        ls_config cfg = config_for(LS_DATASET_SYNTHETIC, "");
        if (i == 1) cfg.run_seed = 2;
        if (i == 2) cfg.data_classes = 11;
        if (i == 3) cfg.data_train_samples = 100;
        if (i == 4) snprintf(cfg.data_shape, sizeof cfg.data_shape, "3x64x16");
        ls_dataset *dataset;
        require_ok(ls_dataset_open(&cfg, i == 5 ? LS_SPLIT_TEST : LS_SPLIT_TRAIN, &dataset), "open");
        if (i == 3) assert_int_equal(100, ls_dataset_get_info(dataset)->count);
        seen[i] = ls_dataset_get_info(dataset)->checksum;
        for (int k = 0; k < i; k++) assert_true(seen[k] != seen[i]);
        ls_dataset_free(dataset);
    }
}

static void bad_shapes_are_refused(void **state) {
    (void)state;
    static const char *const shapes[] = { "", "3", "3x32", "3x32x32x1", "0x32x32", "3x0x32", "17x1x1", "3x65536x1",
        "3x32x32 ", " 3x32x32", "3X32X32", "-3x32x32", "3x32x", "16x65535x65535", "3x99999999999999999999x1", "axbxc" };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        ls_config cfg = config_for(LS_DATASET_SYNTHETIC, "");
        snprintf(cfg.data_shape, sizeof cfg.data_shape, "%s", shapes[i]);
        ls_dataset *dataset;
        require_failure(shapes[i], ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), LS_USAGE,
            (const char *[MAX_PARTS]){ "data.shape = ", shapes[i], "CxHxW" });
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_as_defined),
        cmocka_unit_test(checksum_follows_what_decides_the_pixels),
        cmocka_unit_test(bad_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
