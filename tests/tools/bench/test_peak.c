// The floor of an operator: the larger of its operations and its bytes over the device's measured limits.
#include <math.h>
#include "tools/bench/peak.h"
#include "support/cmocka.h"

static const ls_bench_limits limits = { .gflops = 200, .gbytes = 10 };

static const struct {
    const char *name;
    double flops, bytes, floor_s;
} rows[] = {
    { "bound by arithmetic", 4e9, 1e8, 0.02 },
    { "bound by memory", 1e9, 1e8, 0.01 },
    { "both alike", 2e9, 1e8, 0.01 },
    { "bytes alone", 0, 5e7, 0.005 },
    { "operations alone", 1e8, 0, 0.0005 },
    { "nothing", 0, 0, 0 },
};

static void floors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double floor_s = ls_bench_floor_s(&limits, rows[i].flops, rows[i].bytes);
        if (fabs(floor_s - rows[i].floor_s) > 1e-12)
            fail_msg("%s: is %g s, expected %g s", rows[i].name, floor_s, rows[i].floor_s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(floors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
