// replay.h - computes the micro-batch of a folder nonfinite-update-N (nonfinite_dump.h) again, on any machine and any
// device, and prints what every instruction wrote.
#ifndef LS_TRAIN_DIAGNOSE_REPLAY_H
#define LS_TRAIN_DIAGNOSE_REPLAY_H

#include <stdio.h>
#include "config/config.h"

// cfg: the folder's own config.ini, with what the user changes: device.*, train.precision. A line for each tensor:
// instruction, direction, layer, operator, tensor, elements, minimum, maximum, mean (of the finite ones), how many are
// not finite; the first bad one marked by '>'. At the end where it began, why, and whether the run said the same.
// LS_STORAGE: the folder; LS_USAGE, LS_DEVICE: the device. That something is not finite is no failure.
LS_CHECKED ls_status ls_replay(const char *folder, const ls_config *cfg, FILE *file);

#endif
