// run_parts.h - the parts of a run: one for each process that trained it.
//
// A part is a JSON object: run, after_update (update after which it began; 0: from the start), samples_before and
// seconds_before (training in the earlier parts), started (seconds since 1970), version, device, device_name,
// world_size, threads_per_rank, micro_batch, accumulation_steps. If the run began with weights of a file, init: file,
// hash, tensors_taken, tensors. If options differ from the part before, changed: a list of option, before, now. Each
// checkpoint contains the parts that led to it, so a run may also continue from an older checkpoint.
#ifndef LS_RUN_RUN_PARTS_H
#define LS_RUN_RUN_PARTS_H

#include <stdio.h>
#include "base/json.h"
#include "run/snapshot.h"

// Returns the parts in a checkpoint's manifest, plus the part of this process, which continues from it. For a new run
// (manifest and counters NULL) the list has only this process's part. Takes over changed, which may be NULL. The caller
// frees the list with cJSON_Delete.
cJSON *ls_run_parts_new(
    const ls_train_info *info, const cJSON *manifest, const ls_train_counters *counters, cJSON *changed);
// Writes comments for the head of a configuration: the parts of the run that used it, and whether it repeats the run.
void ls_run_parts_write(const ls_train_info *info, FILE *file);

#endif
