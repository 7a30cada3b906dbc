#include "sweep/prove.h"

#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"

static ls_status compare(
    const ls_sweep_plan *plan, int run, const ls_sweep_result *shared, const ls_sweep_result *alone) {
    char name[LS_SWEEP_NAME_BYTES];
    ls_sweep_run_name(plan, run, name);
    if (strcmp(shared->weights_hash, alone->weights_hash) != 0)
        return ls_fail(LS_INTERNAL,
            "%s: its weights are %s, and %s if it is trained alone (%s/alone): train compare names the first "
            "difference",
            name, shared->weights_hash, alone->weights_hash, plan->folder);
    ls_info("proved    %s: the same bits alone, %s", name, alone->weights_hash);
    return LS_SUCCESS;
}

// Trains the runs that are not complete in `again`, without stems, in a folder of their own.
static ls_status train_alone(const ls_sweep_plan *plan, ls_sweep_result *again, const ls_sweep_jobs_options *options) {
    ls_sweep_plan alone = *plan;
    alone.stem_count = 0;
    LS_TRY(ls_path_join(alone.folder, sizeof alone.folder, plan->folder, "alone"));
    ls_info("proof     two of the runs again, in %s", alone.folder);
    return ls_sweep_jobs(&alone, again, options);
}

ls_status ls_sweep_prove(
    const ls_sweep_plan *plan, const ls_sweep_result *results, const ls_sweep_jobs_options *options) {
    int first = -1, last = -1;
    for (int run = 0; run < plan->runs; run++) {
        if (ls_sweep_parent(plan, run) < 0) continue;
        if (first < 0) first = run;
        last = run;
    }
    ls_sweep_result *again = ls_new(plan->runs, sizeof *again, "results of %d runs", plan->runs);
    for (int run = 0; run < plan->runs; run++)
        again[run].state = run == first || run == last ? LS_SWEEP_NEW : LS_SWEEP_COMPLETE;
    ls_status status = train_alone(plan, again, options);
    LS_THEN(status, compare(plan, first, &results[first], &again[first]));
    if (last != first) LS_THEN(status, compare(plan, last, &results[last], &again[last]));
    free(again);
    return status;
}
