// page.h - one HTML page that draws what it is given: the report of runs and of benchmarks.
//
// page.html is the template, page.css and page.js beside it are its style and its script; the build makes all three a part of
// the program (cmake/embed.cmake). The page refers to nothing outside of itself, and its policy allows nothing from there.
#ifndef LS_TOOLS_REPORT_PAGE_H
#define LS_TOOLS_REPORT_PAGE_H

#include "base/json.h"
#include "base/status.h"

// data is embedded as JSON, whatever its texts hold; it stays the caller's. Its members:
//   version, made   of the program; seconds since 1970
//   defaults        option -> its default
//   runs            as ls_collect_data adds them (collect.h); may be missing
//   benches         of each name, path and bench, which is bench.json (docs/benchmarks.md); may be missing
// Whole or not at all; LS_STORAGE.
LS_CHECKED ls_status ls_page_write(const char *path, const cJSON *data);
// The members that every page has.
cJSON *ls_page_data(void);
// Does `path` hold one of our pages, or nothing that could be lost (no file, an empty one, a pipe)?
int ls_page_may_replace(const char *path);

#endif
