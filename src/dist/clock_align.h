// clock_align.h - one clock for the traces of all ranks: that of rank 0.
//
// Ranks whose CLOCK_MONOTONIC is the same one (same boot of the same kernel, same time namespace) need nothing.
// To one rank of each other kernel, one after the other, rank 0 sends a few requests, each answered with the rank's
// time. The rank reads its clock between rank 0's two readings, so half of the shortest round trip bounds the error
// whatever the way there and back took.
#ifndef LS_DIST_CLOCK_ALIGN_H
#define LS_DIST_CLOCK_ALIGN_H

#include "dist/comm.h"

typedef struct {
    double offset_s; // this rank's clock plus this is rank 0's
    double error_s;  // of that, at most
    int measured;    // 0: it is the same clock
} ls_clock_offset;

// All ranks call it, with nothing else under way. clock: NULL for ls_clock_seconds;
// another one is measured on every rank.
LS_CHECKED ls_status ls_clock_align(ls_comm *comm, double (*clock)(void), ls_clock_offset *mine);

#endif
