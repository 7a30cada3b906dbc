// metrics.jsonl for `train metrics`, as CSV of several kinds of events: a row for each event, with as many cells as the
// header has, and without control characters.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/metrics_export.h"
#include "fuzz/target.h"

// Cells of a row, which may be quoted.
static int count_cells(const char *from, const char *end) {
    int cells = 1, quoted = 0;
    for (; from < end; from++) {
        quoted ^= *from == '"';
        cells += *from == ',' && !quoted;
    }
    fuzz_expect(!quoted, "a quote without its end");
    return cells;
}

static void check_rows(const char *text, size_t bytes) {
    int cells = 0;
    for (const char *from = text; from < text + bytes;) {
        const char *end = memchr(from, '\n', bytes - (size_t)(from - text));
        fuzz_expect(end != NULL, "a line without its end");
        for (const char *at = from; at < end; at++)
            fuzz_expect((unsigned char)*at >= 32 && *at != 127, "control character %d", *at);
        if (!cells) cells = count_cells(from, end);
        fuzz_expect(count_cells(from, end) == cells, "a row of other length");
        from = end + 1;
    }
}

static void write_csv(ls_metrics_reader *reader, const char *kind) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    fuzz_expect(file != NULL, "no memory");
    ls_status status = ls_metrics_write_csv(reader, kind, file);
    fclose(file);
    if (!fuzz_refused(status, LS_USAGE, LS_STORAGE)) check_rows(text, bytes);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const kinds[] = { "train", "eval", "start", "warning" };
    ls_metrics_reader *reader;
    if (fuzz_refused(ls_metrics_reader_open(fuzz_file(0, data, bytes), &reader), LS_STORAGE, LS_OK)) return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) write_csv(reader, kinds[i]);
    ls_metrics_reader_close(reader);
    return 0;
}
