// paragraph.h - text for a terminal, wrapped into lines, in one or two columns.
#ifndef LS_BASE_PARAGRAPH_H
#define LS_BASE_PARAGRAPH_H

#include <stdio.h>

enum { LS_SCREEN_COLUMNS = 80 }; // lines are at most this wide, except for words that are wider themselves

// Prints the words of `text` in lines indented by `indent`, then a newline. The first line is not indented: it begins
// where the cursor stands, in column `at` (from 0). A newline in `text` begins a new line.
void ls_paragraph(FILE *file, const char *text, int at, int indent);
// Prints "  left      right": left is indented by `indent`, right is a paragraph that begins in column indent +
// columns. If left reaches that column, right begins on the next line.
void ls_paragraph_row(FILE *file, const char *left, const char *right, int indent, int columns);

#endif
