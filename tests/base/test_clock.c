// The clock: a sleep lasts at least as long as it should, over a second, too.
#include "base/clock.h"
#include "support/cmocka.h"

static void sleeps_are_not_short(void **state) {
    (void)state;
    static const double rows[] = { -1, 0, 0.001, 1.02 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double start = ls_clock_seconds();
        ls_clock_sleep(rows[i]);
        double seconds = ls_clock_seconds() - start;
        if (seconds < rows[i]) fail_msg("asked for %g s, slept %g s", rows[i], seconds);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sleeps_are_not_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
