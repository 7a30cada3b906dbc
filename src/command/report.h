// report.h - tables, and the lines at the start and end of a run, for people.
#ifndef LS_COMMAND_REPORT_H
#define LS_COMMAND_REPORT_H

#include <stdio.h>
#include "base/status.h"
#include "train/trainer.h"

enum { LS_TABLE_CELL_BYTES = 96 };

// A table of text cells, stored row by row. The first row holds the headings. The first column is aligned left, the
// others right.
typedef struct {
    int columns, rows;
    char (*cell)[LS_TABLE_CELL_BYTES]; // [columns * rows]
} ls_table;

LS_CHECKED ls_status ls_table_new(int columns, int rows, ls_table *out); // all cells are empty
void ls_table_free(ls_table *table);
void ls_table_put(ls_table *table, int row, int column, const char *format, ...) LS_PRINTF(4, 5);
void ls_table_print(const ls_table *table, FILE *file);

// Prints `why`, the reason why no GPU is used, as an info line, unless it is NULL or this machine has no sign of a GPU
// (`train devices` always prints the reason). Returns whether the line was printed.
int ls_report_why_not_gpu(const char *why);
// Rank 0: names the options that were set but have no effect in this run.
void ls_report_options(const ls_train_info *info);
// Prints info lines about the network, the data, the device and the folder of the run that is about to start.
void ls_report_start(const ls_train_info *info, const char *run_folder);
// Prints info lines about the results of the run.
void ls_report_end(const ls_train_info *info, const ls_train_summary *summary, const char *run_folder);

#endif
