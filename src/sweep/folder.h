// folder.h - the folder of a sweep: the folders of its runs, and sweep.json, which says which runs belong to it.
//
//   sweep.json     format, version, config; options: the swept ones; runs: folder, setting (option: value), seed, network (the
//                  hash of the network's file) of each. Later commands add runs to it; none is taken away.
//   runs.csv, settings.csv, results.json     table.h
//
// A sweep that starts runs holds the folder alone; its single runs (--task) hold it together.
#ifndef LS_SWEEP_FOLDER_H
#define LS_SWEEP_FOLDER_H

#include "base/json.h"
#include "sweep/plan.h"

typedef enum { LS_SWEEP_ALONE, LS_SWEEP_TOGETHER } ls_sweep_lock;

// Makes the folder if it is missing, locks it until *lock is closed (-1: the file system has no locks), and writes sweep.json
// where that is to change. LS_USAGE: it is something else's, or of a sweep of other options or networks, or in use;
// LS_STORAGE: it cannot be made, read or written.
LS_CHECKED ls_status ls_sweep_folder_open(const ls_sweep_plan *plan, ls_sweep_lock kind, int *lock);
// sweep.json, or what it is before the first run; cJSON_Delete it. Errors as above.
LS_CHECKED ls_status ls_sweep_folder_read(const ls_sweep_plan *plan, cJSON **record);
// A file of the folder, into dst.
LS_CHECKED ls_status ls_sweep_folder_file(const ls_sweep_plan *plan, const char *name, char dst[LS_TEXT_BYTES]);

#endif
