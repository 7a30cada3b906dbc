#include "base/paragraph.h"

#include <string.h>

void ls_paragraph(FILE *file, const char *text, int at, int indent) {
    int column = at, begins = 1; // begins: this line has no word yet
    for (; *text; text += *text != '\0') {
        const int length = (int)strcspn(text, " \n");
        if (!begins && column + 1 + length > LS_SCREEN_COLUMNS) {
            fprintf(file, "\n%*s", length ? indent : 0, "");
            column = indent;
        } else if (!begins && length) {
            fputc(' ', file);
            column++;
        }
        fprintf(file, "%.*s", length, text);
        column += length;
        begins = begins && !length;
        text += length;
        if (*text != '\n') continue;
        fprintf(file, "\n%*s", text[1] == '\n' ? 0 : indent, "");
        column = indent;
        begins = 1;
    }
    fputc('\n', file);
}

void ls_paragraph_row(FILE *file, const char *left, const char *right, int indent, int columns) {
    int at = fprintf(file, "%*s%s", indent, "", left);
    if (at >= indent + columns) {
        fputc('\n', file);
        at = 0;
    }
    fprintf(file, "%*s", indent + columns - at, "");
    ls_paragraph(file, right, indent + columns, indent + columns);
}
