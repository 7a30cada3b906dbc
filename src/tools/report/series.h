// series.h - columns of numbers along a run, thinned while they are added. When there are too many rows, neighbouring
// rows are merged in pairs; each column then keeps its lowest and its highest value, in the order in which they came.
// Memory does not depend on the length of the run.
#ifndef LS_TOOLS_REPORT_SERIES_H
#define LS_TOOLS_REPORT_SERIES_H

#include "base/json.h"
#include "base/status.h"

enum { LS_SERIES_COLUMNS_MAX = 32 };

typedef struct ls_series ls_series;

// Makes a series. names: [columns], borrowed. The first column is the position, which grows from row to row. rows: the
// most rows that ls_series_json returns, at least 4.
ls_series *ls_series_new(const char *const *names, int columns, int rows);
void ls_series_free(ls_series *series);                      // NULL is allowed
void ls_series_add(ls_series *series, const double *values); // values: [columns]; NAN: unknown
// Returns the series as an object: name -> array, for each column that has any value. Numbers have ten digits; null:
// unknown.
cJSON *ls_series_json(const ls_series *series);

#endif
