// metrics_export.h - exports metrics.jsonl as CSV. Of work that a resumed run has done again (metrics_reader.h) only
// the last time is written, so the table shows the updates that led to the final weights.
#ifndef LS_RUN_METRICS_EXPORT_H
#define LS_RUN_METRICS_EXPORT_H

#include <stdio.h>
#include "run/metrics_reader.h"

enum { LS_METRICS_COLUMNS_MAX = 16384 };

// Writes CSV (RFC 4180, but lines end in \n): a header, and a row for each event of this kind, such as "train". The
// columns are part, then the fields in the order of their first occurrence. A member of an object becomes OBJECT.FIELD,
// an element of a list LIST.INDEX. Numbers have enough digits to be read back exactly. A null or missing value is an
// empty cell. Control characters in texts become \n, \t, \r or \xNN.
// LS_STORAGE: cannot be read, or has more than LS_METRICS_COLUMNS_MAX columns. LS_USAGE: has no event of that kind.
LS_CHECKED ls_status ls_metrics_write_csv(ls_metrics_reader *reader, const char *kind, FILE *file);

#endif
