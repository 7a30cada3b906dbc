// What hosts send each other in a sum: against what was counted on links between namespaces (Open MPI 4.1.4, 4 MB,
// bytes of the link over bytes of data; up to 2 % more are headers).
#include <math.h>
#include "dist/reduce/hierarchy.h"
#include "support/cmocka.h"

enum { RANKS_MAX = 12 };
static const struct {
    const char *name;
    int ranks, hosts, host_of[RANKS_MAX];
    double counted;
    int wins; // by hosts
} rows[] = {
    { "one host", 3, 1, { 0, 0, 0 }, 0, 0 },
    { "2 hosts x 1", 2, 2, { 0, 1 }, 1, 0 },
    { "3 hosts x 1", 3, 3, { 0, 1, 2 }, 2.5, 0 },
    { "2 hosts x 2", 4, 2, { 0, 0, 1, 1 }, 1, 1 },
    { "2 hosts x 2, in turn", 4, 2, { 0, 1, 0, 1 }, 2, 1 },
    { "2 hosts x 3", 6, 2, { 0, 0, 0, 1, 1, 1 }, 2.5, 1 },
    { "2 hosts x 3, in turn", 6, 2, { 0, 1, 0, 1, 0, 1 }, 4.5, 1 },
    { "3 hosts x 2", 6, 3, { 0, 0, 1, 1, 2, 2 }, 1.5, 0 },
    { "3 hosts x 2, in turn", 6, 3, { 0, 1, 2, 0, 1, 2 }, 4, 1 },
    { "2 hosts x 4", 8, 2, { 0, 0, 0, 0, 1, 1, 1, 1 }, 1, 1 },
    { "2 hosts x 4, in turn", 8, 2, { 0, 1, 0, 1, 0, 1, 0, 1 }, 4, 1 },
};

static void volumes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double volume = ls_halving_volume(rows[i].host_of, rows[i].ranks);
        const int wins = ls_hierarchy_wins(rows[i].host_of, rows[i].ranks, rows[i].hosts);
        if (fabs(volume - rows[i].counted) > 0.03 || wins != rows[i].wins) {
            fail_msg("%s: volume %g, by hosts %d; expected %g, %d", rows[i].name, volume, wins, rows[i].counted,
                rows[i].wins);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(volumes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
