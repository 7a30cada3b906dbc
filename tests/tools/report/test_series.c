// A series in bounded memory: what comes out beside what went in.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "tools/report/series.h"
#include "support/cmocka.h"
#include "support/must.h"

enum { ROWS = 64 };
static const char *const names[] = { "update", "loss", "never", "seldom" };
enum { COLUMNS = sizeof names / sizeof *names };

static double loss_of(int row) {
    return sin(0.37 * row) + 1e-3 * row;
}

static ls_series *filled(int rows) {
    ls_series *series = ls_series_new(names, COLUMNS, ROWS);
    for (int i = 0; i < rows; i++)
        ls_series_add(series, (double[]){ i + 1, loss_of(i), NAN, i % 100 == 42 ? i : (double)NAN });
    return series;
}

// The numbers of a column, as a reader of the JSON has them. Returns how many.
static int column(const ls_series *series, const char *name, double *out) {
    cJSON *object = ls_series_json(series);
    char *text = ls_json_text(object, 0);
    assert_non_null(text);
    cJSON *tree = cJSON_Parse(text), *item;
    assert_non_null(tree);
    int count = ls_json_get(tree, name) ? 0 : -1;
    cJSON_ArrayForEach(item, ls_json_get(tree, name)) out[count++] = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    cJSON_Delete(tree);
    cJSON_Delete(object);
    cJSON_free(text);
    return count;
}

static void few_rows_come_out_as_they_are(void **state) {
    (void)state;
    double update[ROWS], loss[ROWS];
    ls_series *series = filled(ROWS / 2);
    assert_int_equal(column(series, "update", update), ROWS / 2);
    assert_int_equal(column(series, "loss", loss), ROWS / 2);
    for (int i = 0; i < ROWS / 2; i++) {
        assert_true(update[i] == i + 1);
        assert_true(fabs(loss[i] - loss_of(i)) <= 1e-9);
    }
    assert_int_equal(column(series, "never", loss), -1);
    ls_series_free(series);
}

static void many_rows_keep_lowest_and_highest(void **state) {
    (void)state;
    for (int rows = ROWS / 2 + 1; rows < 40 * ROWS; rows += 37) {
        double update[ROWS], loss[ROWS], low = INFINITY, high = -INFINITY;
        ls_series *series = filled(rows);
        const int count = column(series, "update", update);
        assert_true(count > ROWS / 4 && count <= ROWS);
        assert_true(update[0] == 1 && update[count - 1] == rows);
        for (int i = 1; i < count; i++) assert_true(update[i] > update[i - 1]);
        assert_int_equal(column(series, "loss", loss), count);
        for (int i = 0; i < rows; i++) low = fmin(low, loss_of(i)), high = fmax(high, loss_of(i));
        double lowest = INFINITY, highest = -INFINITY;
        for (int i = 0; i < count; i++) lowest = fmin(lowest, loss[i]), highest = fmax(highest, loss[i]);
        assert_true(fabs(low - lowest) < 1e-9 && fabs(high - highest) < 1e-9);
        if (rows > 42) assert_int_equal(column(series, "seldom", loss), count);
        ls_series_free(series);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_rows_come_out_as_they_are),
        cmocka_unit_test(many_rows_keep_lowest_and_highest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
