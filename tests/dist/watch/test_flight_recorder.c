// The flight recorder: numbers, what a reader sees while two threads write, and what is overwritten.
#include <pthread.h>
#include <stdlib.h>
#include "dist/watch/flight_recorder.h"
#include "support/cmocka.h"

static void keeps_the_last_ones(void **state) {
    (void)state;
    static ls_flight_recorder recorder;
    ls_flight_recorder_init(&recorder);
    ls_flight_recorder_entry entry;
    assert_false(ls_flight_recorder_read(&recorder, 0, &entry));
    assert_false(ls_flight_recorder_read(&recorder, -1, &entry));
    for (int i = 0; i < 3 * LS_FLIGHT_RECORDER_ENTRIES; i++) {
        int64_t number = ls_flight_recorder_begins(&recorder, i % 2 ? LS_IN_BUCKET : LS_IN_BARRIER, i, 10 * i, i / 4);
        assert_int_equal(number, i);
        assert_true(ls_flight_recorder_read(&recorder, number, &entry));
        assert_true(entry.ended_s == 0 && entry.launched_s > 0);
        if (i % 3) ls_flight_recorder_ends(&recorder, number);
    }
    assert_int_equal(atomic_load(&recorder.begun), 3 * LS_FLIGHT_RECORDER_ENTRIES);
    assert_int_equal(atomic_load(&recorder.ended), 2 * LS_FLIGHT_RECORDER_ENTRIES);
    assert_false(ls_flight_recorder_read(&recorder, 2 * LS_FLIGHT_RECORDER_ENTRIES - 1, &entry));
    for (int i = 2 * LS_FLIGHT_RECORDER_ENTRIES; i < 3 * LS_FLIGHT_RECORDER_ENTRIES; i++) {
        assert_true(ls_flight_recorder_read(&recorder, i, &entry));
        assert_int_equal(entry.number, i);
        assert_int_equal(entry.kind, i % 2 ? LS_IN_BUCKET : LS_IN_BARRIER);
        assert_int_equal(entry.bucket, i);
        assert_int_equal(entry.bytes, 10 * i);
        assert_int_equal(entry.update, i / 4);
        assert_int_equal(entry.ended_s > 0, i % 3 != 0);
    }
    // the end of one that is gone is counted, and changes no other
    ls_flight_recorder_ends(&recorder, 0);
    assert_int_equal(atomic_load(&recorder.ended), 2 * LS_FLIGHT_RECORDER_ENTRIES + 1);
    assert_true(ls_flight_recorder_read(&recorder, 2 * LS_FLIGHT_RECORDER_ENTRIES, &entry));
    assert_int_equal(entry.ended_s > 0, (2 * LS_FLIGHT_RECORDER_ENTRIES) % 3 != 0);
}

enum { EACH = 20000 };

static void *fill(void *context) {
    ls_flight_recorder *recorder = context;
    for (int i = 0; i < EACH; i++) {
        int64_t number = ls_flight_recorder_begins(recorder, LS_IN_BUCKET, i, 7 * (int64_t)i, 3 * (int64_t)i);
        ls_flight_recorder_ends(recorder, number);
    }
    return NULL;
}

// A reader sees whole entries or none.
static void is_read_while_written(void **state) {
    (void)state;
    static ls_flight_recorder recorder;
    ls_flight_recorder_init(&recorder);
    pthread_t writer[2];
    for (int w = 0; w < 2; w++) assert_int_equal(pthread_create(&writer[w], NULL, fill, &recorder), 0);
    int seen = 0;
    for (int64_t begun = 0; begun < 2 * EACH;) {
        begun = (int64_t)atomic_load(&recorder.begun);
        ls_flight_recorder_entry entry;
        for (int64_t i = begun - 4; i < begun; i++) {
            if (!ls_flight_recorder_read(&recorder, i, &entry)) continue;
            seen++;
            if (entry.bytes != 7 * (int64_t)entry.bucket || entry.update != 3 * (int64_t)entry.bucket)
                fail_msg("number %lld: bucket %d, %lld bytes, update %lld", (long long)i, entry.bucket,
                    (long long)entry.bytes, (long long)entry.update);
        }
    }
    for (int w = 0; w < 2; w++) pthread_join(writer[w], NULL);
    assert_true(seen > 0);
    assert_int_equal(atomic_load(&recorder.ended), 2 * EACH);
}

static void says_what_it_was(void **state) {
    (void)state;
    char text[32];
    assert_string_equal(ls_flight_recorder_describe(text, sizeof text, LS_IN_BUCKET, 3), "bucket 3");
    assert_string_equal(ls_flight_recorder_describe(text, sizeof text, LS_IN_ALLREDUCE, -1), "all-reduce");
    assert_string_equal(ls_flight_recorder_describe(text, sizeof text, 99, -1), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(keeps_the_last_ones), cmocka_unit_test(is_read_while_written),
        cmocka_unit_test(says_what_it_was) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
