// init_timeout.h - ends a rank if other ranks never come while MPI starts; the watchdog needs MPI. Private to dist/.
//
// If one rank or its host hangs, all other ranks wait in MPI_Init for ever. After LOCKSTEP_START_TIMEOUT seconds (a
// variable of the environment; default 300, 0: no limit) this rank writes a message and ends with LS_COMM, and the
// launcher ends the job. Time is counted in ticks, as in the watchdog: a job that was stopped as a whole is not late.
#ifndef LS_DIST_WATCH_INIT_TIMEOUT_H
#define LS_DIST_WATCH_INIT_TIMEOUT_H

#include "base/status.h"
#include "dist/launcher.h"

typedef struct ls_init_timeout ls_init_timeout;

double ls_init_timeout_seconds(void); // 0: no limit
LS_CHECKED ls_status ls_init_timeout_new(const ls_launcher *launcher, ls_init_timeout **out);
void ls_init_timeout_free(ls_init_timeout *timeout); // call it when MPI has started; NULL (no limit) is allowed

#endif
