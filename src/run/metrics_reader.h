// metrics_reader.h - metrics.jsonl, event by event: of a run that has ended, was killed, or is writing it now.
//
// A line that is no event is left out and counted; so is what stands behind the last line's end. What is appended after
// opening is not looked at. Of a run that goes on from a checkpoint, what was done after it before is done again: `redone` says
// so of the earlier event.
#ifndef LS_RUN_METRICS_READER_H
#define LS_RUN_METRICS_READER_H

#include <stdint.h>
#include "base/json.h"
#include "base/status.h"

enum { LS_METRICS_LINE_BYTES_MAX = 4 << 20, LS_METRICS_NAMED = 8 };

typedef struct {
    const cJSON *json; // an object
    const char *kind;  // "train"
    int64_t line;      // from 1
    int64_t update, epoch;
    double time;
    int64_t part; // which start it follows, from 1; 0: before any
    int redone;   // a later part has done this update, too
} ls_metrics_line;

typedef struct {
    int64_t events;                  // lines that are
    int64_t damaged;                 // lines that are not
    int64_t named[LS_METRICS_NAMED]; // the numbers of the first of them
    int64_t cut;                     // number of a last line without its end; 0: there is none
} ls_metrics_state;

typedef struct ls_metrics_reader ls_metrics_reader;

// path: the file, or a run's folder. LS_STORAGE: it cannot be read, or holds no event.
LS_CHECKED ls_status ls_metrics_reader_open(const char *path, ls_metrics_reader **out);
// Calls take for each event, in the order of the file, until one fails. May be called again. LS_STORAGE: as open.
LS_CHECKED ls_status ls_metrics_reader_each(
    ls_metrics_reader *reader, ls_status (*take)(void *context, const ls_metrics_line *line), void *context);
const char *ls_metrics_reader_path(const ls_metrics_reader *reader); // of the file
const ls_metrics_state *ls_metrics_reader_state(const ls_metrics_reader *reader);
void ls_metrics_reader_close(ls_metrics_reader *reader);

#endif
