// What a run's folder says, to `train compare` and `train sweep`. The input's parts: metrics.jsonl, config.ini, summary.json and
// sweep.json of a folder, then the first three of another one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/compare/compare.h"
#include "sweep/folder.h"
#include "sweep/results.h"
#include "fuzz/target.h"

enum { OF_SWEEP = 4, CONFIG = 5 };
static const char *const names[] = { "metrics.jsonl", "config.ini", "summary.json", "sweep.json" };
static const char config[] = "[data]\ndataset = synthetic\n[optimizer]\nlr = 0.1\n";

static void link_parts(const uint8_t **data, size_t *bytes, int count) {
    for (int i = 0; i < count; i++) {
        size_t part_bytes;
        const uint8_t *part = fuzz_part(data, bytes, &part_bytes);
        fuzz_file(i, part, part_bytes);
        fuzz_link(fuzz_folder(), names[i], part_bytes ? i : -1);
    }
}

static ls_side *read_run(void) {
    ls_side *side;
    return fuzz_refused(ls_side_read(fuzz_folder(), &side), LS_STORAGE, LS_OK) ? NULL : side;
}

static void compare(ls_side *a, ls_side *b) {
    cJSON *report;
    if (fuzz_refused(ls_compare(a, b, &report), LS_STORAGE, LS_OK)) return;
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) abort();
    ls_compare_print(report, memory);
    fclose(memory);
    for (size_t i = 0; i < bytes; i++)
        fuzz_expect((unsigned char)text[i] >= 32 || text[i] == '\n', "control character %d", text[i]);
    fuzz_refused(ls_compare_outcome(report), LS_NUMERIC, LS_OK);
    free(text);
    cJSON_Delete(report);
}

// The folder stands for that of a sweep and for that of its only run.
static void look_as_sweep(void) {
    ls_args args = { .command = LS_COMMAND_SWEEP, .config = fuzz_file(CONFIG, config, strlen(config)), .seeds = "3" };
    char link[512], progress[LS_PROGRESS_TEXT_BYTES];
    ls_sweep_plan plan;
    ls_sweep_result result;
    cJSON *record;
    args.run_dir = fuzz_folder();
    snprintf(link, sizeof link, "%s/seed=3", fuzz_folder());
    fuzz_expect(symlink(".", link) == 0, "symlink %s failed", link);
    fuzz_expect(!ls_failed(ls_sweep_plan_new(&args, &plan)), "no plan");
    if (!fuzz_refused(ls_sweep_look(&plan, 0, &result), LS_USAGE, LS_STORAGE))
        fuzz_expect(strlen(result.weights_hash) <= 16, "hash %s", result.weights_hash);
    if (!fuzz_refused(ls_sweep_folder_read(&plan, &record), LS_USAGE, LS_STORAGE)) cJSON_Delete(record);
    ls_sweep_progress_text(fuzz_folder(), 80, progress);
    ls_sweep_plan_free(&plan);
    unlink(link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    link_parts(&data, &bytes, OF_SWEEP);
    look_as_sweep();
    ls_side *a = read_run();
    link_parts(&data, &bytes, OF_SWEEP - 1);
    ls_side *b = read_run();
    if (a && b) compare(a, b);
    ls_side_free(a);
    ls_side_free(b);
    for (int i = 0; i < OF_SWEEP; i++) fuzz_link(fuzz_folder(), names[i], -1);
    return 0;
}
