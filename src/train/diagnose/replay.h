// replay.h - computes the micro-batch in a folder nonfinite-update-N (nonfinite_dump.h) again, on any machine and any
// device, and prints statistics of every tensor that an instruction writes.
#ifndef LS_TRAIN_DIAGNOSE_REPLAY_H
#define LS_TRAIN_DIAGNOSE_REPLAY_H

#include <stdio.h>
#include "config/config.h"

// cfg: the folder's config.ini with the user's changes (device.*, train.precision). Prints a line for each tensor:
// instruction, direction, layer, operator, tensor, number of elements, minimum, maximum and mean of the finite
// elements, number of elements that are not finite. '>' marks the first bad tensor. The last lines say where the
// failure began, why, and whether the run reported the same tensor. LS_STORAGE: the folder cannot be read. LS_USAGE,
// LS_DEVICE: the device cannot be opened. Values that are not finite are not a failure.
LS_CHECKED ls_status ls_replay(const char *folder, const ls_config *cfg, FILE *file);

#endif
