// dataset.h - opens the data set in fuzz_folder() and reads every sample of it.
#ifndef TESTS_FUZZ_DATASET_H
#define TESTS_FUZZ_DATASET_H

#include <stdio.h>
#include <stdlib.h>

#include "data/dataset.h"
#include "fuzz/target.h"

static inline void fuzz_dataset(int kind, ls_split split) {
    ls_config cfg;
    ls_config_defaults(&cfg);
    cfg.data_dataset = kind;
    snprintf(cfg.data_path, sizeof cfg.data_path, "%s", fuzz_folder());
    snprintf(cfg.data_image_size, sizeof cfg.data_image_size, "3x5");
    ls_dataset *set;
    if (fuzz_refused(ls_dataset_open(&cfg, split, &set), LS_DATA, LS_USAGE)) return;
    const ls_dataset_info *facts = ls_dataset_get_info(set);
    fuzz_expect(facts->count > 0 && facts->classes > 1, "%lld samples", (long long)facts->count);
    uint8_t *pixels = malloc((size_t)ls_chw_count(facts->shape));
    if (!pixels) abort();
    for (int64_t i = 0; i < facts->count; i++) {
        int32_t label;
        if (fuzz_refused(ls_dataset_read(set, i, pixels, &label), LS_DATA, LS_OK)) continue;
        fuzz_expect(label >= 0 && label < facts->classes, "label %d of sample %lld", label, (long long)i);
        fuzz_expect(*ls_dataset_class(set, label), "class %d has no name", label);
    }
    free(pixels);
    ls_dataset_free(set);
}

#endif
