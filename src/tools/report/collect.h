// collect.h - collects the content of a report from the files of runs and benchmarks. Any file may be missing, damaged,
// from another version of the program, or still being written.
#ifndef LS_TOOLS_REPORT_COLLECT_H
#define LS_TOOLS_REPORT_COLLECT_H

#include "base/json.h"
#include "base/status.h"

// The most folders of a report, and the number of runs that keep the pictures of their mistakes.
enum { LS_COLLECT_FOLDERS_MAX = 1000, LS_COLLECT_PICTURES_MAX = 8 };

// Folders of runs and benchmarks, in the order of the user's paths.
typedef struct {
    int count;
    char **paths;
} ls_collected_folders;

// Finds the folders of runs and benchmarks that the user's paths name. A path is such a folder, or a folder with such
// folders in it, which are taken in the order of their names. LS_USAGE: a path holds no run or benchmark, or there are
// too many; LS_STORAGE: a folder cannot be read.
LS_CHECKED ls_status ls_collect_find(const char *const *paths, int count, ls_collected_folders *out);
void ls_collect_free(ls_collected_folders *folders); // also after a failure

// Adds `runs` and `benches` to data (ls_page_data). A benchmark has name, path and bench (bench.json). A run has the
// members of ls_run_metrics_read and the members below. A member is missing if its file is missing.
//   name, path   the folder's name; its path as the user gave it
//   options      option -> value, as config.ini has it
//   network      text of network.ini
//   run, summary, evaluation   run.json, summary.json, evaluation.json; only the first LS_COLLECT_PICTURES_MAX runs
//                keep the pictures in evaluation.json
//   notes        texts about files that could not be read; each was also printed as a warning
// LS_USAGE: a path is too long; LS_DEVICE: no memory for the content of a file.
LS_CHECKED ls_status ls_collect_data(const ls_collected_folders *folders, cJSON *data);

#endif
