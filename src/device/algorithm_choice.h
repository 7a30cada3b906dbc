// algorithm_choice.h - finds the fastest of several algorithms by running each of them.
//
// In every round each remaining candidate runs once, so a change of the clock rate affects all alike. A candidate's
// time is its shortest, because disturbances only make a run longer. The first round is not counted, because it loads
// code. A candidate that takes more than twice as long as the fastest does not run again, nor does one that fails.
#ifndef LS_DEVICE_ALGORITHM_CHOICE_H
#define LS_DEVICE_ALGORITHM_CHOICE_H

#include "base/status.h"

typedef struct {
    const char *layer, *what; // "conv1", "conv forward": for messages
    int count;                // >= 1; candidates are in the library's order, the best first
    // Runs one candidate once; *ms is the time it took. It fails if the candidate does not run here.
    ls_status (*time_once)(void *context, int candidate, float *ms);
    void *context;
} ls_algorithm_candidates;

// Runs the candidates and sets *best to the number of the fastest. A later candidate must be 3 % faster to replace an
// earlier one, so noise changes little, and among equals the library's order decides. LS_DEVICE: no candidate runs. The
// message has the first failure's reason.
LS_CHECKED ls_status ls_algorithm_fastest(const ls_algorithm_candidates *candidates, int *best);

#endif
