// report.h - what a benchmark found: tables for a person, bench.json and bench.csv for programs,
// bench.html to look at.
#ifndef LS_CLI_BENCH_REPORT_H
#define LS_CLI_BENCH_REPORT_H

#include <stdio.h>
#include "cli/bench/figures.h"
#include "cli/report.h"

// Plain data: what the reports are made of, on rank 0.
typedef struct {
    const char *version, *compiler, *libraries, *mpi; // "": alone
    const char *host, *processor;
    const ls_config *cfg; // as set, before what is swept
    double time;          // of the report, seconds since 1970
    int world_size;
    double seconds; // of one measurement, about
    int rounds;
    int in_turns; // arrangements were opened anew for every measurement
    int count;
    const ls_bench_result *results;
    int link_count;
    const ls_bench_link *links;
} ls_bench_findings;

// The tables of a report, each with what stands above it. Cells that nothing is known for hold "-".
// A table without rows has an empty head.
enum { LS_BENCH_TABLES = 4, LS_BENCH_HEAD_BYTES = 512 };
typedef struct {
    char head[LS_BENCH_HEAD_BYTES]; // sentences: what, and how it is computed
    ls_table table;
} ls_bench_table;
LS_CHECKED ls_status ls_bench_tables_new(const ls_bench_findings *findings, ls_bench_table tables[LS_BENCH_TABLES]);
void ls_bench_tables_free(ls_bench_table tables[LS_BENCH_TABLES]);

LS_CHECKED ls_status ls_bench_print(const ls_bench_findings *findings, FILE *file);
// bench.json, bench.csv and bench.html into folder ("" or a path). docs/bench.md has their fields.
LS_CHECKED ls_status ls_bench_write(const ls_bench_findings *findings, const char *folder);

#endif
