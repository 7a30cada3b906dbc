// cost_report.h - a prediction as tables for a person and as JSON. docs/cost-model.md explains both.
#ifndef LS_CLI_BENCH_COST_REPORT_H
#define LS_CLI_BENCH_COST_REPORT_H

#include <stdio.h>
#include "cli/bench/cost_scale.h"

typedef struct {
    const char *word;       // of --model
    const ls_cost_gpu *gpu; // NULL: the cpu device
    const ls_cost_machine *machine;
    const ls_cost_update *update; // of one rank
    const ls_cost_time *times;    // of its items
    const ls_cost_point *point;   // it alone
    const ls_cost_point *points;  // over ranks
    int point_count;
} ls_cost_findings;

LS_CHECKED ls_status ls_cost_print(const ls_cost_findings *findings, FILE *file);
LS_CHECKED ls_status ls_cost_print_json(const ls_cost_findings *findings, FILE *file);

#endif
