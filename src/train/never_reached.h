// never_reached.h - finds options without effect: the run ends before they act, or the data gives them no work.
//
// Only this file knows when each option starts to act. config/unused.c finds options that others make useless.
#ifndef LS_TRAIN_NEVER_REACHED_H
#define LS_TRAIN_NEVER_REACHED_H

#include "run/run_info.h"

// Calls `say` with one line of text for each option that is set but without effect. The line names the option, when it
// would act, the run's end and the consequence. It is valid only during the call. A resumed run is judged as a whole.
void ls_never_reached(const ls_train_info *info, void (*say)(void *context, const char *line), void *context);

#endif
