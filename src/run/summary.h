// summary.h - summary.json: the result of a completed run, for programs.
#ifndef LS_RUN_SUMMARY_H
#define LS_RUN_SUMMARY_H

#include "base/status.h"
#include "run/run_info.h"

// Writes summary.json atomically. Members' names end with their units; accuracies are 0..1. Some members:
//   run                  the run's identity
//   peak_memory_bytes    {device, host}: maxima over ranks
//   weights_hash         16 hex digits
//   best_checkpoint      the kept checkpoint with the best accuracy
//   parts                the processes that computed the run (run_parts.h)
//   last_part            {updates, samples, seconds, images_per_second} of the last part of a continued run; updates,
//                        samples_seen, wall_seconds and train_images_per_second are over all parts
// The following are of the last part:
//   time                 seconds of rank 0 by purpose, like time_spent in metrics.h
//   verdict              binds ("compute", "loader", "communication", "launches" or "cores"), text; option and value if
//                        it suggests a setting (verdict.h)
//   energy               joules, joules_per_image (of training pictures), sources (texts), without (parts that are not
//                        counted, and the reason); or only unknown, the reason
//   waiting times, memory, gpus, stragglers, time_to_first_update_seconds
LS_CHECKED ls_status ls_summary_write(const char *path, const ls_train_info *info, const ls_train_summary *summary);

#endif
