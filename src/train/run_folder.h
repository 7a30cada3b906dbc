// run_folder.h - the folder of one run: config.ini, network.ini, metrics.jsonl, summary.json, weights.safetensors,
// checkpoints/.
//
// Rank 0 alone makes and writes it. A folder that holds a run is never used again, unless to go on with that run
// (run.resume = auto); two processes never use one at the same time.
#ifndef LS_TRAIN_RUN_FOLDER_H
#define LS_TRAIN_RUN_FOLDER_H

#include "base/status.h"
#include "config/config.h"

typedef struct {
    char path[LS_TEXT_BYTES];
    int holds_run; // of an earlier process, with which this one goes on
    int lock;      // descriptor of the folder; -1: none
} ls_run_folder;

// Which folder: run_dir if given (from --run-dir), else runs/<run.name>, else runs/<name of the configuration
// file>-NNN. To start a run it must hold none, and NNN is the next free number. To go on it may hold one, and NNN is
// the highest that does; a configuration that lies in a run's folder (its config.ini) means that folder; where there is
// none, a run is started.
// Writes config.ini (effective; paths in it made absolute) and network.ini (a copy of model.file, which config.ini
// names), so that `train DIR/config.ini` repeats the run from any place. LS_USAGE: the folder holds a run that is not
// to be gone on with, is in use, or its name is no folder's; LS_STORAGE: it cannot be made or written.
LS_CHECKED ls_status ls_run_folder_open(const ls_config *cfg, const char *run_dir, ls_run_folder *out);
void ls_run_folder_close(ls_run_folder *folder);
// A file of the folder: "DIR/name" into dst.
LS_CHECKED ls_status ls_run_folder_file(const ls_run_folder *folder, const char *name, char *dst, size_t bytes);

#endif
