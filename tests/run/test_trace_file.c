// A trace as a file. Alone: events made of hand-written spans. With arguments, checks a file that `train --trace`
// wrote; tests/cli/test_trace.sh starts it so:
//
//   test_run_trace_file FILE RANKS FIRST UPDATES INSTRUCTIONS MICRO_BATCHES BUCKETS
//                         of which the traced updates, instructions of a program, micro-batches of a rank in an update
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/spans.h"
#include "support/cmocka.h"
#include "run/trace_events.h"

// --- events --------------------------------------------------------------------------------------

static const char *text_of(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItem(object, name);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_of(const cJSON *object, const char *name, double absent) {
    const cJSON *item = cJSON_GetObjectItem(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

static const cJSON *args_of(const cJSON *event) {
    return cJSON_GetObjectItem(event, "args");
}

static int is(const cJSON *event, const char *kind, const char *lane) {
    return strcmp(text_of(event, "ph"), kind) == 0 && (!lane || strcmp(text_of(event, "cat"), lane) == 0);
}

static double start_of(const cJSON *event) {
    return number_of(event, "ts", NAN);
}

static double end_of(const cJSON *event) {
    return start_of(event) + number_of(event, "dur", NAN);
}

// --- hand-written spans --------------------------------------------------------------------------

static void add(ls_span_lane lane, const char *name, int64_t update, double ready, double start, double end) {
    ls_spans_add(&(ls_span){ .lane = lane,
        .name = name,
        .number = 1,
        .update = update,
        .ready_s = ready > 0 ? 1000 + ready * 1e-3 : 0,
        .start_s = 1000 + start * 1e-3,
        .end_s = 1000 + end * 1e-3 });
}

// Times in ms. Update 3: one bucket hidden, one half, one not at all; update 4: one while nothing runs.
static void add_spans(void) {
    add(LS_SPANS_HOST, "finish", 3, 0, 6, 9);
    add(LS_SPANS_HOST, "enqueue", 3, 0, 0, 9);
    add(LS_SPANS_COMPUTE, "backward 1", 3, 0, 0, 2);
    add(LS_SPANS_COMPUTE, "backward 2", 3, 0, 2, 4);
    add(LS_SPANS_COMPUTE, "backward 3", 3, 0, 4.5, 6);
    add(LS_SPANS_GRADIENTS, "bucket", 3, 2, 2.2, 4); // hidden; the second is exposed for 4 to 4.5 and 6 to 7
    add(LS_SPANS_GRADIENTS, "bucket", 3, 4, 4.1, 7);
    add(LS_SPANS_GRADIENTS, "bucket", 3, 6, 6.5, 8); // and the third to 8
    add(LS_SPANS_COMPUTE, "optimizer", 3, 0, 8, 9);
    add(LS_SPANS_COMPUTE, "backward 1", 4, 0, 10, 11);
    add(LS_SPANS_GRADIENTS, "bucket", 4, 10.2, 10.5, 10.8); // hidden, and then nothing is under way for a while
    add(LS_SPANS_GRADIENTS, "bucket", 4, 0, 12, 13);        // when it could have begun is not known
    add(LS_SPANS_COMPUTE, "optimizer", 4, 0, 13, 14);
    add(LS_SPANS_HOST, "no room for it", 4, 0, 14, 15);
}

static cJSON *make_events(void) {
    const ls_comm_info rank = { .rank = 2, .world_size = 4, .host = "h2" };
    const ls_trace_info facts = {
        .device = "cpu: x", .clock = { .offset_s = 7, .error_s = 25e-6, .measured = 1 }, .comm_exposed_s = 0.004
    };
    assert_int_equal(ls_spans_open(13).code, LS_OK);
    ls_spans_window(3, 5);
    assert_int_equal(ls_spans_at(3), 5);
    add_spans();
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(ls_trace_events_text(&rank, &facts, 1007.0, &text, &bytes).code, LS_OK);
    ls_spans_close();
    assert_int_equal(bytes, strlen(text));
    char *array = malloc(bytes + 3);
    snprintf(array, bytes + 3, "[%s]", text);
    cJSON *events = cJSON_Parse(array);
    assert_non_null(events);
    free(array);
    free(text);
    return events;
}

// The first event of this kind and name.
static const cJSON *find(const cJSON *events, const char *kind, const char *name) {
    const cJSON *event;
    cJSON_ArrayForEach(
        event, events) if (is(event, kind, NULL) && strcmp(text_of(event, "name"), name) == 0) return event;
    fail_msg("no event %s \"%s\"", kind, name);
    return NULL;
}

static void about_the_rank(void **state) {
    (void)state;
    cJSON *events = make_events();
    const cJSON *args = args_of(find(events, "M", "process_name"));
    assert_string_equal(text_of(args, "name"), "rank 2, h2, cpu: x");
    assert_string_equal(text_of(args, "clock"), "measured");
    assert_true(number_of(args, "clock_error_us", 0) == 25);
    assert_true(number_of(args, "spans", 0) == 13);
    assert_true(number_of(args, "spans_dropped", 0) == 1);
    assert_true(number_of(args, "comm_seconds_exposed", 0) == 0.004);
    assert_string_equal(
        text_of(args_of(find(events, "M", "process_labels")), "labels"), "1 spans did not fit: trace fewer updates");
    const cJSON *event;
    cJSON_ArrayForEach(event, events) assert_true(number_of(event, "pid", -1) == 2);
    cJSON_Delete(events);
}

static void times_and_rows(void **state) {
    (void)state;
    cJSON *events = make_events();
    const cJSON *event, *enqueue = find(events, "X", "enqueue"), *finish = find(events, "X", "finish");
    assert_true(start_of(enqueue) == 0 && end_of(enqueue) == 9000); // the rank's 1000 s are rank 0's 1007 s, which is 0
    assert_true(number_of(enqueue, "tid", -1) == number_of(finish, "tid", -2));
    char threads[64] = "";
    cJSON_ArrayForEach(event, events) {
        if (!is(event, "X", "gradients")) continue;
        const cJSON *name;
        cJSON_ArrayForEach(name, events) if (strcmp(text_of(name, "name"), "thread_name") == 0 &&
                                             number_of(name, "tid", -1) == number_of(event, "tid", -2))
            snprintf(
                threads + strlen(threads), sizeof threads - strlen(threads), "%s, ", text_of(args_of(name), "name"));
    }
    assert_string_equal(threads, "gradients, gradients, gradients 2, gradients, gradients, ");
    cJSON_Delete(events);
}

static void exposed_communication(void **state) {
    (void)state;
    cJSON *events = make_events();
    static const double expected[][2] = { { 8000, 2.5 }, { 13000, 1 } };
    int seen = 0;
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        if (!is(event, "C", NULL)) continue;
        double ms = number_of(args_of(event), "ms", NAN);
        assert_in_range(seen, 0, 1);
        if (start_of(event) != expected[seen][0] || fabs(ms - expected[seen][1]) > 1e-6)
            fail_msg("update %d: at %g us %g ms, expected at %g us %g ms", seen + 3, start_of(event), ms,
                expected[seen][0], expected[seen][1]);
        seen++;
    }
    assert_int_equal(seen, 2);
    cJSON_Delete(events);
}

// From the instruction that ended before the bucket was ready, to the bucket.
static void arrows(void **state) {
    (void)state;
    cJSON *events = make_events();
    static const double expected[] = { 0, 2200, 2000, 4100, 4500, 6500, 8000, 10500 };
    int seen = 0;
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        if (!is(event, "s", NULL) && !is(event, "f", NULL)) continue;
        assert_in_range(seen, 0, 7);
        assert_string_equal(text_of(event, "ph"), seen % 2 ? "f" : "s");
        if (start_of(event) != expected[seen]) fail_msg("arrow end %d at %g us", seen, start_of(event));
        seen++;
    }
    assert_int_equal(seen, 8);
    cJSON_Delete(events);
}

// --- a file --------------------------------------------------------------------------------------

typedef struct {
    int ranks, first, updates, instructions, micro_batches, buckets;
} expectation;

static int failures;

#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            failures++; \
            printf(__VA_ARGS__); \
            putchar('\n'); \
        } \
    } while (0)

static const double rounding_us = 0.002; // times are rounded to ns, twice

// Counts the spans of a lane that an update has of each number; *start, *end: of all of them.
static void count_spans(const cJSON *events, int pid, int update, const char *lane, const char *number, int *counts,
    int room, double *start, double *end) {
    const cJSON *event;
    *start = INFINITY;
    *end = -INFINITY;
    memset(counts, 0, (size_t)room * sizeof *counts);
    cJSON_ArrayForEach(event, events) {
        const cJSON *args = args_of(event);
        if (!is(event, "X", lane) || number_of(event, "pid", -1) != pid || number_of(args, "update", -1) != update)
            continue;
        int n = (int)number_of(args, number, -1);
        if (n >= 0 && n < room) counts[n]++;
        if (n >= room) CHECK(0, "rank %d, update %d: %s %d", pid, update, number, n);
        if (n < 0) continue;
        *start = fmin(*start, start_of(event));
        *end = fmax(*end, end_of(event));
    }
}

static double step_of(const cJSON *events, int pid, int update) {
    const cJSON *event;
    cJSON_ArrayForEach(
        event, events) if (is(event, "X", "compute") && number_of(event, "pid", -1) == pid &&
                           number_of(args_of(event), "update", -1) == update &&
                           strcmp(text_of(event, "name"), "gradient statistics") == 0) return start_of(event);
    CHECK(0, "rank %d, update %d: no gradient statistics", pid, update);
    return NAN;
}

enum { NUMBERS = 1024 };

static void check_update(const cJSON *events, const expectation *e, int pid, int update) {
    int counts[NUMBERS];
    double start, end, bucket_start, bucket_end;
    count_spans(events, pid, update, "compute", "instruction", counts, e->instructions, &start, &end);
    for (int i = 0; i < e->instructions; i++)
        CHECK(counts[i] == e->micro_batches, "rank %d, update %d: instruction %d appears %d times, expected %d", pid,
            update, i, counts[i], e->micro_batches);
    double step = step_of(events, pid, update);
    CHECK(end <= step + rounding_us, "rank %d, update %d: instructions end at %.3f us, after the step began at %.3f",
        pid, update, end, step);
    count_spans(events, pid, update, "gradients", "bucket", counts, e->buckets, &bucket_start, &bucket_end);
    for (int i = 0; i < e->buckets; i++)
        CHECK(counts[i] == 1, "rank %d, update %d: bucket %d appears %d times", pid, update, i, counts[i]);
    CHECK(e->buckets == 0 || (bucket_start >= start && bucket_end <= step + rounding_us),
        "rank %d, update %d: buckets from %.3f to %.3f us, expected between %.3f and %.3f", pid, update, bucket_start,
        bucket_end, start, step);
}

// A bucket becomes ready between instructions, and starts then or later.
static void check_ready(const cJSON *events, const cJSON *bucket) {
    double ready = number_of(args_of(bucket), "ready", NAN);
    if (isnan(ready)) return;
    CHECK(start_of(bucket) >= ready - rounding_us, "a bucket starts at %.3f us and is ready at %.3f", start_of(bucket),
        ready);
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        if (!is(event, "X", "compute") || number_of(event, "pid", -1) != number_of(bucket, "pid", -2)) continue;
        CHECK(start_of(event) >= ready - rounding_us || end_of(event) <= ready + rounding_us,
            "a bucket is ready at %.3f us, within %s from %.3f to %.3f", ready, text_of(event, "name"), start_of(event),
            end_of(event));
    }
}

// Spans of a thread follow each other; phases of the host may lie inside each other, but not across.
static void check_threads(const cJSON *events) {
    enum { THREADS = 4096 };
    static double ends[THREADS], outer[THREADS];
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        if (!is(event, "X", NULL)) continue;
        int thread = (int)(number_of(event, "pid", 0) * 512 + number_of(event, "tid", 0)) % THREADS;
        int inside = is(event, "X", "host") && end_of(event) <= outer[thread] + rounding_us;
        CHECK(inside || start_of(event) >= ends[thread] - rounding_us, "%s of rank %g begins at %.3f us, before %.3f",
            text_of(event, "name"), number_of(event, "pid", -1), start_of(event), ends[thread]);
        CHECK(end_of(event) >= start_of(event), "%s ends before it begins", text_of(event, "name"));
        ends[thread] = end_of(event);
        outer[thread] = fmax(outer[thread], end_of(event));
    }
}

// Only one thread of these lanes: an instruction runs alone.
static void check_alone(const cJSON *events) {
    const cJSON *event;
    cJSON_ArrayForEach(event, events) {
        const char *name = text_of(args_of(event), "name");
        CHECK(strcmp(name, "compute 2") != 0 && strcmp(name, "waits 2") != 0, "there is a thread '%s'", name);
    }
}

static int check_file(char **argv) {
    cJSON *tree = NULL;
    ls_status status = ls_json_read_file(argv[0], &tree);
    if (ls_failed(status)) {
        printf("%s\n", status.text);
        return 1;
    }
    const expectation e = { atoi(argv[1]), atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]) };
    const cJSON *events = cJSON_GetObjectItem(tree, "traceEvents"), *about = cJSON_GetObjectItem(tree, "otherData"),
                *event;
    CHECK(number_of(about, "ranks", 0) == e.ranks && number_of(about, "first_update", -1) == e.first &&
              number_of(about, "updates", 0) == e.updates && number_of(about, "spans_dropped", -1) == 0,
        "otherData differs");
    for (int pid = 0; pid < e.ranks; pid++)
        for (int update = e.first; update < e.first + e.updates; update++) check_update(events, &e, pid, update);
    cJSON_ArrayForEach(event, events) {
        if (is(event, "X", "compute")) {
            int update = (int)number_of(args_of(event), "update", -1);
            CHECK(update >= e.first && update < e.first + e.updates, "an instruction of update %d", update);
        }
        if (is(event, "X", "gradients")) check_ready(events, event);
    }
    check_threads(events);
    check_alone(events);
    cJSON_Delete(tree);
    return failures > 0;
}

int main(int argc, char **argv) {
    if (argc == 8) return check_file(argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(about_the_rank),
        cmocka_unit_test(times_and_rows),
        cmocka_unit_test(exposed_communication),
        cmocka_unit_test(arrows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
