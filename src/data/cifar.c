// cifar.c - reads binary CIFAR-10 and CIFAR-100 files: records of labels and 3072 pixel bytes (planes R, G, B).
//
// CIFAR-10: one label byte; five training files and one test file. CIFAR-100: a coarse and a fine label; one training
// file and one test file. The data set cifar100 uses the fine labels, cifar100-coarse the coarse ones. A file may have
// any number of records, because extracts of the sets exist. The published files have 10000 (CIFAR-10), 50000 and 10000
// records (CIFAR-100). Source: https://www.cs.toronto.edu/~kriz/cifar.html
#include "data/format.h"

#include "base/atomic_file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/data_file.h"

enum { PIXEL_BYTES = 3 * 32 * 32, MAX_FILES = 5 };

typedef struct {
    const char *files[2][MAX_FILES + 1]; // training set, then test set; each list ends with NULL
    int label_bytes, label;  // label_bytes: labels before the pixels; label: index of the label that is used
    const char *other_label; // name of the label that is not used
    int other_classes;       // number of classes of that label
} layout;

// Reads the records of all files, one after the other, into dataset->memory[0]. count[i]: the records in file i.
static ls_status read_records(
    ls_dataset *dataset, size_t record_bytes, char (*paths)[LS_TEXT_BYTES], int files, int64_t *count) {
    ls_input file[MAX_FILES];
    ls_status status = LS_SUCCESS;
    int opened = 0;
    size_t total = 0, at = 0;
    for (; opened < files; opened++) {
        LS_TRY_GOTO(ls_data_file_open(paths[opened], &file[opened]));
        ls_data_file_note(&file[opened]);
        size_t bytes = file[opened].bytes, whole = bytes / record_bytes, rest = bytes % record_bytes;
        if (rest != 0) {
            status = ls_fail(LS_DATA,
                "%s: has %zu bytes: %zu records of %zu bytes and %zu bytes over, from byte %zu; expected "
                "whole records: fetch the file again",
                paths[opened], bytes, whole, record_bytes, rest, whole * record_bytes);
            opened++;
            goto done;
        }
        count[opened] = (int64_t)whole;
        total += bytes;
    }
    LS_TRY_GOTO(ls_memory_new(total, dataset->facts.name, &dataset->memory[0]));
    for (int i = 0; i < files; i++) {
        LS_TRY_GOTO(ls_data_file_read(&file[i], 0, (uint8_t *)dataset->memory[0] + at, file[i].bytes));
        at += file[i].bytes;
    }
done:
    for (int i = 0; i < opened; i++) ls_input_close(&file[i]);
    return status;
}

// Checks the unused label (coarse or fine) of each CIFAR-100 record. LS_DATA: a label is out of range, which shows that
// the record is damaged.
static ls_status check_other_labels(
    const uint8_t *labels, size_t record_bytes, const layout *set, int64_t count, const char *path) {
    for (int64_t i = 0; i < count; i++, labels += record_bytes) {
        if (*labels < set->other_classes) continue;
        return ls_fail(LS_DATA, "%s: record %lld has %s label %d, expected 0 to %d; fetch the file again", path,
            (long long)i, set->other_label, *labels, set->other_classes - 1);
    }
    return LS_SUCCESS;
}

static ls_status open_layout(const ls_config *cfg, ls_dataset *dataset, const layout *set) {
    const char *const *names = set->files[dataset->split == LS_SPLIT_TEST];
    int files = 0;
    while (names[files]) files++;
    char folder[LS_TEXT_BYTES], paths[MAX_FILES][LS_TEXT_BYTES];
    LS_TRY(ls_dataset_find(cfg, dataset, names, files, folder));
    for (int i = 0; i < files; i++) LS_TRY(ls_path_join(paths[i], LS_TEXT_BYTES, folder, names[i]));

    size_t label_bytes = (size_t)set->label_bytes, record_bytes = label_bytes + PIXEL_BYTES;
    int64_t count[MAX_FILES] = { 0 }, total = 0;
    LS_TRY(read_records(dataset, record_bytes, paths, files, count));
    const uint8_t *records = dataset->memory[0];
    dataset->facts.shape = (ls_chw){ 3, 32, 32 };
    dataset->pixels = records + label_bytes;
    dataset->labels = records + set->label;
    dataset->pixel_stride = dataset->label_stride = record_bytes;
    for (int i = 0; i < files; i++) {
        LS_TRY(ls_dataset_check_labels(dataset, paths[i], total, count[i]));
        const uint8_t *others = records + (size_t)total * record_bytes + 1 - set->label;
        if (label_bytes == 2) LS_TRY(check_other_labels(others, record_bytes, set, count[i], paths[i]));
        total += count[i];
    }
    LS_TRY(ls_dataset_limit(cfg, dataset, total));
    dataset->facts.checksum = ls_hash(records, (size_t)dataset->facts.count * record_bytes);
    return LS_SUCCESS;
}

ls_status ls_cifar10_open(const ls_config *cfg, ls_dataset *dataset) {
    static const layout cifar10 = {
        { { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin" },
            { "test_batch.bin" } },
        .label_bytes = 1,
    };
    return open_layout(cfg, dataset, &cifar10);
}

ls_status ls_cifar100_open(const ls_config *cfg, ls_dataset *dataset) {
    static const layout fine = { { { "train.bin" }, { "test.bin" } }, 2, 1, "coarse", 20 };
    return open_layout(cfg, dataset, &fine);
}

ls_status ls_cifar100_coarse_open(const ls_config *cfg, ls_dataset *dataset) {
    static const layout coarse = { { { "train.bin" }, { "test.bin" } }, 2, 0, "fine", 100 };
    return open_layout(cfg, dataset, &coarse);
}
