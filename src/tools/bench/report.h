// report.h - the results of a benchmark: tables for people, bench.json for programs, and bench.html, which draws it.
#ifndef LS_TOOLS_BENCH_REPORT_H
#define LS_TOOLS_BENCH_REPORT_H

#include <stdio.h>
#include "tools/bench/bench.h"

// Both on rank 0. The tables have "-" where a figure is unknown.
LS_CHECKED ls_status ls_bench_print(const ls_bench *bench, FILE *file);
// Writes bench.json and bench.html into folder ("" or a path); docs/benchmarks.md has the fields. cfg: before sweeps.
LS_CHECKED ls_status ls_bench_write(const ls_bench *bench, const ls_config *cfg, const char *folder);

#endif
