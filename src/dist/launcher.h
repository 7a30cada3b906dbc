// launcher.h - finds the launcher that started this process, and how many processes it started, by the variables that
// launchers set in the environment. For dist/ and `train doctor`.
#ifndef LS_DIST_LAUNCHER_H
#define LS_DIST_LAUNCHER_H

#include "base/status.h"

typedef struct {
    const char *name;     // "Open MPI's mpirun"; NULL: no launcher, this process is a run by itself
    const char *variable; // variable of the environment that shows the launcher
    const char *compiler; // compiler for programs that use the launcher's MPI; NULL: the launcher has no MPI
    int rank;
    int size, local_size; // processes of the launch, and of this host; 0: the launcher does not set the number
    int speaks_pmix;      // the launcher has PMIx, by which Open MPI joins processes
} ls_launcher;

ls_launcher ls_launcher_find(void);
// Removes the launchers' variables, by which ls_launcher_find recognises a launcher, from the environment.
void ls_launcher_forget(void);
// Returns 1 if the launcher has started several processes, as far as this process can see.
int ls_launcher_is_several(const ls_launcher *launcher);
// Lets one process report a failure that all processes have. On this process (is_mine) it returns, and the caller
// reports it. The others wait 2 s and exit with `code`: many launchers end the job with the first process that fails.
void ls_launcher_leave_to(int is_mine, ls_code code);
// Refuses a launcher whose processes MPI cannot join, so that each would train alone: returns LS_USAGE on one process
// and ends the others. linked: the program's MPI; start: how to start the program. Both NULL: no MPI.
LS_CHECKED ls_status ls_launcher_refuse(const ls_launcher *launcher, const char *linked, const char *start);

#endif
