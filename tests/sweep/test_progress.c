// The row of a run under way: what it shows at each width, from the run's metrics.jsonl, which may be cut or damaged.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "sweep/results.h"
#include "support/cmocka.h"

#define START(planned) \
    "{\"event\":\"start\",\"update\":0,\"train_samples\":1000,\"global_batch\":128,\"updates_planned\":" planned "}\n"
#define TRAIN \
    "{\"event\":\"train\",\"update\":20,\"epoch\":2,\"train_loss\":0.5,\"train_accuracy\":0.75,\"images_per_second\":" \
    "64}\n"

static const struct {
    const char *metrics;
    int columns;
    const char *row;
} rows[] = {
    { START("40") TRAIN, 100,
        "epoch 3/5  ==============--------------  50 %  loss 0.5000  accuracy 75.00 %  64 images/s  left "
        "0:40" },
    { START("40") TRAIN, 60, "epoch 3/5   50 %  loss 0.5000  accuracy 75.00 %  left 0:40" },
    { START("40") TRAIN, 30, "epoch 3/5   50 %  left 0:40" },
    { START("40") TRAIN, 18, "epoch 3/5   50 %" },
    { START("40") TRAIN, 1, " " }, // the percentage is cut
    { START("40") TRAIN, 0, "" },
    { START("40") TRAIN, -2, "" },                            // a terminal of one column
    { START("35") TRAIN, 30, "epoch 3/5   57 %  left 0:30" }, // the last window of an epoch is left out
    { START("40") TRAIN "{\"event\":\"train\",\"update\":2", 30, "epoch 3/5   50 %  left 0:40" },
    { START("-1") TRAIN, 30, "epoch 0/0  -----   0 %  left -" },
    { "no JSON\n" TRAIN, 30, "epoch 0/0  -----   0 %  left -" },
    { START("40"), 100, "" },
    { "", 100, "" },
};

static void a_row_fits_its_columns(void **state) {
    (void)state;
    char folder[] = "/tmp/lockstep-test-XXXXXX", path[64], row[LS_PROGRESS_TEXT_BYTES];
    assert_non_null(mkdtemp(folder));
    assert_string_equal(ls_sweep_progress_text(folder, 80, row), "");
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_false(ls_failed(ls_write_file(path, rows[i].metrics, strlen(rows[i].metrics))));
        ls_sweep_progress_text(folder, rows[i].columns, row);
        if (strcmp(row, rows[i].row) != 0 || (*row && (int)strlen(row) > rows[i].columns))
            fail_msg("row %zu, %d columns: '%s', expected '%s'", i, rows[i].columns, row, rows[i].row);
    }
    unlink(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_row_fits_its_columns) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
