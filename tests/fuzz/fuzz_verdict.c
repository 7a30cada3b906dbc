// The events of a run that say where its time went, from a file that anybody may have written: the facts, the verdict and
// its texts. The input is a start event, a line's end, and a train event.
#include <stdlib.h>
#include <string.h>
#include "cli/run_verdict.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const char *text = (const char *)data, *end = memchr(text, '\n', bytes);
    if (!end) return 0;
    cJSON *start = cJSON_ParseWithLength(text, (size_t)(end - text));
    cJSON *train = cJSON_ParseWithLength(end + 1, bytes - (size_t)(end + 1 - text));
    static ls_run_verdict run;
    run = (ls_run_verdict){ 0 };
    ls_config_defaults(&run.cfg);
    if (ls_run_verdict_take(&run, start, train, ls_json_get(start, "time"))) {
        char shares[LS_VERDICT_SHARES_BYTES];
        const ls_verdict v = ls_verdict_find(&run.facts);
        fuzz_expect(run.facts.ranks == 1 || run.facts.each != NULL, "several ranks have no times");
        const int is_short = run.facts.time.seconds < 1 || run.facts.updates < LS_VERDICT_UPDATES_MIN;
        fuzz_expect(is_short || v.text[0] != 0, "no verdict");
        fuzz_expect(!v.option[0] == !v.value[0], "an option without a value");
        if (v.text[0]) fuzz_expect(ls_verdict_shares(&run.facts.time, shares)[0] != 0, "no shares");
    }
    free(run.each);
    cJSON_Delete(start);
    cJSON_Delete(train);
    return 0;
}
