// A CSV file with several labels a picture (data.labels).
#include <string.h>
#include "data/label_file.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_label_file *labels = NULL;
    if (fuzz_refused(ls_label_file_read(fuzz_file(0, data, bytes), &labels), LS_DATA, LS_OK)) return 0;
    fuzz_expect(labels->label_count > 0 && labels->row_count > 0, "%d labels", labels->label_count);
    for (int64_t i = 0; i < labels->row_count; i++) {
        fuzz_expect(*labels->rows[i].file, "row %d names no picture", (int)i);
        fuzz_expect(
            ls_label_file_find(labels, labels->rows[i].file) == &labels->rows[i], "row %d is not found", (int)i);
    }
    for (int64_t i = 0; i < labels->row_count * labels->label_count; i++)
        fuzz_expect(labels->sets[i] <= 1, "value %d", labels->sets[i]);
    ls_label_file_free(labels);
    return 0;
}
