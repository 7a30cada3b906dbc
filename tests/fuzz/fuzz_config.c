// A configuration file: read, checked, written and read again to the same values.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "fuzz/target.h"
#include "train/never_reached.h"
#include "train/schedule.h"

static char *written(const ls_config *cfg, size_t *bytes) {
    char *text = NULL;
    FILE *memory = open_memstream(&text, bytes);
    if (!memory) abort();
    ls_config_write(cfg, memory, 0);
    if (fclose(memory) != 0) abort();
    return text;
}

static void take_line(void *context, const char *line) {
    (void)context;
    fuzz_expect(strlen(line) > 0, "an empty line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_config cfg, again;
    ls_config_defaults(&cfg);
    if (fuzz_refused(ls_config_read_file(&cfg, fuzz_file(0, data, bytes)), LS_USAGE, LS_OK)) return 0;
    size_t text_bytes, again_bytes;
    char *text = written(&cfg, &text_bytes);
    ls_config_defaults(&again);
    ls_status status = ls_config_read_file(&again, fuzz_file(0, text, text_bytes));
    fuzz_expect(!ls_failed(status), "%s\n%s", status.text, text);
    char *text_again = written(&again, &again_bytes);
    fuzz_expect(strcmp(text, text_again) == 0, "%s\nand again:\n%s", text, text_again);
    free(text);
    free(text_again);

    if (fuzz_refused(ls_config_check(&cfg), LS_USAGE, LS_OK)) return 0;
    ls_schedule schedule;
    const ls_batches batches = { .samples = 1000, .windows = 10, .global_batch = 108 };
    if (fuzz_refused(ls_schedule_new(&cfg, &batches, &schedule), LS_USAGE, LS_OK)) return 0;
    for (int i = 0; i <= 4; i++) {
        double factor = ls_schedule_factor(&schedule, cfg.train_epochs * 10 * i / 4);
        fuzz_expect(factor >= 0 && factor <= 1, "learning rate's factor %g at %d/4 of the run", factor, i);
    }
    const ls_dataset_info tests = { .count = 100 };
    const ls_comm_info ranks = { .world_size = 2 };
    const ls_train_info info = { .cfg = &cfg,
        .batches = batches,
        .updates_planned = cfg.train_epochs * batches.windows,
        .test_data = &tests,
        .comm = &ranks };
    ls_never_reached(&info, take_line, NULL);
    return 0;
}
