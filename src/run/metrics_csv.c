#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/metrics_export.h"

enum { NAME_BYTES = 256, SLOTS = 4 * LS_METRICS_COLUMNS_MAX };

typedef struct {
    const char *kind;
    FILE *file;
    int64_t rows;
    int columns;
    char **names;
    const cJSON **values; // by column: value in the present row
    int *slots;           // by the hash of a name: its column + 1; 0: free
} table;

// --- columns -------------------------------------------------------------------------------------

// Looks up a column by its name. Returns the name's slot (*column: its column), or the free slot for it (*column: -1).
static int *find(const table *t, const char *name, int *column) {
    for (size_t at = (size_t)ls_hash(name, strlen(name)) % SLOTS;; at = (at + 1) % SLOTS) {
        *column = t->slots[at] - 1;
        if (*column < 0 || strcmp(t->names[*column], name) == 0) return &t->slots[at];
    }
}

static ls_status add_column(table *t, const char *name, const cJSON *value) {
    (void)value;
    int column, *slot = find(t, name, &column);
    if (column >= 0) return LS_SUCCESS;
    if (t->columns == LS_METRICS_COLUMNS_MAX)
        return ls_fail(LS_STORAGE, "its events have more than %d different fields: it is no metrics.jsonl of a run",
            LS_METRICS_COLUMNS_MAX);
    t->names[t->columns] = ls_new_text(name);
    *slot = ++t->columns;
    return LS_SUCCESS;
}

static ls_status set_value(table *t, const char *name, const cJSON *value) {
    int column;
    find(t, name, &column);
    t->values[column] = value;
    return LS_SUCCESS;
}

typedef ls_status (*visitor)(table *t, const char *name, const cJSON *value);

static ls_status visit(table *t, const cJSON *holder, const char *prefix, visitor take) {
    char name[NAME_BYTES];
    int index = 0;
    for (const cJSON *item = holder->child; item; item = item->next) {
        const int length = item->string ? snprintf(name, sizeof name, "%s%s", prefix, item->string)
                                        : snprintf(name, sizeof name, "%s%d", prefix, index++);
        if ((size_t)length + 1 >= sizeof name) continue; // too long for a field of metrics.jsonl
        if (!*prefix && (strcmp(name, "event") == 0 || strcmp(name, "part") == 0)) continue;
        if (!cJSON_IsObject(item) && !cJSON_IsArray(item)) {
            LS_TRY(take(t, name, item));
            continue;
        }
        strcpy(name + length, ".");
        LS_TRY(visit(t, item, name, take));
    }
    return LS_SUCCESS;
}

// --- rows ----------------------------------------------------------------------------------------

static void put_text(FILE *file, const char *text) {
    char *escaped;
    size_t bytes;
    FILE *memory = ls_text_stream(&escaped, &bytes);
    ls_text_print(memory, text);
    ls_text_stream_close(memory);
    if (strpbrk(escaped, ",\"")) {
        fputc('"', file);
        for (const char *at = escaped; *at; at++) fputs(*at == '"' ? "\"\"" : (char[2]){ *at }, file);
        fputc('"', file);
    } else {
        fputs(escaped, file);
    }
    free(escaped);
}

static void put_value(FILE *file, const cJSON *value) {
    char digits[LS_JSON_REAL_BYTES];
    if (cJSON_IsString(value)) put_text(file, value->valuestring);
    if (cJSON_IsBool(value)) fputs(cJSON_IsTrue(value) ? "true" : "false", file);
    if (cJSON_IsNumber(value) && isfinite(value->valuedouble))
        fputs(ls_json_real_text(digits, value->valuedouble), file);
}

static int is_row(const table *t, const ls_metrics_line *line) {
    return !line->redone && strcmp(line->kind, t->kind) == 0;
}

static ls_status note_columns(void *context, const ls_metrics_line *line) {
    table *t = context;
    return is_row(t, line) ? visit(t, line->json, "", add_column) : LS_SUCCESS;
}

static ls_status put_row(void *context, const ls_metrics_line *line) {
    table *t = context;
    if (!is_row(t, line)) return LS_SUCCESS;
    memset(t->values, 0, (size_t)t->columns * sizeof *t->values);
    LS_TRY(visit(t, line->json, "", set_value));
    fprintf(t->file, "%lld", (long long)line->part);
    for (int c = 0; c < t->columns; c++) {
        fputc(',', t->file);
        put_value(t->file, t->values[c]);
    }
    fputc('\n', t->file);
    t->rows++;
    return LS_SUCCESS;
}

static ls_status write_table(table *t, ls_metrics_reader *reader) {
    LS_TRY(ls_metrics_reader_each(reader, note_columns, t));
    if (t->columns == 0) return ls_fail(LS_USAGE, "%s: has no event '%s'", ls_metrics_reader_path(reader), t->kind);
    fputs("part", t->file);
    for (int c = 0; c < t->columns; c++) {
        fputc(',', t->file);
        put_text(t->file, t->names[c]);
    }
    fputc('\n', t->file);
    return ls_metrics_reader_each(reader, put_row, t);
}

ls_status ls_metrics_write_csv(ls_metrics_reader *reader, const char *kind, FILE *file) {
    table t = { .kind = kind, .file = file };
    t.slots = ls_new(SLOTS, sizeof *t.slots, "columns");
    t.names = ls_new(LS_METRICS_COLUMNS_MAX, sizeof *t.names, "columns");
    t.values = ls_new(LS_METRICS_COLUMNS_MAX, sizeof *t.values, "columns");
    ls_status status = write_table(&t, reader);
    for (int c = 0; c < t.columns; c++) free(t.names[c]);
    free(t.names);
    free(t.values);
    free(t.slots);
    return status;
}
