// series.h - columns of numbers along a run, thinned as they come: when there are too many rows, neighbours are merged two by two,
// and of each column the lowest and the highest value stay, in their order. Memory does not depend on the length of the run.
#ifndef LS_TOOLS_REPORT_SERIES_H
#define LS_TOOLS_REPORT_SERIES_H

#include "base/json.h"
#include "base/status.h"

enum { LS_SERIES_COLUMNS_MAX = 32 };

typedef struct ls_series ls_series;

// names: `columns` of them, borrowed; the first is the position, which grows from row to row. rows: at most so many come out, an
// even number.
ls_series *ls_series_new(const char *const *names, int columns, int rows);
void ls_series_free(ls_series *series);                      // NULL is allowed
void ls_series_add(ls_series *series, const double *values); // NAN: unknown
// An object: name -> array, of the columns that have any value; numbers to ten digits, null for unknown.
cJSON *ls_series_json(const ls_series *series);

#endif
