// never_reached.h - options of a run that do nothing, because the run ends before they act or its data give them
// nothing to do.
//
// The one place that knows when each option starts to act. What another option's choice makes useless is in
// config/unused.c.
#ifndef LS_TRAIN_NEVER_REACHED_H
#define LS_TRAIN_NEVER_REACHED_H

#include "run/run_info.h"

// Calls `say` with a line of text for each such option that is set: which option, when it would act, when the run ends,
// and what that means. The lines borrow memory of this function. A run that goes on from a checkpoint is looked at as a
// whole.
void ls_never_reached(const ls_train_info *info, void (*say)(void *context, const char *line), void *context);

#endif
