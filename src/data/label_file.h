// label_file.h - the labels of pictures that have several, from a CSV file (data.labels):
//
//   file,cat,dog,indoors
//   a.png,1,0,1
//   train/b.png,0,0,0
//
// The first line names the labels; the name of its first column does not matter. Each further line is a row: the path
// of a picture, relative to the data's folder, then 0 or 1 for each label. Values are separated by commas and may be in
// double quotes (RFC 4180; "" in quotes is one quote). White space around values without quotes, empty lines, CRLF and
// a UTF-8 byte order mark are passed over.
#ifndef LS_DATA_LABEL_FILE_H
#define LS_DATA_LABEL_FILE_H

#include <stdint.h>
#include "base/status.h"

typedef struct {
    const char *file; // path of the picture, without "./" at its start
    int64_t line;     // line of the row, from 1
    int64_t row;      // its number in `sets`
    int is_taken;     // whether a picture has this row; set by ls_label_file_find
} ls_label_row;

typedef struct {
    const char *path;    // path of the CSV file, for messages; borrowed
    char *text;          // its text, into which names point
    const char **labels; // names of the labels
    int label_count;
    ls_label_row *rows; // sorted by file
    int64_t row_count;
    uint8_t *sets; // (row_count, label_count), 0 or 1, in the order of the lines
} ls_label_file;

enum { LS_LABELS_MAX = 4096 }; // most labels of a file

// Reads the file. LS_DATA: the file cannot be read, or is no such table; the message names the file and the line.
// path: borrowed until the labels are freed.
LS_CHECKED ls_status ls_label_file_read(const char *path, ls_label_file **out);
void ls_label_file_free(ls_label_file *labels); // NULL is allowed
// Returns the picture's row and marks it as taken; NULL: the picture has no row.
const ls_label_row *ls_label_file_find(ls_label_file *labels, const char *file);

#endif
