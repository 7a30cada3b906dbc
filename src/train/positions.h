// positions.h - moments of a run that options give in epochs, and shares of a count, as whole numbers.
//
// A decimal number times the updates of an epoch is rarely exact in binary: 0.14 * 50 is 7.000000000000001. A product
// is therefore rounded once, to the nearest millionth of an update (a tick), and all that follows is arithmetic on
// integers. A moment that is less than half a millionth away from the start of an update is the start of that update.
#ifndef LS_TRAIN_POSITIONS_H
#define LS_TRAIN_POSITIONS_H

#include <math.h>
#include <stdint.h>

#define LS_TICKS INT64_C(1000000)       // of an update, or of another whole thing
#define LS_TICKS_MAX (INT64_C(1) << 60) // stands for everything later: no run comes so far

// `value` (at least 0) times `units`, in ticks: (1.5, 32) is 48 updates in ticks.
static inline int64_t ls_ticks(double value, int64_t units) {
    const double ticks = value * (double)units * (double)LS_TICKS;
    return ticks < (double)LS_TICKS_MAX ? llround(ticks) : LS_TICKS_MAX;
}

static inline int64_t ls_ticks_down(int64_t ticks) {
    return ticks / LS_TICKS;
}

// The first update that starts at this moment or later; updates are counted from 0.
static inline int64_t ls_ticks_up(int64_t ticks) {
    return (ticks + LS_TICKS - 1) / LS_TICKS;
}

#endif
