// algorithm_choice.h - which of several algorithms is the fastest, by running each of them.
//
// All candidates run once in every round, so that a clock that rises or falls meets all of them alike. A candidate's time
// is its shortest: what disturbs a run only makes it longer. The first round is not counted (code is loaded then). A
// candidate that takes twice as long as the fastest is not run again, nor one that fails.
#ifndef LS_DEVICE_ALGORITHM_CHOICE_H
#define LS_DEVICE_ALGORITHM_CHOICE_H

#include "base/status.h"

typedef struct {
    const char *layer, *what; // "conv1", "conv forward": for messages
    int count;                // >= 1; the order in which the library has them, the best first
    // Runs one of them once; *ms is how long it took. A failure is a candidate that does not run here.
    ls_status (*time_once)(void *context, int candidate, float *ms);
    void *context;
} ls_algorithm_candidates;

// *best: the fastest one's number. An earlier one stays unless a later one is 3 % faster, so noise changes little, and
// of equals the library's order decides. LS_DEVICE: none of them runs, and why the first one did not; no memory.
LS_CHECKED ls_status ls_algorithm_fastest(const ls_algorithm_candidates *candidates, int *best);

#endif
