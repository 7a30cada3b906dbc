// start_guard.h - ends a rank whose peers never come, while MPI starts: the watchdog needs MPI, and cannot watch that.
// Private to dist/.
//
// Where one rank hangs, or its host does, all others wait in MPI_Init for ever. After LOCKSTEP_START_TIMEOUT seconds
// (an environment variable; default 300, 0: no limit) this one says so and ends with LS_COMM; the launcher then ends
// the job. Time is counted in ticks, as the watchdog does: a job that was stopped as a whole is not late.
#ifndef LS_DIST_START_GUARD_H
#define LS_DIST_START_GUARD_H

#include "base/status.h"
#include "dist/launcher.h"

typedef struct ls_start_guard ls_start_guard;

double ls_start_timeout_s(void); // 0: no limit
LS_CHECKED ls_status ls_start_guard_new(const ls_launcher *launcher, ls_start_guard **out);
void ls_start_guard_free(ls_start_guard *guard); // MPI has started; NULL is allowed

#endif
