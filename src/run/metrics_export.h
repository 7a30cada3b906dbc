// metrics_export.h - metrics.jsonl as CSV. Work that a resumed run has done again (metrics_reader.h) is written once: the
// table belongs to the run that led to the final weights.
#ifndef LS_RUN_METRICS_EXPORT_H
#define LS_RUN_METRICS_EXPORT_H

#include <stdio.h>
#include "run/metrics_reader.h"

enum { LS_METRICS_COLUMNS_MAX = 16384 };

// Writes CSV (RFC 4180, lines end in \n): a header, and a row for each event of this kind ("train"). Columns are part, then
// the fields in the order in which they first appear; a member of an object is OBJECT.FIELD, an element of a list
// LIST.INDEX. Numbers have enough digits to be read back exactly. A null or missing value is an empty cell. Control
// characters in texts are \n, \t, \r, \xNN.
// LS_STORAGE: no memory, the file cannot be read, or it has more columns than the maximum. LS_USAGE: it has no event of
// that kind.
LS_CHECKED ls_status ls_metrics_write_csv(ls_metrics_reader *reader, const char *kind, FILE *file);

#endif
