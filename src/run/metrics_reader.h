// metrics_reader.h - reads metrics.jsonl event by event. The run may have ended, been killed, or still be writing.
//
// A line that is not an event is skipped and counted. An unfinished last line is skipped; its number is in
// ls_metrics_state.cut. Lines that are appended after opening are not read. If a run continued from a checkpoint, the
// updates after that checkpoint were done again; the earlier events of these updates have `redone` set.
#ifndef LS_RUN_METRICS_READER_H
#define LS_RUN_METRICS_READER_H

#include <stdint.h>
#include "base/json.h"
#include "base/status.h"

enum { LS_METRICS_LINE_BYTES_MAX = 4 << 20, LS_METRICS_NAMED = 8 };

typedef struct {
    const cJSON *json; // the event, a JSON object
    const char *kind;  // kind of event, such as "train"
    int64_t line;      // line number, from 1
    int64_t update, epoch;
    double time;
    int64_t part; // number of start events up to this event, itself included
    int redone;   // a later part has done this update again
} ls_metrics_line;

typedef struct {
    int64_t events;                  // number of lines that are events
    int64_t damaged;                 // number of lines that are not events
    int64_t named[LS_METRICS_NAMED]; // line numbers of the first damaged lines
    int64_t cut;                     // line number of an unfinished last line; 0: the file ends with a whole line
} ls_metrics_state;

typedef struct ls_metrics_reader ls_metrics_reader;

// Opens a run's metrics. path: the file, or the run's folder. LS_STORAGE: the file cannot be read, or has no event.
LS_CHECKED ls_status ls_metrics_reader_open(const char *path, ls_metrics_reader **out);
// Calls `take` for each event in the file's order, until a call fails. LS_STORAGE: the file cannot be read.
LS_CHECKED ls_status ls_metrics_reader_each(
    ls_metrics_reader *reader, ls_status (*take)(void *context, const ls_metrics_line *line), void *context);
const char *ls_metrics_reader_path(const ls_metrics_reader *reader); // path of the file itself
const ls_metrics_state *ls_metrics_reader_state(const ls_metrics_reader *reader);
void ls_metrics_reader_close(ls_metrics_reader *reader);

#endif
