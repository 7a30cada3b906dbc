// The offset of each rank's clock from rank 0's, with clocks that are known to be off.
// test_clock_align_mpi.sh starts it under mpirun.
#include <math.h>
#include <stdio.h>
#include "base/clock.h"
#include "dist/clock_align.h"

static int rank;

static double wrong_clock(void) { // rank r's is r hours and a bit ahead
    return ls_clock_seconds() + 3600.25 * rank;
}

static int failures;

static void check(const char *what, double seen, double expected, double error) {
    if (fabs(seen - expected) <= error) return;
    failures++;
    printf("rank %d: %s is %.9f, expected %.9f, give or take %.9f\n", rank, what, seen, expected, error);
}

int main(int argc, char **argv) {
    ls_comm *comm = NULL;
    if (ls_failed(ls_comm_start(&argc, &argv, "test", &comm))) return 1;
    rank = ls_comm_get_info(comm)->rank;
    ls_clock_offset own, wrong;
    if (ls_failed(ls_clock_align(comm, NULL, &own)) || ls_failed(ls_clock_align(comm, wrong_clock, &wrong))) return 1;
    check("offset of the same clock", own.offset_s, 0, 0);
    check("the same clock: measured", own.measured, 0, 0);
    check("offset of a wrong clock", wrong.offset_s, -3600.25 * rank, wrong.error_s);
    check("a wrong clock: measured", wrong.measured, rank > 0, 0);
    check("bound of the error", wrong.error_s, 0, rank > 0 ? 1.0 : 0);
    if (rank > 0 && !(wrong.error_s > 0)) check("bound of the error", wrong.error_s, 1e-6, 0);
    ls_comm_finish(comm);
    return failures > 0;
}
