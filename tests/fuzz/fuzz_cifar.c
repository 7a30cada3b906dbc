// CIFAR's files. The input is a byte of flags and the files, one after the other, of about the same size.
//   flags  bit 0: CIFAR-100; bit 1: the test split (one file; CIFAR-10's training set has five);
//          bit 2: the last file is missing; bit 3: the coarse labels of CIFAR-100
#include "fuzz/dataset.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum { MOST = 5 };
    static const char *const names[2][2][MOST] = {
        { { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin" },
            { "test_batch.bin" } },
        { { "train.bin" }, { "test.bin" } },
    };
    if (bytes < 1) return 0;
    int is_100 = data[0] & 1, test = data[0] >> 1 & 1, missing = data[0] >> 2 & 1, count = is_100 || test ? 1 : MOST;
    size_t part = (bytes - 1) / (size_t)count;
    for (int i = 0; i < count; i++) {
        int last = i == count - 1;
        const uint8_t *from = data + 1 + (size_t)i * part;
        fuzz_file(i, from, last ? (size_t)(data + bytes - from) : part);
        fuzz_link(fuzz_folder(), names[is_100][test][i], last && missing ? -1 : i);
    }
    const int of_100 = data[0] & 8 ? LS_DATASET_CIFAR100_COARSE : LS_DATASET_CIFAR100;
    fuzz_dataset(is_100 ? of_100 : LS_DATASET_CIFAR10, test ? LS_SPLIT_TEST : LS_SPLIT_TRAIN);
    return 0;
}
