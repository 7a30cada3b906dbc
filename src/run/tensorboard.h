// tensorboard.h - a run for TensorBoard (log.tensorboard): an event file for each process that trains it.
//
// Scalars by update, with the values of metrics.jsonl rounded to float (not finite ones as they are), for every train and eval
// event of it:
//   train/  loss, accuracy, learning_rate, loss_scale, grad_norm, skipped, images_per_second
//   val/, test/, tta/  loss, accuracy
// and the configuration as text. Every event is in the file at once (live_file.h).
// A file of a run that goes on from update n (0: from the start) begins with a session log START at n + 1: TensorBoard drops the
// points of earlier files from there on, of work that is done again, if they begin with one, too. It reads a folder's files in the order of their names, so the time in a new
// file's name is later than those of all that are there, whatever the clock says.
//
// Format  records of the little-endian length (8 bytes), its masked CRC-32C (4), the data, its masked CRC-32C (4); data is a
//         protobuf message Event
// Source  tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, framework/summary.proto and tensor.proto;
//         tensorboard/plugins/text/summary_v2.py
#ifndef LS_RUN_TENSORBOARD_H
#define LS_RUN_TENSORBOARD_H

#include "base/status.h"
#include "run/run_info.h"

typedef struct ls_tensorboard ls_tensorboard;

// Makes the folder and a new file in it. LS_STORAGE: they cannot be made.
LS_CHECKED ls_status ls_tensorboard_open(const char *folder, const ls_train_info *info, ls_tensorboard **out);
ls_train_observer ls_tensorboard_observer(ls_tensorboard *board);
// Frees board (NULL is allowed). The first failure of any write, as ls_metrics_close has it.
LS_CHECKED ls_status ls_tensorboard_close(ls_tensorboard *board);

#endif
