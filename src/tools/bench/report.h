// report.h - the results of a benchmark: tables for people, bench.json for programs, and bench.html, which draws them.
#ifndef LS_TOOLS_BENCH_REPORT_H
#define LS_TOOLS_BENCH_REPORT_H

#include <stdio.h>
#include "tools/bench/bench.h"

// Prints the tables of results, with "-" for an unknown figure. Call it on rank 0 only.
LS_CHECKED ls_status ls_bench_print(const ls_bench *bench, FILE *file);
// Writes bench.json and bench.html into folder ("": the current folder). Call it on rank 0 only. docs/benchmarks.md
// explains the fields. cfg: the configuration without the sweeps' values.
LS_CHECKED ls_status ls_bench_write(const ls_bench *bench, const ls_config *cfg, const char *folder);

#endif
