// run_parts.h - what computed a run, from which update on: a part for each process that trained it.
//
// A part is a JSON object: run, after_update (0: from the start), samples_before and seconds_before (of training, in the
// parts before), started (seconds since 1970), version, device, device_name, world_size, threads_per_rank, micro_batch,
// accumulation_steps; init, where the run began with weights of a file: file, hash, tensors_taken, tensors; changed, where options are not those of the part before: a list of option, before, now. Parts
// travel in checkpoints, so that every checkpoint names what it came from, also after an older one was taken.
#ifndef LS_RUN_RUN_PARTS_H
#define LS_RUN_RUN_PARTS_H

#include <stdio.h>
#include "base/json.h"
#include "run/snapshot.h"

// The parts of the checkpoint's manifest and this process's, which goes on from it; of a new run (manifest and counters
// NULL) this process's alone. changed (may be NULL) is taken. cJSON_Delete the list; NULL: no memory.
cJSON *ls_run_parts_new(
    const ls_train_info *info, const cJSON *manifest, const ls_train_counters *counters, cJSON *changed);
// For a configuration's head, as comments: what it led to, and whether it repeats the run.
void ls_run_parts_write(const ls_train_info *info, FILE *file);

#endif
