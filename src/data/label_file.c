#include "data/label_file.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

typedef struct {
    ls_label_file *labels;
    char *at;     // the next character; the text ends with a 0 byte
    int64_t line; // of the row that is read, from 1
} reader;

static LS_PRINTF(2, 3) ls_status refuse(const reader *r, const char *format, ...) {
    char text[LS_STATUS_TEXT_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ls_fail(LS_DATA, "%s:%lld: %s", r->labels->path, (long long)r->line, text);
}

// Takes a value in quotes, in place. Sets *end to its end.
static ls_status take_quoted(reader *r, char **end) {
    char *to = r->at++;
    for (; *r->at != '"' || r->at[1] == '"'; *to++ = *r->at++) {
        if (!*r->at || *r->at == '\n') return refuse(r, "a double quote is not closed in this line");
        r->at += *r->at == '"';
    }
    r->at++;
    *end = to;
    return LS_SUCCESS;
}

// Takes the next value of the row, in place. *ends: whether it is the last value of its row.
static ls_status take_value(reader *r, char **value, int *ends) {
    char *end = r->at + strcspn(r->at, ",\r\n");
    const int is_quoted = *r->at == '"';
    *value = r->at;
    if (is_quoted)
        LS_TRY(take_quoted(r, &end));
    else
        r->at = end;
    if (*r->at == '\r' && (r->at[1] == '\n' || !r->at[1])) r->at++;
    const char next = *r->at;
    if (next && next != ',' && next != '\n')
        return refuse(r, "expected a comma or the end of the line after '%.*s'", (int)(end - *value), *value);
    *ends = next != ',';
    r->at += next != 0;
    *end = 0;
    if (!is_quoted) *value = ls_text_trim(*value);
    return LS_SUCCESS;
}

// Goes to the next line that is not empty. Returns 0 at the end of the text.
static int find_row(reader *r) {
    for (;; r->at++) {
        r->at += strspn(r->at, " \t\r");
        if (!*r->at) return 0;
        r->line++;
        if (*r->at != '\n') return 1;
    }
}

static ls_status take_label(reader *r, const char *name) {
    ls_label_file *l = r->labels;
    if (l->label_count == LS_LABELS_MAX) return refuse(r, "has more than %d labels", LS_LABELS_MAX);
    if (!*name) return refuse(r, "column %d has no name; expected a line file,LABEL,LABEL...", l->label_count + 2);
    if (strcmp(name, "0") == 0 || strcmp(name, "1") == 0)
        return refuse(
            r, "the first line has the value %s; expected file,LABEL,LABEL... with the names of the labels", name);
    for (int k = 0; k < l->label_count; k++)
        if (strcmp(l->labels[k], name) == 0) return refuse(r, "two columns have the name '%s'; rename one", name);
    l->labels = ls_grow(l->labels, l->label_count, sizeof *l->labels, "names of labels");
    l->labels[l->label_count++] = name;
    return LS_SUCCESS;
}

static ls_status take_header(reader *r) {
    static const char expected[] = "expected a first line file,LABEL,LABEL... with the names of the labels";
    char *value;
    int ends;
    if (!find_row(r)) return refuse(r, "the file is empty; %s", expected);
    LS_TRY(take_value(r, &value, &ends));
    if (ends) return refuse(r, "'%.80s' has no comma; %s", value, expected);
    while (!ends) {
        LS_TRY(take_value(r, &value, &ends));
        LS_TRY(take_label(r, value));
    }
    return LS_SUCCESS;
}

static ls_status take_row(reader *r) {
    ls_label_file *l = r->labels;
    ls_label_row *row = &l->rows[l->row_count];
    uint8_t *set = l->sets + l->row_count * l->label_count;
    char *value;
    int ends, count = 0;
    LS_TRY(take_value(r, &value, &ends));
    while (strncmp(value, "./", 2) == 0) value += 2;
    if (!*value) return refuse(r, "the row names no picture; expected its path in the first column");
    *row = (ls_label_row){ .file = value, .line = r->line, .row = l->row_count };
    for (; !ends; count++) {
        LS_TRY(take_value(r, &value, &ends));
        if (count >= l->label_count) continue;
        if ((value[0] != '0' && value[0] != '1') || value[1])
            return refuse(r, "label '%s' of %s is '%.80s', expected 0 or 1", l->labels[count], row->file, value);
        set[count] = value[0] == '1';
    }
    l->row_count++;
    if (count == l->label_count) return LS_SUCCESS;
    return refuse(r, "%d value%s after %s, expected %d: 0 or 1 for each label of the first line", count,
        count == 1 ? "" : "s", row->file, l->label_count);
}

static int compare_rows(const void *a, const void *b) {
    const ls_label_row *x = a, *y = b;
    const int order = strcmp(x->file, y->file);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static ls_status sort_rows(reader *r) {
    ls_label_file *l = r->labels;
    qsort(l->rows, (size_t)l->row_count, sizeof *l->rows, compare_rows);
    for (int64_t i = 1; i < l->row_count; i++) {
        r->line = l->rows[i].line;
        if (strcmp(l->rows[i].file, l->rows[i - 1].file) == 0)
            return refuse(r, "%s has a row in line %lld, too; remove one of the two", l->rows[i].file,
                (long long)l->rows[i - 1].line);
    }
    return LS_SUCCESS;
}

static ls_status read_rows(ls_label_file *l, size_t bytes) {
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    reader r = { .labels = l, .at = l->text, .line = 0 };
    int64_t most = 1;
    if (strlen(l->text) != bytes)
        return ls_fail(LS_DATA, "%s: has 0 bytes, so it is no text in UTF-8; save it as CSV in UTF-8", l->path);
    for (const char *at = l->text; (at = strchr(at, '\n')); at++)
        most += at[1] != '\n' && strncmp(at + 1, "\r\n", 2) != 0;
    if (strncmp(r.at, byte_order_mark, strlen(byte_order_mark)) == 0) r.at += strlen(byte_order_mark);
    LS_TRY(take_header(&r));
    LS_TRY(ls_try_new(&l->rows, most, sizeof *l->rows, "rows of %s", l->path));
    LS_TRY(ls_try_new(&l->sets, most * l->label_count, sizeof *l->sets, "labels of %s", l->path));
    while (find_row(&r)) LS_TRY(take_row(&r));
    if (l->row_count == 0) return refuse(&r, "no row follows; expected a row for each picture");
    return sort_rows(&r);
}

ls_status ls_label_file_read(const char *path, ls_label_file **out) {
    ls_label_file *l = ls_new(1, sizeof *l, "labels of pictures");
    size_t bytes = 0;
    l->path = path;
    ls_status status = ls_read_file(path, &l->text, &bytes);
    if (status.code == LS_STORAGE) status.code = LS_DATA;
    LS_THEN(status, read_rows(l, bytes));
    return LS_GIVE_OR_FREE(status, l, out, ls_label_file_free);
}

void ls_label_file_free(ls_label_file *l) {
    if (!l) return;
    free(l->text);
    free(l->labels);
    free(l->rows);
    free(l->sets);
    free(l);
}

static int compare_file(const void *file, const void *row) {
    return strcmp(file, ((const ls_label_row *)row)->file);
}

const ls_label_row *ls_label_file_find(ls_label_file *l, const char *file) {
    ls_label_row *row = bsearch(file, l->rows, (size_t)l->row_count, sizeof *l->rows, compare_file);
    if (row) row->is_taken = 1;
    return row;
}
