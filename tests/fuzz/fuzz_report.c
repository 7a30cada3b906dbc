// The folder of a run or a benchmark, as `train report` reads it. The input is its metrics.jsonl, config.ini, summary.json and
// evaluation.json (fuzz_part) and its bench.json.
#include <string.h>

#include "base/log.h"
#include "tools/report/page.h"
#include "tools/report/collect.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[] = { "metrics.jsonl", "config.ini", "summary.json", "evaluation.json",
        "bench.json" };
    ls_log_setup(0, 1, LS_LOG_ERROR);
    for (int i = 0; i < 5; i++) {
        size_t part_bytes = bytes;
        const uint8_t *part = i < 4 ? fuzz_part(&data, &bytes, &part_bytes) : data;
        fuzz_file(i, part, part_bytes);
        fuzz_link(fuzz_folder(), names[i], part_bytes ? i : -1);
    }
    ls_collected_folders folders;
    const char *folder = fuzz_folder();
    ls_status status = ls_collect_find(&folder, 1, &folders);
    if (!fuzz_refused(status, LS_USAGE, LS_STORAGE)) {
        cJSON *page = ls_page_data();
        fuzz_expect(!ls_failed(ls_collect_data(&folders, page)), "what is there is shown");
        char *text = ls_json_text(page, 0);
        cJSON *again = text ? cJSON_Parse(text) : NULL;
        fuzz_expect(again != NULL, "the page's data is no JSON");
        cJSON_Delete(again);
        cJSON_free(text);
        cJSON_Delete(page);
    }
    ls_collect_free(&folders);
    return 0;
}
