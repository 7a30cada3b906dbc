// summary.h - summary.json: the result of a completed run, for programs.
#ifndef LS_RUN_SUMMARY_H
#define LS_RUN_SUMMARY_H

#include "base/status.h"
#include "run/run_info.h"

// Written atomically. Units are in the names, accuracies are 0..1, peak_memory_bytes is an object {device, host} (maxima
// over ranks), weights_hash is 16 hex digits, run the run's identity, best_checkpoint the retained one with the best test
// accuracy. parts: what computed the run, from which update on (run_parts.h). Of a run in several parts updates,
// samples_seen, wall_seconds and train_images_per_second are of all of them, last_part has those of the last; time (where
// rank 0's went, as time_spent in metrics.h), verdict (binds: "compute", "loader", "communication", "launches" or "cores", text; option and
// value, if it suggests a setting; verdict.h), waiting times, memory, gpus, energy, stragglers and
// time_to_first_update_seconds are of the last. energy has joules, joules_per_image (of training pictures), sources (texts) and
// without (what is not in it, and why), or unknown alone, the reason.
LS_CHECKED ls_status ls_summary_write(const char *path, const ls_train_info *info, const ls_train_summary *summary);

#endif
