// table.h - what came of a sweep, for people and in files: a row by setting, and settings compared.
//
//   runs.csv       a line a run: its number as --task takes it, folder, swept options, seed, state, and what its summary says
//   settings.csv   a line a setting: n, mean, deviation, 95 % interval, time, images/s; accuracies from 0 to 1
//   results.json   the settings and the comparisons of all pairs of them
//
// Two settings are compared over the seeds that both have completed: a paired test (sweep/statistics.h). There are as many
// tests as pairs of settings, and p is corrected for that by Holm's method. Printed are those of the best setting with the
// others; it was chosen by looking at all pairs, so it is all pairs that count.
#ifndef LS_SWEEP_TABLE_H
#define LS_SWEEP_TABLE_H

#include "sweep/statistics.h"
#include "sweep/results.h"

typedef struct {
    ls_statistics accuracy; // 0 to 1
    double seconds, images_per_second, means[LS_SWEEP_MEASURES];
} ls_sweep_row;

typedef struct {
    int better, other;   // settings; of equal means the first one is `better`
    ls_paired_test test; // of better - other, in shares of 1
    double p_holm;
} ls_sweep_comparison;

typedef struct {
    const ls_sweep_plan *plan;
    const ls_sweep_result *results;
    ls_sweep_measure measure; // the first that every complete run has
    int complete;
    ls_sweep_row *rows; // a setting each
    ls_sweep_comparison *comparisons;
    int comparison_count; // all pairs
} ls_sweep_table;

// plan and results are borrowed. The caller frees the table by ls_sweep_table_free.
ls_sweep_table ls_sweep_table_new(const ls_sweep_plan *plan, const ls_sweep_result *results);
void ls_sweep_table_free(ls_sweep_table *table);
LS_CHECKED ls_status ls_sweep_table_print(const ls_sweep_table *table, FILE *file);
// "lr = 0.05 is better than lr = 0.01 by 0.42 points, 95 % interval 0.10 to 0.74, p = 0.01, 25 pairs" into dst; returns dst.
enum { LS_SWEEP_TEXT_BYTES = 1024 };
char *ls_sweep_comparison_text(
    const ls_sweep_table *table, const ls_sweep_comparison *comparison, char dst[LS_SWEEP_TEXT_BYTES]);
// The three files, into the sweep's folder.
LS_CHECKED ls_status ls_sweep_table_write(const ls_sweep_table *table);

#endif
