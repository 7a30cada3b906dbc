// metrics.h - metrics.jsonl: what happened in a run, one JSON object a line, for programs.
//
// Every line has `event`, `update` (done so far), `epoch` (completed ones), `time` (seconds since 1970).
//   start    run (its identity), part (from 1: one for each process that trained it), version, device, precision,
//            world_size, threads_per_rank, dataset, train_data, val_data (if it is a split of its own) and test_data
//            (identities, run_info.h), model, parameters, batches, seed, test_samples, optimizer,
//            base_learning_rate, weight_decay, updates_planned; of a run that goes
//            on resumed_at_update (lines of later updates above it are of work that is done again), seconds_before (of
//            training, up to there) and changed, options that are others than before: option, before, now of each;
//            ranks: for each its rank, host, device, name, uuid, pci (of a GPU), cpus; room, what other settings would
//            find on rank 0 (run_time.h)
//   train    train_loss, train_accuracy, learning_rate, loss_scale, grad_norm, skipped, images_per_second,
//            samples_seen and seconds (of training, over all parts of the run), part_seconds (of this one), and since
//            its start loader_wait_seconds, comm_seconds_exposed, joules (where they can be read; train/energy.h); since the end of its
//            first update time_spent, where rank 0's
//            went (run_time.h): seconds, of which compute, loader_wait, communication_exposed, evaluation, checkpoint and
//            other; compute_by_kind, parts of compute, on devices whose operators run at once, else enqueue; beside these
//            core_wait, threads that could run, for a core. Of several ranks ranks, with a number a rank: wait_seconds
//            (for the others' gradients), loader_wait_seconds, core_wait_seconds, compute_seconds; gpus: for each rank, where NVML has it
//            its GPU, utilisation (0 to 1), memory_bytes, power_watts, temperature_c, clock_mhz, slowed_by ("power
//            cap")
//   eval     test_loss, test_accuracy, test_samples, seconds; of a run with validation val_loss, val_accuracy, val_samples and
//            without_improvement (evaluations in a row without a higher val_accuracy), and test_... at its end alone; of
//            test-time augmentation (eval.tta, the run's last one)
//            tta_loss, tta_accuracy and tta_samples, how many pictures were looked at in all views
//   checkpoint  name, bytes, held_seconds (that training waited), seconds (until it was safe)
//   warning  message
//   nonfinite  what ended the run (nonfinite.h): failed_update, failed_epoch, window, cause ("fp16 overflow",
//   "diverged",
//            "weight", "input", "sums", "fixed point", "not repeated"), loss_scale, bad_losses, skipped_in_row,
//            later_updates, world_size; rank, host, micro_batch, micro_batches, position, samples, files,
//            samples_of_micro_batch, bad_samples; direction ("forward", "backward", "sums"), layer, operator,
//            instruction, tensor, kind, dtype, shape, elements, nan, infinite, beyond_fixed_point, first; folder
//   end      status ("completed" | "stopped" | "failed"), exit_code, message (of a failure), seconds and part_seconds as
//            in train, but with what came after the last update
// Numbers that are not finite are null.
#ifndef LS_RUN_METRICS_H
#define LS_RUN_METRICS_H

#include "base/json.h"
#include "base/status.h"
#include "run/run_info.h"

typedef struct ls_metrics ls_metrics;

// append: goes on with the file of an earlier process, if there is one, after its last whole line. LS_STORAGE: cannot
// be made. info is borrowed until close.
LS_CHECKED ls_status ls_metrics_open(const char *path, int append, const ls_train_info *info, ls_metrics **out);
ls_train_observer ls_metrics_observer(ls_metrics *metrics);
// A line of its own: begun, filled by the caller, and written, which takes it.
cJSON *ls_metrics_event(ls_metrics *metrics, const char *name, int64_t update, int64_t epoch);
void ls_metrics_put(ls_metrics *metrics, cJSON *event);
// Writes the end event and frees metrics. Returns the first failure of any write: a run whose metrics are incomplete
// reports that at its end, but a full disk does not stop the training.
LS_CHECKED ls_status ls_metrics_close(ls_metrics *metrics, ls_status run);

// Is the file one of ours, with a start in its first line?
int ls_metrics_begins(const char *path);
// The update of the last checkpoint that was written according to the file; -1: none, or no file
// (a device). LS_STORAGE: cannot be read.
LS_CHECKED ls_status ls_metrics_last_checkpoint(const char *path, int64_t *update);

#endif
