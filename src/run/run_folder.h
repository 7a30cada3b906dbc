// run_folder.h - the folder of one run: run.json, config.ini, network.ini, metrics.jsonl, evaluation.json,
// summary.json, weights.safetensors, checkpoints/.
//
// Only rank 0 makes and writes it. A folder belongs to a run if it has a run.json (run_identity.h), or for earlier
// versions of the program a metrics.jsonl that begins with a start event. Files that no run has written are never
// replaced, and neither is the configuration that this process reads. Only one process uses a folder at a time.
//
// Opening locks the folder and reads it, but writes nothing into it. The run begins or continues only after all ranks
// have accepted everything, so a refused run leaves every byte unchanged. All files are written through the open folder
// (base/pinned_folder.h), so they reach it even if it is moved or replaced during the run.
#ifndef LS_RUN_RUN_FOLDER_H
#define LS_RUN_RUN_FOLDER_H

#include "base/status.h"
#include "config/config.h"
#include "run/run_identity.h"
#include "run/run_info.h"

typedef struct {
    char path[LS_TEXT_BYTES];
    ls_run_identity run; // identity of the run in the folder, or a new one
    int holds_run;       // the folder holds a run that this process continues
    int earlier;         // the run was made by a version of the program without identities
    int made;            // this process has made the folder
    int lock;            // descriptor that holds the lock of the folder; -1: not locked
} ls_run_folder;

// Chooses the folder: run_dir if set (from --run-dir), else runs/<run.name>, else runs/<configuration>-NNN.
//   run.resume = off    starts a run: the folder must hold neither a run nor a file that a run would replace; NNN is
//                       the first free number
//   run.resume = must   continues a run: the folder must hold one; NNN is the highest number that does. The
//                       config.ini of a run's folder means that folder
//   run.resume = auto   continues a run if there is one, else starts one
// With run.adopt = true, a folder that has only checkpoints is continued as a new run.
// LS_USAGE: the folder holds files that do not suit run.resume, or is in use, or its name is not valid. LS_STORAGE: it
// cannot be made, read or written.
LS_CHECKED ls_status ls_run_folder_open(const ls_config *cfg, const char *run_dir, ls_run_folder *out);
// Call at the end of the run. LS_STORAGE: the folder was moved or replaced (the message tells where it is) or removed.
LS_CHECKED ls_status ls_run_folder_check(const ls_run_folder *folder);
// Removes a folder that ls_run_folder_open has made if nothing was written into it, because the run was refused.
void ls_run_folder_close(ls_run_folder *folder);
// Writes the path of a file in the folder, "DIR/name", into dst.
LS_CHECKED ls_status ls_run_folder_file(const ls_run_folder *folder, const char *name, char *dst, size_t bytes);

// The progress of the run, from the files of earlier processes.
typedef struct {
    int64_t checkpoint; // update of the last checkpoint in metrics.jsonl; -1: it names no checkpoint
    int64_t summary;    // updates in summary.json, which shows that the run was complete; -1: there is no such file
} ls_run_record;
LS_CHECKED ls_status ls_run_folder_record(const ls_run_folder *folder, ls_run_record *record);

// Call after everything is accepted. Writes run.json, network.ini and config.ini, so that `train DIR/config.ini`
// repeats the run from any place. config.ini has all options, names network.ini, has absolute paths, and lists the
// parts of the run in comments at its head. Removes the summary and evaluation of an earlier process, and partly
// written files of killed processes.
LS_CHECKED ls_status ls_run_folder_begin(const ls_run_folder *folder, const ls_train_info *info);
// Makes the configuration that ls_run_folder_begin writes to config.ini.
LS_CHECKED ls_status ls_run_folder_config(const ls_config *cfg, ls_config *effective);

#endif
