// clock_align.h - converts the clocks of all ranks to rank 0's clock, for traces.
//
// Ranks with the same CLOCK_MONOTONIC as rank 0 (same boot of the same kernel, same time namespace) need no conversion.
// The other ranks form groups with a common clock. Rank 0 measures a rank of each group, group after group: it sends a
// few requests, and the rank answers each one with its time. The rank reads its clock between two readings of rank 0.
// So half of the shortest round trip bounds the error, however long each direction took.
#ifndef LS_DIST_CLOCK_ALIGN_H
#define LS_DIST_CLOCK_ALIGN_H

#include "dist/comm.h"

typedef struct {
    double offset_s; // this rank's clock plus offset_s is rank 0's clock
    double error_s;  // largest possible error of offset_s
    int measured;    // 0: this rank has rank 0's clock
} ls_clock_offset;

// Finds how to convert this rank's clock to rank 0's. Collective, with no other messages under way. clock: NULL for
// ls_clock_seconds; any other clock is measured on every rank.
LS_CHECKED ls_status ls_clock_align(ls_comm *comm, double (*clock)(void), ls_clock_offset *mine);

#endif
