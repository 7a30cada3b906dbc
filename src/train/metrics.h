// metrics.h - metrics.jsonl: what happened in a run, one JSON object a line, for programs.
//
// Every line has `event`, `update` (done so far), `epoch` (completed ones), `time` (seconds since 1970).
//   start       version, device, precision, world_size, threads_per_rank, dataset, model, parameters, batches, seed,
//               updates_planned, resumed_at_update (lines of later updates above it are of work that is done again);
//               ranks: for each its rank, host, device, name, uuid, pci (of a GPU), cpus
//   train       train_loss, train_accuracy, learning_rate, loss_scale, grad_norm, skipped, images_per_second,
//               samples_seen, seconds, loader_wait_seconds, comm_seconds_exposed;
//               ranks (of several; a number a rank, since the start): wait_seconds (for the others' gradients),
//               loader_wait_seconds, core_wait_seconds (threads that could run, for a core; stragglers.h);
//               gpus: for each rank whose GPU NVML has, utilisation (0 to 1), memory_bytes, power_watts,
//               temperature_c, clock_mhz, slowed_by ("power cap")
//   eval        test_loss, test_accuracy, test_samples, seconds
//   checkpoint  name, bytes, held_seconds (that training waited), seconds (until it was safe)
//   warning     message
//   nonfinite   what ended the run (nonfinite.h): failed_update, failed_epoch, window, cause ("fp16 overflow",
//               "diverged", "weight", "input", "sums", "fixed point", "not repeated"), loss_scale, bad_losses,
//               skipped_in_row, later_updates, world_size;
//               rank, host, micro_batch, micro_batches, position, samples, files, samples_of_micro_batch, bad_samples;
//               direction ("forward", "backward", "sums"), layer, operator, instruction, tensor, kind, dtype, shape,
//               elements, nan, infinite, beyond_fixed_point, first; folder
//   end         status ("completed" | "stopped" | "failed"), exit_code, message (of a failure), seconds
// Numbers that are not finite are null.
#ifndef LS_TRAIN_METRICS_H
#define LS_TRAIN_METRICS_H

#include "base/status.h"
#include "train/nonfinite.h"
#include "train/trainer.h"

typedef struct ls_metrics ls_metrics;

// append: goes on with the file of an earlier process, if there is one, after its last whole line. LS_STORAGE: cannot
// be made. facts are borrowed until close.
LS_CHECKED ls_status ls_metrics_open(const char *path, int append, const ls_train_facts *facts, ls_metrics **out);
ls_train_observer ls_metrics_observer(ls_metrics *metrics);
void ls_metrics_nonfinite(ls_metrics *metrics, const ls_nonfinite *report);
// Writes the end event and frees metrics. Returns the first failure of any write: a run whose metrics are incomplete
// says so at its end, but a full disk does not stop the training.
LS_CHECKED ls_status ls_metrics_close(ls_metrics *metrics, ls_status run);

#endif
