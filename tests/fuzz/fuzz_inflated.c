// Inflated files. The input is a file as it may lie in the cache folder, in the place of MNIST's images; and again with its header
// put right. Whatever it holds, the set is what its own files have.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "data/dataset.h"
#include "data/inflated.h"
#include "fuzz/target.h"

enum { PAGE = 4096, HEADER = 64, SAMPLES = 2, ROWS = 2, COLUMNS = 3, PIXELS = ROWS * COLUMNS };

static const uint8_t labels[8 + SAMPLES] = { 0, 0, 8, 1, 0, 0, 0, SAMPLES, 3, 7 };
static const uint8_t images[16 + SAMPLES * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, ROWS, 0, 0, 0, COLUMNS, 1,
    2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };

static const char *path_of(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    return path;
}

static void put(const char *name, const uint8_t *bytes, size_t count) {
    gzFile file = gzopen(path_of(name), "wb");
    fuzz_expect(file && gzwrite(file, bytes, (unsigned)count) == (int)count && gzclose(file) == Z_OK, "%s", name);
}

// Where the images are kept.
static const ls_inflated *find_place(void) {
    static ls_inflated place;
    ls_input source;
    if (place.path[0]) return &place;
    put("train-labels-idx1-ubyte.gz", labels, sizeof labels);
    put("train-images-idx3-ubyte.gz", images, sizeof images);
    fuzz_expect(!ls_failed(ls_input_open(path_of("train-images-idx3-ubyte.gz"), &source)), "no source");
    ls_inflated_open(fuzz_folder(), &source, &place);
    ls_inflated_close(&place);
    ls_input_close(&source);
    fuzz_expect(place.path[0], "no place");
    return &place;
}

static void try_file(const uint8_t *data, size_t bytes) {
    FILE *file = fopen(find_place()->path, "wb");
    fuzz_expect(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0, "cannot write the file");
    ls_config cfg;
    ls_config_defaults(&cfg);
    cfg.data_dataset = LS_DATASET_MNIST;
    snprintf(cfg.data_path, sizeof cfg.data_path, "%s", fuzz_folder());
    snprintf(cfg.data_cache, sizeof cfg.data_cache, "%s", fuzz_folder());
    ls_dataset *set;
    ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &set);
    fuzz_expect(!ls_failed(status), "%s", status.text);
    const ls_dataset_info *facts = ls_dataset_get_info(set);
    fuzz_expect(facts->count == SAMPLES && facts->shape.h == ROWS && facts->shape.w == COLUMNS, "another set");
    for (int i = 0; i < SAMPLES; i++) {
        uint8_t pixels[PIXELS];
        int32_t label;
        fuzz_expect(!ls_failed(ls_dataset_read(set, i, pixels, &label)), "sample %d", i);
        fuzz_expect(label == labels[8 + i] && memcmp(pixels, images + 16 + i * PIXELS, PIXELS) == 0, "sample %d", i);
    }
    ls_dataset_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const ls_inflated *place = find_place();
    try_file(data, bytes);
    if (bytes <= PAGE) return 0;
    uint8_t *mended = malloc(bytes);
    if (!mended) abort();
    memcpy(mended, data, bytes);
    const uint64_t count = bytes - PAGE;
    memcpy(mended, "lockstep inflated file 1\n\0\0\0\0\0\0", 32);
    memcpy(mended + 32, &place->stamp, 8);
    memcpy(mended + 40, &count, 8);
    const uint64_t hash = ls_hash(mended, HEADER - 8);
    memcpy(mended + HEADER - 8, &hash, 8);
    try_file(mended, bytes);
    free(mended);
    return 0;
}
