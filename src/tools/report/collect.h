// collect.h - what a report shows of runs and benchmarks: read from the files of their folders, each of which may be missing, of
// another version of the program, damaged, or still be written.
#ifndef LS_TOOLS_REPORT_COLLECT_H
#define LS_TOOLS_REPORT_COLLECT_H

#include "base/json.h"
#include "base/status.h"

enum { LS_COLLECT_FOLDERS_MAX = 1000, LS_COLLECT_PICTURES_MAX = 8 }; // pictures of mistakes: of so many runs

// Folders of runs and benchmarks, in the order of the paths.
typedef struct {
    int count;
    char **paths;
} ls_collected_folders;

// What a user means by a path: the folder of a run or of a benchmark, or one whose folders are such, in the order of their names.
// LS_USAGE: it is none, or there are too many; LS_STORAGE: it cannot be read.
LS_CHECKED ls_status ls_collect_find(const char *const *paths, int count, ls_collected_folders *out);
void ls_collect_free(ls_collected_folders *folders); // also after a failure

// Adds to data (ls_page_data) `runs` and `benches`. Of a run, what there is of:
//   name, path   the folder's name; as given
//   options      option -> value, of config.ini as it stands there
//   network      text of network.ini
//   run, summary, evaluation   run.json, summary.json, evaluation.json (pictures of the first LS_COLLECT_PICTURES_MAX runs)
//   notes        texts: what could not be read, which is also warned of
// and those of ls_run_metrics_read. LS_STORAGE, LS_DEVICE: no memory.
LS_CHECKED ls_status ls_collect_data(const ls_collected_folders *folders, cJSON *data);

#endif
