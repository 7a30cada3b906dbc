// folder.h - the folder of a sweep. It contains a folder for each run, and sweep.json, the list of the runs.
//
//   sweep.json     format, version, config; options: names of the swept options; runs: folder, setting (option: value),
//                  seed and network (hash of the network's file) of each run. Later commands add runs, and never remove
//                  any.
//   runs.csv, settings.csv, results.json     described in table.h
//
// The folder is locked: a sweep that starts all its runs locks it for itself alone (LS_SWEEP_ALONE). Commands for
// single runs of a sweep (--task) share the lock (LS_SWEEP_TOGETHER), so they may run at the same time.
#ifndef LS_SWEEP_FOLDER_H
#define LS_SWEEP_FOLDER_H

#include "base/json.h"
#include "sweep/plan.h"

typedef enum { LS_SWEEP_ALONE, LS_SWEEP_TOGETHER } ls_sweep_lock;

// Creates the folder if it is missing, locks it until the caller closes *lock, and adds the plan's runs to sweep.json.
// On failure *lock is -1. lock NULL: only checks, and makes nothing. A file system without locks is accepted. LS_USAGE:
// the folder holds something other than a sweep, or a sweep over other options or networks, or is in use. LS_STORAGE:
// it cannot be made, read or written.
LS_CHECKED ls_status ls_sweep_folder_open(const ls_sweep_plan *plan, ls_sweep_lock kind, int *lock);
// Reads sweep.json, or makes a record without runs if there is no such file yet. The caller frees *record with
// cJSON_Delete. LS_USAGE: the folder holds something other than a sweep, or a sweep over other options. LS_STORAGE: the
// file cannot be read.
LS_CHECKED ls_status ls_sweep_folder_read(const ls_sweep_plan *plan, cJSON **record);
// Writes the path of the file `name` in the sweep's folder into dst.
LS_CHECKED ls_status ls_sweep_folder_file(const ls_sweep_plan *plan, const char *name, char dst[LS_TEXT_BYTES]);

#endif
