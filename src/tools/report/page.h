// page.h - writes the report of runs and benchmarks: one HTML page that draws the data embedded in it.
//
// page.html is the template, page.css is its style and page.js is its script. The build embeds all three in the program
// (cmake/embed.cmake). The page loads nothing from outside, and its content security policy forbids that as well.
#ifndef LS_TOOLS_REPORT_PAGE_H
#define LS_TOOLS_REPORT_PAGE_H

#include "base/json.h"
#include "base/status.h"

// Writes the page with data embedded as JSON. The texts in data may hold anything. The caller keeps data. Its members:
//   version, made   version of the program; when the page was made, in seconds since 1970
//   defaults        option -> its default
//   runs            as ls_collect_data adds them (collect.h); may be missing
//   benches         a list of objects: name, path and bench, the content of bench.json (docs/benchmarks.md); may be
//                   missing
// LS_STORAGE: the page cannot be written; no part of it is then left at `path`.
LS_CHECKED ls_status ls_page_write(const char *path, const cJSON *data);
// Returns data with the members that every page has: version, made and defaults.
cJSON *ls_page_data(void);
// The first bytes of a page match this pattern, for ls_check_output.
#define LS_PAGE_PATTERN "*<meta name=\"generator\" content=\"Lockstep\">*"

#endif
