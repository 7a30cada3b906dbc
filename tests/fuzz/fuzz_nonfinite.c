// The folder of a micro-batch that ended a run. The input is its nonfinite.json, network.ini and weights.safetensors
// (fuzz_part) and its batch.safetensors.
#include <stdlib.h>
#include <string.h>

#include "fuzz/target.h"
#include "train/diagnose/nonfinite_dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[] = { "nonfinite.json", "network.ini", "weights.safetensors", "batch.safetensors" };
    for (int i = 0; i < 4; i++) {
        size_t part_bytes = bytes;
        const uint8_t *part = i < 3 ? fuzz_part(&data, &bytes, &part_bytes) : data;
        fuzz_file(i, part, part_bytes);
        fuzz_link(fuzz_folder(), names[i], i);
    }
    ls_nonfinite_batch batch;
    ls_status status = ls_nonfinite_read(fuzz_folder(), &batch);
    if (status.code == LS_USAGE || fuzz_refused(status, LS_STORAGE, LS_DEVICE)) return 0;
    size_t pixels = (size_t)ls_nchw_count(batch.shape), samples = (size_t)batch.shape.n;
    size_t sizes[] = { pixels, samples * sizeof *batch.labels, samples * sizeof *batch.augment,
        samples * sizeof *batch.samples, (size_t)batch.shape.c * 256 * sizeof *batch.table };
    const void *from[] = { batch.pixels, batch.labels, batch.augment, batch.samples, batch.table };
    for (int i = 0; i < 5; i++) {
        void *copy = malloc(sizes[i]);
        if (!copy) abort();
        memcpy(copy, from[i], sizes[i]);
        free(copy);
    }
    ls_nonfinite_batch_free(&batch);
    return 0;
}
