// Which algorithm is taken of those that were timed: with times that are given in place of a clock.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/algorithm_choice.h"
#include "support/cmocka.h"

enum { CANDIDATES = 4, RUNS_MAX = 32 };
static const float fails = -1;

typedef struct {
    const float (*ms)[CANDIDATES]; // of a round; the last round's for all that follow
    int rounds;
    int runs[CANDIDATES]; // that there were
    char order[256];      // "0123012..."
} clock_stand_in;

static ls_status time_once(void *context, int candidate, float *ms) {
    clock_stand_in *clock = context;
    const int round = clock->runs[candidate]++;
    const float now = clock->ms[round < clock->rounds ? round : clock->rounds - 1][candidate];
    const size_t length = strlen(clock->order);
    if (length + 1 < sizeof clock->order) clock->order[length] = (char)('0' + candidate);
    if (now == fails) return ls_fail(LS_DEVICE, "candidate %d refuses", candidate);
    *ms = now;
    return LS_SUCCESS;
}

static ls_algorithm_candidates candidates_of(clock_stand_in *clock, int count) {
    return (ls_algorithm_candidates){ "conv1", "conv forward", count, time_once, clock };
}

static void the_shortest_run_decides(void **state) {
    (void)state;
    static const struct {
        const char *what;
        float ms[3][CANDIDATES];
        int rounds, count, best;
    } rows[] = {
        { "one candidate", { { 5 } }, 1, 1, 0 },
        { "the fastest", { { 5, 3, 4, 6 } }, 1, 4, 1 },
        { "the last one", { { 5, 5, 5, 3 } }, 1, 4, 3 },
        { "equals go by their order", { { 5, 3, 3, 3 } }, 1, 4, 1 },
        { "all equal", { { 5, 5, 5, 5 } }, 1, 4, 0 },
        { "2 % faster is noise", { { 5, 4.9F, 5, 5 } }, 1, 4, 0 },
        { "4 % faster is not", { { 5, 4.8F, 5, 5 } }, 1, 4, 1 },
        { "small steps do not add up past the first", { { 5, 4.9F, 4.87F, 4.8F } }, 1, 4, 3 },
        { "the first round does not count", { { 1, 9, 9, 9 }, { 5, 3, 4, 6 } }, 2, 4, 1 },
        { "the shortest run counts, not the last", { { 9, 9, 9, 9 }, { 4, 3, 9, 9 }, { 5, 5, 9, 9 } }, 3, 4, 1 },
        { "one that fails is left out", { { fails, 3, 4, 6 } }, 1, 4, 1 },
        { "one that fails later is left out", { { 1, 3, 4, 6 }, { 1, 3, 4, 6 }, { fails, 3, 4, 6 } }, 3, 4, 1 },
        { "all but one fail", { { fails, fails, fails, 6 } }, 1, 4, 3 },
        { "not a number", { { NAN, 5, 5, 5 } }, 1, 4, 1 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        clock_stand_in clock = { .ms = rows[r].ms, .rounds = rows[r].rounds };
        const ls_algorithm_candidates candidates = candidates_of(&clock, rows[r].count);
        int best = -1;
        for (int again = 0; again < 2; again++) { // the same times, the same choice
            memset(clock.runs, 0, sizeof clock.runs);
            ls_status status = ls_algorithm_fastest(&candidates, &best);
            if (ls_failed(status)) fail_msg("%s: %s", rows[r].what, status.text);
            if (best != rows[r].best) fail_msg("%s: %d, expected %d", rows[r].what, best, rows[r].best);
        }
    }
}

// In turns, so that what changes with time meets all alike; what cannot win is not run to the end.
static void rounds_go_over_all(void **state) {
    (void)state;
    static const float ms[][CANDIDATES] = { { 5, 3, 11, fails } };
    clock_stand_in clock = { .ms = ms, .rounds = 1 };
    const ls_algorithm_candidates candidates = candidates_of(&clock, CANDIDATES);
    int best;
    assert_int_equal(ls_algorithm_fastest(&candidates, &best).code, LS_OK);
    assert_int_equal(best, 1);
    assert_string_equal(clock.order, "0123" // not counted; 3 is out
                                     "012"  // 2 takes twice as long as 1
                                     "010101010101");
}

static void none_runs(void **state) {
    (void)state;
    static const float ms[][CANDIDATES] = { { fails, fails, fails, fails } };
    clock_stand_in clock = { .ms = ms, .rounds = 1 };
    const ls_algorithm_candidates candidates = candidates_of(&clock, CANDIDATES);
    int best;
    ls_status status = ls_algorithm_fastest(&candidates, &best);
    assert_int_equal(status.code, LS_DEVICE);
    assert_string_equal(status.text, "layer conv1: conv forward: none of the library's 4 algorithms runs on this GPU; "
                                     "run train doctor to check the GPU "
                                     "and the libraries. The first error: candidate 0 refuses");
    assert_string_equal(clock.order, "0123");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_run_decides),
        cmocka_unit_test(rounds_go_over_all),
        cmocka_unit_test(none_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
