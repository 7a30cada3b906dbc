// run_metrics.h - a run's metrics.jsonl read for its report, in bounded memory, whatever its length and whatever is in it.
#ifndef LS_TOOLS_REPORT_RUN_METRICS_H
#define LS_TOOLS_REPORT_RUN_METRICS_H

#include "base/json.h"
#include "base/status.h"

// Adds members to object:
//   start        the last start event, whole; time_spent: the last record's
//   train, epochs, eval, checkpoints   series (series.h) of `rows` rows at most, by `update`, with `part` (from 1) and `seconds`:
//                every record; those that end an epoch or a part; evaluations (took: seconds) and checkpoints. Work that a
//                part of the run did again appears once, as it was done last.
//   events       the others in their order (start, warning, nonfinite, end), each with `seconds` of training and `part`;
//                a start that resumes has `reached`, the last update before it
//   events_left_out, lines_unreadable  how many; 0: not there
// A last line that is cut off is no error: the run may be going on. LS_STORAGE: the file cannot be read.
LS_CHECKED ls_status ls_run_metrics_read(const char *path, int rows, cJSON *object);

#endif
