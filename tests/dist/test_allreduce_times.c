// The line through measured times of all-reduces, on made-up times whose line is known; bus bandwidth.
#include <math.h>
#include "dist/allreduce_times.h"
#include "support/cmocka.h"

static const struct {
    const char *name;
    int count;
    ls_allreduce_sample sample[4]; // bytes, repeats, seconds
    int known;
    double latency_s, bytes_per_s, rms;
} rows[] = {
    { "nothing", 0, { { 0 } }, 0, 0, 0, 0 },
    { "one size", 2, { { 8, 3, 1e-4, 0 }, { 8, 3, 2e-4, 0 } }, 0, 0, 0, 0 },
    { "latency and bandwidth", 3, { { 8, 3, 1e-4 + 8e-9, 0 }, { 1000000, 3, 1.1e-3, 0 }, { 8000000, 3, 8.1e-3, 0 } }, 1,
        1e-4, 1e9, 0 },
    { "no latency", 2, { { 1000, 3, 1e-6, 0 }, { 1000000, 3, 1e-3, 0 } }, 1, 0, 1e9, 0 },
    { "latency below zero is none", 2, { { 1000000, 3, 1e-3, 0 }, { 2000000, 3, 4e-3, 0 } }, 1, 0, 1.25 / 1.5 * 1e9,
        0.31622776601683794 },
    { "no dependence on the size", 2, { { 8, 3, 1e-4, 0 }, { 8000000, 3, 1e-4, 0 } }, 1, 1e-4, INFINITY, 0 },
    { "larger ones are faster", 2, { { 8, 3, 2e-4, 0 }, { 8000000, 3, 1e-4, 0 } }, 1, 1.2e-4, INFINITY,
        0.31622776601683794 },
    // relative errors count: 1.1 and 0.9 of one line, at a small and at a large size
    { "scatter", 4, { { 8, 3, 1.1e-4, 0 }, { 8, 3, 0.9e-4, 0 }, { 8000000, 3, 0.11, 0 }, { 8000000, 3, 0.09, 0 } }, 1,
        0.9792188e-4, 8.16977778e7, 0.099503719 },
};

static int close_to(double a, double b) {
    return a == b || fabs(a - b) <= 1e-4 * fabs(b) + 1e-9;
}

static void fits(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_allreduce_samples samples = { .count = rows[i].count };
        for (int s = 0; s < rows[i].count; s++) samples.sample[s] = rows[i].sample[s];
        const ls_allreduce_fit fit = ls_allreduce_fit_of(&samples);
        if (fit.known != rows[i].known) fail_msg("%s: known %d", rows[i].name, fit.known);
        if (!fit.known) continue;
        if (!close_to(fit.latency_s * 1e4, rows[i].latency_s * 1e4) ||
            !close_to(1e9 / fit.bytes_per_s, 1e9 / rows[i].bytes_per_s) || !close_to(fit.rms, rows[i].rms))
            fail_msg(
                "%s: latency %.9g s, %.9g bytes/s, off by %.9g", rows[i].name, fit.latency_s, fit.bytes_per_s, fit.rms);
    }
}

static void bus_bandwidth(void **state) {
    (void)state;
    assert_true(close_to(ls_allreduce_bus_bandwidth(2, 1e6, 1e-3), 1e9));
    assert_true(close_to(ls_allreduce_bus_bandwidth(4, 1e6, 1e-3), 1.5e9));
    assert_true(ls_allreduce_bus_bandwidth(1, 1e6, 1e-3) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(fits), cmocka_unit_test(bus_bandwidth) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
