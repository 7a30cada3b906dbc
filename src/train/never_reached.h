// never_reached.h - finds options that have no effect in a run, because the run ends before they act or because the
// data gives them nothing to do.
//
// This is the only place that knows when each option starts to act. config/unused.c handles options that another option
// makes useless.
#ifndef LS_TRAIN_NEVER_REACHED_H
#define LS_TRAIN_NEVER_REACHED_H

#include "run/run_info.h"

// Calls `say` with one line of text for each such option that is set. The line says which option it is, when it would
// act, when the run ends, and the consequence. The line is valid only during the call. A resumed run is judged as a
// whole, from its first update.
void ls_never_reached(const ls_train_info *info, void (*say)(void *context, const char *line), void *context);

#endif
