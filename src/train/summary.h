// summary.h - summary.json: the result of a completed run, for programs.
#ifndef LS_TRAIN_SUMMARY_H
#define LS_TRAIN_SUMMARY_H

#include "base/status.h"
#include "train/trainer.h"

// Written atomically. Fields: docs of the run folder; units are in the names, accuracies are 0..1, peak_memory_bytes is
// an object {device, host} (maxima over ranks), weights_hash is 16 hex digits.
LS_CHECKED ls_status ls_summary_write(const char *path, const ls_train_facts *facts, const ls_train_summary *summary);

#endif
