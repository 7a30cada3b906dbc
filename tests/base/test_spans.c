// Spans recorded by several threads, off, over the end of the memory.
#include <pthread.h>
#include <string.h>

#include "base/spans.h"
#include "support/cmocka.h"

enum { THREADS = 4, EACH = 500 };

static void *record(void *context) {
    int64_t thread = *(int *)context;
    for (int i = 0; i < EACH; i++)
        ls_spans_add(&(ls_span){ .lane = (ls_span_lane)thread,
            .name = "span",
            .number = i,
            .update = thread,
            .start_s = (double)(thread * EACH + i),
            .end_s = (double)(thread * EACH + i) + 0.5 });
    return NULL;
}

static void record_in_threads(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        assert_int_equal(pthread_create(&threads[t], NULL, record, &numbers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}

// Every span that was kept is one of those that were recorded, and each at most once.
static void check_whole(void) {
    int seen[THREADS][EACH] = { 0 };
    for (int i = 0; i < ls_spans_count(); i++) {
        const ls_span *s = ls_spans_get(i);
        assert_non_null(s);
        int64_t t = s->update, n = s->number;
        assert_in_range(t, 0, THREADS - 1);
        assert_in_range(n, 0, EACH - 1);
        assert_int_equal(seen[t][n]++, 0);
        double start = (double)(t * EACH + n);
        if ((int64_t)s->lane != t || strcmp(s->name, "span") != 0 || s->start_s != start || s->end_s != start + 0.5)
            fail_msg("span %d of thread %d is torn: lane %d, start %g instead of %g", (int)n, (int)t, (int)s->lane,
                s->start_s, start);
    }
}

static void threads_write_at_once(void **state) {
    (void)state;
    static const int capacities[] = { THREADS * EACH + 7, THREADS * EACH, THREADS * EACH - 1, 100, 1 };
    for (size_t row = 0; row < sizeof capacities / sizeof *capacities; row++) {
        int capacity = capacities[row], all = THREADS * EACH, kept = capacity < all ? capacity : all;
        assert_int_equal(ls_spans_open(capacity).code, LS_OK);
        ls_spans_window(0, 1);
        assert_int_equal(ls_spans_at(0), 1);
        record_in_threads();
        if (ls_spans_count() != kept || ls_spans_dropped() != all - kept)
            fail_msg("room for %d: %d kept and %d dropped, expected %d and %d", capacity, ls_spans_count(),
                (int)ls_spans_dropped(), kept, all - kept);
        check_whole();
        ls_spans_close();
    }
}

// What ls_spans_at says before each update, and which updates are recorded.
static void windows(void **state) {
    (void)state;
    static const struct {
        int64_t from, to, update, next;
        int on;
    } rows[] = {
        { 3, 5, 0, 3, 0 },
        { 3, 5, 2, 3, 0 },
        { 3, 5, 3, 5, 1 },
        { 3, 5, 4, 5, 1 },
        { 3, 5, 5, INT64_MAX, 0 },
        { 3, 5, 9, INT64_MAX, 0 },
        { 0, 1, 0, 1, 1 },
        { 0, 0, 0, INT64_MAX, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ls_spans_open(4).code, LS_OK);
        ls_spans_window(rows[i].from, rows[i].to);
        int64_t next = ls_spans_at(rows[i].update);
        ls_spans_span(LS_SPANS_HOST, "enqueue", NULL, -1, 1, 2);
        if (next != rows[i].next || ls_spans_on() != rows[i].on || ls_spans_count() != rows[i].on)
            fail_msg("row %zu: next %lld, on %d, %d spans", i, (long long)next, ls_spans_on(), ls_spans_count());
        if (rows[i].on) assert_int_equal(ls_spans_get(0)->update, rows[i].update);
        ls_spans_close();
    }
}

static void off_is_nothing(void **state) {
    (void)state;
    assert_false(ls_spans_opened());
    assert_int_equal(ls_spans_at(0), INT64_MAX);
    ls_spans_span(LS_SPANS_HOST, "enqueue", NULL, -1, 1, 2);
    assert_false(ls_spans_on());
    assert_int_equal(ls_spans_count(), 0);
    assert_int_equal(ls_spans_dropped(), 0);
    assert_int_equal(ls_spans_open(4).code, LS_OK); // opened, but outside of the window
    ls_spans_span(LS_SPANS_HOST, "enqueue", NULL, -1, 1, 2);
    assert_int_equal(ls_spans_count(), 0);
    ls_spans_close();
}

// A span belongs to the update that it names, else to the one that is being given.
static void updates(void **state) {
    (void)state;
    assert_int_equal(ls_spans_open(4).code, LS_OK);
    ls_spans_window(7, 9);
    assert_int_equal(ls_spans_at(7), 9);
    ls_spans_span(LS_SPANS_COMPUTE, "loss", "fc", 3, 1, 2);
    ls_spans_update(8);
    ls_spans_span(LS_SPANS_COMPUTE, "loss", "fc", 3, 2, 3);
    ls_spans_add(&(ls_span){ .lane = LS_SPANS_LOADER, .name = "fill", .update = 11 });
    static const int64_t expected[] = { 7, 8, 11 };
    for (int i = 0; i < 3; i++) assert_int_equal(ls_spans_get(i)->update, expected[i]);
    assert_string_equal(ls_spans_get(1)->detail, "fc");
    assert_string_equal(ls_spans_lane_name(ls_spans_get(2)->lane), "loader");
    ls_spans_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_is_nothing),
        cmocka_unit_test(threads_write_at_once),
        cmocka_unit_test(windows),
        cmocka_unit_test(updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
