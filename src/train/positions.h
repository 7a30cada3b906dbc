// positions.h - converts moments that options give in epochs, and fractions of a count, to whole numbers.
//
// A decimal number times the number of updates in an epoch is rarely exact in binary: 0.14 * 50 is 7.000000000000001.
// Therefore a product is rounded once, to the nearest millionth of an update (a tick), and all further arithmetic uses
// integers. A moment less than half a tick away from the start of an update counts as that start.
#ifndef LS_TRAIN_POSITIONS_H
#define LS_TRAIN_POSITIONS_H

#include <math.h>
#include <stdint.h>

#define LS_TICKS INT64_C(1000000)       // ticks in one update, or in one unit of another count
#define LS_TICKS_MAX (INT64_C(1) << 60) // stands for all later moments; no run has so many updates

// Returns `value` * `units` in ticks: (1.5, 32) gives 48 updates in ticks. value must be at least 0.
static inline int64_t ls_ticks(double value, int64_t units) {
    const double ticks = value * (double)units * (double)LS_TICKS;
    return ticks < (double)LS_TICKS_MAX ? llround(ticks) : LS_TICKS_MAX;
}

static inline int64_t ls_ticks_down(int64_t ticks) {
    return ticks / LS_TICKS;
}

// Returns the first update that starts at this moment or later. Updates are counted from 0.
static inline int64_t ls_ticks_up(int64_t ticks) {
    return (ticks + LS_TICKS - 1) / LS_TICKS;
}

#endif
