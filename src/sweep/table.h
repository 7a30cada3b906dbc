// table.h - the results of a sweep, printed and as files: a row for each setting, and comparisons of settings.
//
//   runs.csv       a line for each run: its number as --task takes it, folder, swept options, seed, state, results
//   settings.csv   a line for each setting: n, mean, deviation, 95 % interval, time, images/s; accuracies from 0 to 1
//   results.json   the settings and the comparisons of all pairs of settings
//
// Two settings are compared by a paired test (sweep/statistics.h) over the seeds that both have completed. The p values
// are corrected by Holm's method for the number of tests. Only the comparisons with the best setting are printed; but
// since the best setting was found by looking at all pairs, the correction counts all pairs.
#ifndef LS_SWEEP_TABLE_H
#define LS_SWEEP_TABLE_H

#include "sweep/statistics.h"
#include "sweep/results.h"

// The complete runs of one setting.
typedef struct {
    ls_statistics accuracy;                                      // accuracies (0 to 1) by the table's measure
    double seconds, images_per_second, means[LS_SWEEP_MEASURES]; // means over the runs
} ls_sweep_row;

typedef struct {
    int better, other;   // `better` has the higher mean over shared seeds; if equal or unknown, the lower number
    ls_paired_test test; // of the differences accuracy of `better` - accuracy of `other`, 0 to 1
    double p_holm;       // test.p, corrected for the number of tests
} ls_sweep_comparison;

typedef struct {
    const ls_sweep_plan *plan;
    const ls_sweep_result *results;
    ls_sweep_measure measure; // settings are compared by it: the first that every complete run has, or test accuracy
    int complete;             // number of complete runs
    ls_sweep_row *rows;       // [settings]
    ls_sweep_comparison *comparisons;
    int comparison_count; // number of pairs of settings; 0: there is one setting, or too many to compare
} ls_sweep_table;

// Makes the table of a sweep. plan and results are borrowed. The caller frees the table with ls_sweep_table_free.
ls_sweep_table ls_sweep_table_new(const ls_sweep_plan *plan, const ls_sweep_result *results);
void ls_sweep_table_free(ls_sweep_table *table);
LS_CHECKED ls_status ls_sweep_table_print(const ls_sweep_table *table, FILE *file);
// Writes a comparison as a sentence into dst, such as "lr = 0.05 is better than lr = 0.01 by 0.42 points, 95 % interval
// 0.10 to 0.74, p = 0.01, 25 pairs". Returns dst.
enum { LS_SWEEP_TEXT_BYTES = 1024 };
char *ls_sweep_comparison_text(
    const ls_sweep_table *table, const ls_sweep_comparison *comparison, char dst[LS_SWEEP_TEXT_BYTES]);
// Writes runs.csv, settings.csv and results.json into the sweep's folder.
LS_CHECKED ls_status ls_sweep_table_write(const ls_sweep_table *table);

#endif
