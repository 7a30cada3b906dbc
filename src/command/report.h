// report.h - tables and closing lines for people.
#ifndef LS_COMMAND_REPORT_H
#define LS_COMMAND_REPORT_H

#include <stdio.h>
#include "base/status.h"
#include "train/trainer.h"

enum { LS_TABLE_CELL_BYTES = 96 };

// A table of text cells, row by row, `columns` cells a row; the first row is the head, its words above the columns. The
// first column is flush left, the others flush right.
typedef struct {
    int columns, rows;
    char (*cell)[LS_TABLE_CELL_BYTES]; // columns * rows
} ls_table;

LS_CHECKED ls_status ls_table_new(int columns, int rows, ls_table *out); // empty cells
void ls_table_free(ls_table *table);
void ls_table_put(ls_table *table, int row, int column, const char *format, ...) LS_PRINTF(4, 5);
void ls_table_print(const ls_table *table, FILE *file);

// Why no GPU is used, as an info line; nothing where why is NULL, or nobody counts on a GPU (`train devices` says all). Returns
// whether it was said.
int ls_report_why_not_gpu(const char *why);
// Names options that were set and have no effect in this run. Rank 0.
void ls_report_options(const ls_train_info *info);
// What is about to be trained, on what, into which folder: a few info lines.
void ls_report_start(const ls_train_info *info, const char *run_folder);
// What came out: info lines.
void ls_report_end(const ls_train_info *info, const ls_train_summary *summary, const char *run_folder);

#endif
