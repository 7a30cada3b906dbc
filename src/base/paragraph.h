// paragraph.h - text for a terminal: wrapped into lines, in one column or two.
#ifndef LS_BASE_PARAGRAPH_H
#define LS_BASE_PARAGRAPH_H

#include <stdio.h>

enum { LS_SCREEN_COLUMNS = 80 }; // no line is wider that has a space where to break it

// Words of text in lines that begin in column `indent`, the cursor standing in column `at`; a newline in text begins a line. Ends with a
// newline.
void ls_paragraph(FILE *file, const char *text, int at, int indent);
// "  left      right": left in column `indent`, right in a paragraph `columns` further; in lines of its own where left is wider.
void ls_paragraph_row(FILE *file, const char *left, const char *right, int indent, int columns);

#endif
