// metrics.h - metrics.jsonl: the events of a run, one JSON object on each line, for programs.
//
// Every line has `event`, `update` (updates done so far), `epoch` (completed epochs) and `time` (seconds since 1970).
//   start    begins a part of the run. Some members: run (its identity), part (from 1; one for each process),
//            version, device, precision, world_size, threads_per_rank, dataset; train_data, val_data (if it is a split
//            of its own) and test_data (identities, run_info.h); model, parameters, batches, seed, test_samples,
//            optimizer, base_learning_rate, weight_decay, updates_planned; ranks: for each its rank, host, device,
//            name, uuid, pci (of a GPU), cpus; room: unused capacity of rank 0 (run_time.h). If the run continues:
//            resumed_at_update (events of later updates in lines above belong to work that is done again),
//            seconds_before (of training), changed: options that changed, each with option, before, now
//   train    train_loss, train_accuracy, learning_rate, loss_scale, grad_norm, skipped, images_per_second,
//            samples_seen and seconds (of training, over all parts of the run), part_seconds (of this part).
//            Since the start of the part: loader_wait_seconds, comm_seconds_exposed (of rank 0), joules (if known).
//            Since the end of the part's first update: time_spent, the seconds of rank 0 by purpose (run_time.h):
//            seconds, and as parts of them compute, loader_wait, communication_exposed, evaluation, checkpoint and
//            other; compute_by_kind, on devices whose operators run at once, or else enqueue, are parts of compute;
//            core_wait: seconds for which threads that could run waited for a core.
//            With several ranks, ranks: lists with a number for each rank: wait_seconds (for the gradients of other
//            ranks), loader_wait_seconds, core_wait_seconds, compute_seconds.
//            gpus: for each rank its rank, and of a GPU that NVML can read: utilisation (0 to 1), memory_bytes,
//            power_watts, temperature_c, clock_mhz, slowed_by ("power cap")
//   eval     test_loss, test_accuracy, test_samples, seconds. If the run has validation data: val_loss, val_accuracy,
//            val_samples and without_improvement (evaluations in a row without a higher val_accuracy), and test_...
//            only at the end of the run. With test-time augmentation (eval.tta), in the run's last evaluation:
//            tta_loss, tta_accuracy and tta_samples, the number of pictures that were evaluated in all views
//   checkpoint  name, bytes, weights_hash, held_seconds (training waited), seconds (until it was safe on the disk)
//   warning  message
//   nonfinite  the value that ended the run (nonfinite.h): failed_update, failed_epoch, window, cause ("fp16
//            overflow", "diverged", "weight", "input", "sums", "fixed point", "not repeated"), loss_scale, bad_losses,
//            skipped_in_row, later_updates, world_size; rank, host, micro_batch, micro_batches, position, samples,
//            files, samples_of_micro_batch, bad_samples; direction ("forward", "backward", "sums"), layer, operator,
//            instruction, tensor, kind, dtype, shape, elements, nan, infinite, beyond_fixed_point, first
//   end      status ("completed" | "stopped" | "failed"), exit_code, message (of a failure), seconds and part_seconds
//            as in train, including the time after the last update
// Numbers that are not finite are null.
#ifndef LS_RUN_METRICS_H
#define LS_RUN_METRICS_H

#include "base/json.h"
#include "base/status.h"
#include "run/run_info.h"

typedef struct ls_metrics ls_metrics;

// Opens the file and writes the start event. append: continues after the last whole line. LS_STORAGE: the file cannot
// be made, or with append not read or cut.
LS_CHECKED ls_status ls_metrics_open(const char *path, int append, const ls_train_info *info, ls_metrics **out);
ls_train_observer ls_metrics_observer(ls_metrics *metrics);
// Make and write an event of another kind: ls_metrics_event returns the common fields, the caller adds others, and
// ls_metrics_put writes the line and frees the event.
cJSON *ls_metrics_event(ls_metrics *metrics, const char *name, int64_t update, int64_t epoch);
void ls_metrics_put(ls_metrics *metrics, cJSON *event);
// Writes the end event and frees metrics. Returns the first failure of any write: a full disk does not stop the
// training, but a run with incomplete metrics reports that at its end.
LS_CHECKED ls_status ls_metrics_close(ls_metrics *metrics, ls_status run);

// Returns 1 if the first line of the file is a start event.
int ls_metrics_begins(const char *path);
// Finds the update of the last checkpoint event; -1: not found, or not a regular file. LS_STORAGE: cannot be read.
LS_CHECKED ls_status ls_metrics_last_checkpoint(const char *path, int64_t *update);

#endif
