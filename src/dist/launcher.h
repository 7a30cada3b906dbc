// launcher.h - finds the launcher that started this process, and how many processes it started, by the variables that
// launchers set in the environment. For dist/ and `train doctor`.
#ifndef LS_DIST_LAUNCHER_H
#define LS_DIST_LAUNCHER_H

#include "base/status.h"

typedef struct {
    const char *name;     // "Open MPI's mpirun"; NULL: no launcher, this process is a run by itself
    const char *variable; // variable of the environment that shows the launcher
    const char *compiler; // compiler for programs that use its MPI; NULL: it has no MPI
    int rank;
    int size, local_size; // 0: the launcher does not set it
    int speaks_pmix;      // the launcher has PMIx, by which Open MPI joins processes
} ls_launcher;

ls_launcher ls_launcher_find(void);
// Removes the variables that ls_launcher_find looks for from the environment.
void ls_launcher_forget(void);
// Whether the launcher has started several processes, as far as this process can see.
int ls_launcher_is_several(const ls_launcher *launcher);
// All processes fail in the same way, and one of them (is_mine) prints the failure. The others wait a little here and
// then exit, because many launchers end the job with the first process that fails.
void ls_launcher_leave_to(int is_mine, ls_code code);
// Returns LS_USAGE on one process and ends the others: MPI cannot join the processes of this launcher, so each would
// train alone. linked: the program's MPI; start: the command that starts it. Both NULL: the program has no MPI.
LS_CHECKED ls_status ls_launcher_refuse(const ls_launcher *launcher, const char *linked, const char *start);

#endif
