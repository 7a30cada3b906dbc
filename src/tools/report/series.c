#include "tools/report/series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/memory.h"

// One column of a bucket: the lowest and highest value and the numbers of their rows, -1 while no value is known.
typedef struct {
    double low, high;
    int64_t low_at, high_at;
} extent;

struct ls_series {
    const char *const *names;
    int columns, capacity;   // capacity: most buckets
    int count;               // buckets in use
    int64_t stride, in_last; // rows of a full bucket; rows in the last bucket
    int64_t rows;            // rows added so far
    extent *extents;         // [capacity][columns]
};

ls_series *ls_series_new(const char *const *names, int columns, int rows) {
    ls_series *series = ls_new(1, sizeof *series, "series");
    *series = (ls_series){ .names = names, .columns = columns, .capacity = rows / 4 * 2, .stride = 1 };
    series->extents =
        ls_new(series->capacity * columns, sizeof *series->extents, "%d rows of %d columns", rows, columns);
    return series;
}

void ls_series_free(ls_series *series) {
    if (!series) return;
    free(series->extents);
    free(series);
}

static extent *bucket_at(const ls_series *series, int bucket) {
    return series->extents + (size_t)bucket * (size_t)series->columns;
}

static void join(extent *into, const extent *other) {
    if (other->low_at < 0) return;
    if (into->low_at < 0 || other->low < into->low) {
        into->low = other->low;
        into->low_at = other->low_at;
    }
    if (into->high_at < 0 || other->high >= into->high) {
        into->high = other->high;
        into->high_at = other->high_at;
    }
}

static void merge_pairs(ls_series *series) {
    for (int b = 0; b < series->count / 2; b++)
        for (int c = 0; c < series->columns; c++) {
            extent merged = bucket_at(series, 2 * b)[c];
            join(&merged, &bucket_at(series, 2 * b + 1)[c]);
            bucket_at(series, b)[c] = merged;
        }
    series->count /= 2;
    series->stride *= 2;
    series->in_last = series->stride;
}

void ls_series_add(ls_series *series, const double *values) {
    if (series->count == 0 || series->in_last >= series->stride) {
        if (series->count == series->capacity) merge_pairs(series);
        for (int c = 0; c < series->columns; c++) bucket_at(series, series->count)[c] = (extent){ 0, 0, -1, -1 };
        series->count++;
        series->in_last = 0;
    }
    extent *last = bucket_at(series, series->count - 1);
    for (int c = 0; c < series->columns; c++) {
        const int64_t at = isfinite(values[c]) ? series->rows : -1;
        join(&last[c], &(extent){ values[c], values[c], at, at });
    }
    series->in_last++;
    series->rows++;
}

// Writes the values of a column. A bucket of one row gives one value. A bucket of several rows gives two: the lowest
// and the highest, in the order in which they came.
static void put_values(const ls_series *series, int column, FILE *file) {
    const char *before = "[";
    for (int b = 0; b < series->count; b++) {
        const extent *e = &bucket_at(series, b)[column];
        const double first = e->low_at <= e->high_at ? e->low : e->high;
        const double last = e->low_at <= e->high_at ? e->high : e->low;
        const extent *position = bucket_at(series, b);
        for (int row = 0; row < (position->low_at == position->high_at ? 1 : 2); row++, before = ",") {
            if (e->low_at < 0)
                fprintf(file, "%snull", before);
            else
                fprintf(file, "%s%.10g", before, row ? last : first);
        }
    }
    fputs(series->count ? "]" : "[]", file);
}

static int has_values(const ls_series *series, int column) {
    for (int b = 0; b < series->count; b++)
        if (bucket_at(series, b)[column].low_at >= 0) return 1;
    return 0;
}

static cJSON *column_json(const ls_series *series, int column) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = ls_text_stream(&text, &bytes);
    put_values(series, column, file);
    ls_text_stream_close(file);
    cJSON *item = cJSON_CreateRaw(text);
    free(text);
    return item;
}

cJSON *ls_series_json(const ls_series *series) {
    cJSON *object = cJSON_CreateObject();
    for (int c = 0; c < series->columns; c++)
        if (has_values(series, c)) ls_json_add_item(object, series->names[c], column_json(series, c));
    return object;
}
