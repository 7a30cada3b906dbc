// The first batch of the golden curves: the synthetic data set has the pixels and labels of scripts/make_golden.py.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/json.h"
#include "data/dataset.h"
#include "support/cmocka.h"

static int int_of(const cJSON *golden, const char *name) {
    const cJSON *item = cJSON_GetObjectItem(golden, name);
    if (!cJSON_IsNumber(item)) fail_msg("no number '%s' in the golden file", name);
    return item->valueint;
}

static void compare(const char *network, const cJSON *golden, ls_dataset *dataset) {
    const cJSON *data = cJSON_GetObjectItem(golden, "data"), *pixels = cJSON_GetObjectItem(data, "first_pixels");
    const cJSON *labels = cJSON_GetObjectItem(data, "first_labels"),
                *counts = cJSON_GetObjectItem(data, "first_label_counts");
    const int64_t elements = ls_chw_count(ls_dataset_get_info(dataset)->shape);
    uint8_t *picture = malloc((size_t)elements);
    assert_non_null(picture);
    int64_t sum = 0;
    int counted[10] = { 0 };
    for (int i = 0; i < int_of(golden, "batch"); i++) {
        int32_t label = -1;
        assert_int_equal(ls_dataset_read(dataset, i, picture, &label).code, LS_OK);
        assert_in_range(label, 0, 9);
        counted[label]++;
        if (i < cJSON_GetArraySize(labels) && label != cJSON_GetArrayItem(labels, i)->valueint) {
            fail_msg("%s: label %d is %d, expected %d", network, i, label, cJSON_GetArrayItem(labels, i)->valueint);
        }
        for (int64_t k = 0; k < elements; k++) sum += picture[k];
        for (int k = 0; i == 0 && k < cJSON_GetArraySize(pixels); k++) {
            const int expected = cJSON_GetArrayItem(pixels, k)->valueint;
            if (picture[k] != expected) fail_msg("%s: pixel %d is %d, expected %d", network, k, picture[k], expected);
        }
    }
    free(picture);
    for (int k = 0; k < 10; k++) assert_int_equal(counted[k], cJSON_GetArrayItem(counts, k)->valueint);
    assert_int_equal(sum, int_of(data, "first_pixel_sum"));
}

static void first_batches(void **state) {
    (void)state;
    static const char *const networks[] = { "lenet", "resnet9", "resnet20" };
    for (int n = 0; n < 3; n++) {
        char file[64];
        snprintf(file, sizeof file, "tests/golden/%s.json", networks[n]);
        cJSON *golden = NULL;
        ls_status status = ls_json_read_file(file, &golden);
        if (ls_failed(status)) fail_msg("%s", status.text);
        const cJSON *input = cJSON_GetObjectItem(golden, "input");
        ls_config cfg;
        ls_config_defaults(&cfg);
        cfg.run_seed = int_of(golden, "seed");
        cfg.data_dataset = LS_DATASET_SYNTHETIC;
        cfg.data_classes = int_of(golden, "classes");
        snprintf(cfg.data_shape, sizeof cfg.data_shape, "%dx%dx%d", cJSON_GetArrayItem(input, 0)->valueint,
            cJSON_GetArrayItem(input, 1)->valueint, cJSON_GetArrayItem(input, 2)->valueint);
        ls_dataset *dataset = NULL;
        status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset);
        if (ls_failed(status)) fail_msg("%s", status.text);
        compare(networks[n], golden, dataset);
        ls_dataset_free(dataset);
        cJSON_Delete(golden);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(first_batches) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
