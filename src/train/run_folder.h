// run_folder.h - the folder of one run: config.ini, network.ini, metrics.jsonl, summary.json, weights.safetensors.
//
// Rank 0 alone makes and writes it. A folder that holds a run is never used again: its name is refused with advice.
#ifndef LS_TRAIN_RUN_FOLDER_H
#define LS_TRAIN_RUN_FOLDER_H

#include "base/status.h"
#include "config/config.h"

typedef struct {
    char path[LS_TEXT_BYTES];
} ls_run_folder;

// Makes the folder: run_dir if given (from --run-dir), else runs/<run.name>, else runs/<name of the configuration
// file>-NNN with the next free number. Writes config.ini (effective; paths in it made absolute) and network.ini (a copy
// of model.file, which config.ini names), so that `train DIR/config.ini` repeats the run from any place. LS_USAGE: the
// folder holds a run, or its name is no folder's; LS_STORAGE: it cannot be made or written.
LS_CHECKED ls_status ls_run_folder_create(const ls_config *cfg, const char *run_dir, ls_run_folder *out);
// A file of the folder: "DIR/name" into dst.
LS_CHECKED ls_status ls_run_folder_file(const ls_run_folder *folder, const char *name, char *dst, size_t bytes);

#endif
