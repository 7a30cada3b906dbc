// tensorboard.h - writes a run for TensorBoard (log.tensorboard): one event file for each process that trains the run.
//
// For every train and eval event of metrics.jsonl, the file has scalars by update, with the same values rounded to
// float. Values that are not finite are written as they are.
//   train/             loss, accuracy, learning_rate, loss_scale, grad_norm, skipped, images_per_second
//   val/, test/, tta/  loss, accuracy
// It also has the configuration as text. Every event is in the file at once (live_file.h).
//
// A part that continues from update n (0: from the start) begins its file with a session log START at n + 1.
// TensorBoard then drops the points of earlier files from there on, because their work is done again. It does so only
// if the earlier files begin with a START, too. TensorBoard reads the files of a folder in the order of their names, so
// the time in a new file's name is later than in all existing names, even if the clock was set back.
//
// Format  a record is: length of the data (8 bytes, little-endian), its masked CRC-32C (4 bytes), the data, their
//         masked CRC-32C (4 bytes); the data are a protobuf message Event
// Source  tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto,
//         tensorflow/core/framework/summary.proto and tensor.proto; tensorboard/plugins/text/summary_v2.py
#ifndef LS_RUN_TENSORBOARD_H
#define LS_RUN_TENSORBOARD_H

#include "base/status.h"
#include "run/run_info.h"

typedef struct ls_tensorboard ls_tensorboard;

// Makes the folder and a new file in it. LS_STORAGE: they cannot be made.
LS_CHECKED ls_status ls_tensorboard_open(const char *folder, const ls_train_info *info, ls_tensorboard **out);
ls_train_observer ls_tensorboard_observer(ls_tensorboard *board);
// Frees board (NULL is allowed). Returns the first failure of any write.
LS_CHECKED ls_status ls_tensorboard_close(ls_tensorboard *board);

#endif
