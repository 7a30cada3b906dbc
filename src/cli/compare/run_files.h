// run_files.h - what the files of a run's folder say, read for a comparison. Any of them may be missing or cut off: a run may be
// under way, or of an earlier version of the program.
#ifndef LS_CLI_COMPARE_RUN_FILES_H
#define LS_CLI_COMPARE_RUN_FILES_H

#include "base/json.h"
#include "config/config.h"

typedef enum { LS_EVENT_TRAIN, LS_EVENT_EVAL, LS_EVENT_CHECKPOINT, LS_EVENT_KINDS } ls_event_kind;

// Events of one kind by rising update, one for each. What a part of the run computed that a later part has computed again, from
// an earlier checkpoint on, is left out.
typedef struct {
    cJSON **event;
    int count;
} ls_event_list;

typedef struct {
    char path[LS_TEXT_BYTES];
    ls_config *config; // NULL: none
    char *network;     // the text of network.ini; NULL: none
    cJSON *summary;    // NULL: not complete
    cJSON *start;      // of the last part; NULL: none
    cJSON *manifest;   // of the newest checkpoint that can be read; NULL: none
    ls_event_list events[LS_EVENT_KINDS];
    int parts; // starts
} ls_run_files;

int64_t ls_event_update(const cJSON *event); // -1: it has none
// LS_STORAGE: the folder is missing or holds no run, or a file cannot be read.
LS_CHECKED ls_status ls_run_files_read(const char *path, ls_run_files **out);
void ls_run_files_free(ls_run_files *files); // NULL is allowed

#endif
