// inspect.h - prints the tensors of an update for people (`train audit --inspect`).
#ifndef LS_TRAIN_DIAGNOSE_INSPECT_H
#define LS_TRAIN_DIAGNOSE_INSPECT_H

#include <stdio.h>
#include "train/run_progress.h"
#include "train/run_session.h"

// Computes the micro-batches of an update as ls_run_tensors does. Rank 0 prints a line for each tensor of one of them:
// instruction, direction, layer, operator, tensor, number of elements, minimum, maximum and mean of the finite
// elements, number of elements that are not finite. '>' marks the first bad tensor that did harm. The last lines say
// where the failure began, and why. Values that are not finite are not a failure. Collective.
LS_CHECKED ls_status ls_run_inspect(ls_run_session *session, const ls_run_progress *progress, FILE *file);

#endif
