// run_metrics.h - reads a run's metrics.jsonl for its report. Memory is bounded, however long the file is and whatever
// it holds.
#ifndef LS_TOOLS_REPORT_RUN_METRICS_H
#define LS_TOOLS_REPORT_RUN_METRICS_H

#include "base/json.h"
#include "base/status.h"

// Adds these members to object. Parts of a run are numbered from 1: each start and each resumption begins a part.
//   start        the whole last start event
//   time_spent   the last train record's member time_spent
//   train, epochs, eval, checkpoints   series (series.h) of at most `rows` rows by `update`, with `part` and `seconds`:
//                all train records; the train records that end an epoch or a part; evaluations and checkpoints, whose
//                duration is `took`. If a part of the run did updates again, only the last time is shown.
//   events       all other events (start, warning, nonfinite, end) in the order of the file, each with `seconds` of
//                training and `part`; a start that resumes also has `reached`, the last update before it
//   events_left_out, lines_unreadable   numbers of omitted events and unreadable lines; missing if 0
// An incomplete last line is no error, because the run may be going on. LS_STORAGE: the file cannot be read.
LS_CHECKED ls_status ls_run_metrics_read(const char *path, int rows, cJSON *object);

#endif
