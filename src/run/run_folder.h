// run_folder.h - the folder of one run: run.json, config.ini, network.ini, metrics.jsonl, evaluation.json, summary.json,
// weights.safetensors, checkpoints/.
//
// Rank 0 alone makes and writes it. A folder is a run's by its run.json (run_identity.h); of earlier versions of the
// program by a metrics.jsonl that begins with a start. What no run has written is never replaced, and neither is the
// configuration that this process reads; two processes never use one folder at the same time.
//
// Opening takes the lock, then looks, and writes nothing. Only when everything is accepted, on all ranks, the run begins
// or goes on: what is refused leaves every byte as it was. A folder that is moved or replaced during the run keeps what
// belongs to it: all of it is written through the folder itself (base/pinned_folder.h), wherever that is by now.
#ifndef LS_RUN_RUN_FOLDER_H
#define LS_RUN_RUN_FOLDER_H

#include "base/status.h"
#include "config/config.h"
#include "run/run_identity.h"
#include "run/run_info.h"

typedef struct {
    char path[LS_TEXT_BYTES];
    ls_run_identity run; // its own, or a fresh one
    int holds_run;       // of an earlier process, with which this one goes on
    int earlier;         // that run is of a version of the program that knew no identities
    int lock;            // descriptor of the folder, which is held; -1: none
} ls_run_folder;

// Which folder: run_dir if set (from --run-dir), else runs/<run.name>, else runs/<name of the configuration
// file>-NNN. To start a run (run.resume = off) it must hold none, nor a file that a run would replace, and NNN is the
// next free number. To go on (must) it must hold one, and NNN is the highest that does; a configuration that lies in a
// run's folder (its config.ini) means that folder. auto: goes on where there is a run, else starts one. Where only
// checkpoints are there, run.adopt = true goes on from them, as a run of its own.
// LS_USAGE: the folder holds what is not to be gone on with, or no run to go on with, is in use, or its name is no
// folder's; LS_STORAGE: it cannot be made, read or written.
LS_CHECKED ls_status ls_run_folder_open(const ls_config *cfg, const char *run_dir, ls_run_folder *out);
// At the end, when all is written: does the path still lead to the folder? LS_STORAGE names where the results are.
LS_CHECKED ls_status ls_run_folder_check(const ls_run_folder *folder);
void ls_run_folder_close(ls_run_folder *folder);
// A file of the folder: "DIR/name" into dst.
LS_CHECKED ls_status ls_run_folder_file(const ls_run_folder *folder, const char *name, char *dst, size_t bytes);

// How far the run has come, by what an earlier process left.
typedef struct {
    int64_t checkpoint; // the last one that metrics.jsonl names; -1: none
    int64_t summary;    // updates of the summary, whose run was complete; -1: there is none
} ls_run_record;
LS_CHECKED ls_status ls_run_folder_record(const ls_run_folder *folder, ls_run_record *record);

// Everything is accepted: the folder is this run's. Writes run.json, network.ini (which config.ini names) and config.ini
// (effective; paths in it made absolute; a head that names the ranks it led to), so that `train DIR/config.ini` repeats
// the run from any place; takes away the summary of a run that has more to do now, and what killed processes left
// half-written.
LS_CHECKED ls_status ls_run_folder_begin(const ls_run_folder *folder, const ls_train_info *info);
// The configuration as that config.ini has it.
LS_CHECKED ls_status ls_run_folder_config(const ls_config *cfg, ls_config *effective);

#endif
