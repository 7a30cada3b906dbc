// metrics_export.h - metrics.jsonl in formats that other programs read. What was done again later (metrics_reader.h) is left
// out: the output is that of the run whose weights there are.
#ifndef LS_FILES_METRICS_EXPORT_H
#define LS_FILES_METRICS_EXPORT_H

#include <stdio.h>
#include "files/metrics_reader.h"

enum { LS_METRICS_COLUMNS_MAX = 16384 };

// CSV (RFC 4180, lines end in \n): a header, and a row for each event of this kind ("train"). Columns are part, then the fields in
// the order in which they first appear; a member of an object is OBJECT.FIELD, an element of a list LIST.INDEX. A number has the
// digits that give it back, what is null or not there is empty, control characters in texts are \n, \t, \r, \xNN.
// LS_STORAGE: no memory, the file cannot be read, or has more columns than the maximum. LS_USAGE: no event of that kind is in it.
LS_CHECKED ls_status ls_metrics_write_csv(ls_metrics_reader *reader, const char *kind, FILE *file);

// Lines as MLPerf training logs have them, ":::MLLOG {...}", with the keys of mlperf_logging's constants: what the run was
// started with as points in time, run_start, epoch_start and epoch_stop, tracked_stats for each train event, eval_start,
// eval_accuracy (by set: test, validation, tta) and eval_stop, run_stop with its status. epoch_num begins at 1; metadata.lineno is the line of
// metrics.jsonl. A run that goes on has init_checkpoint_step; one that was killed, or is running, no run_stop.
// Source  mlcommons/logging: mlperf_logging/mllog, compliance_checker/mlp_parser
LS_CHECKED ls_status ls_metrics_write_mlperf(ls_metrics_reader *reader, FILE *file);

#endif
