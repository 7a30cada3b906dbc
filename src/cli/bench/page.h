// page.h - a benchmark's report as one HTML page that needs nothing else:
// chart, tables, machine, configuration, how it was measured.
#ifndef LS_CLI_BENCH_PAGE_H
#define LS_CLI_BENCH_PAGE_H

#include <stdio.h>
#include "cli/bench/report.h"

LS_CHECKED ls_status ls_bench_page_print(const ls_bench_findings *findings, FILE *file);

#endif
