// chart.h - the scaling curves as SVG, hand-written: images/s over ranks with the ideal line, and efficiency over
// ranks; measured points with their spread, predicted ones beside them. Readable on light and dark ground; no script.
#ifndef LS_CLI_BENCH_CHART_H
#define LS_CLI_BENCH_CHART_H

#include <stdio.h>
#include "cli/bench/report.h"

// A whole <svg> element, which stands by itself as a file and inside a page.
void ls_bench_chart_print(const ls_bench_findings *findings, FILE *file);
// Text between tags or in attributes: & < > " and control characters made harmless.
void ls_bench_escape(const char *text, FILE *file);

#endif
