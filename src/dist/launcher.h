// launcher.h - which launcher has started this process, and as one of how many: by the variables that launchers leave
// in the environment. For dist/, and for what `train doctor` says of it.
#ifndef LS_DIST_LAUNCHER_H
#define LS_DIST_LAUNCHER_H

#include "base/status.h"

typedef struct {
    const char *name;     // "Open MPI's mpirun"; NULL: none, this process is one by itself
    const char *variable; // that shows it
    const char *compiler; // for programs of its MPI; NULL: it has none of its own
    int rank;
    int size, local_size; // 0: it does not set it
    int speaks_pmix;      // which is what Open MPI joins by
} ls_launcher;

ls_launcher ls_launcher_find(void);
// Takes what it finds a launcher by out of the environment.
void ls_launcher_forget(void);
// It has started several processes, as far as one of them can see.
int ls_launcher_is_several(const ls_launcher *launcher);
// All processes fail alike, and one is to print it: the others wait a little, since many a launcher ends the job with
// the first process that fails, and end here.
void ls_launcher_leave_to(int is_mine, ls_code code);
// LS_USAGE, on one process: MPI cannot be had through this launcher, and each of its processes would train alone.
// `linked` and `start` name the program's MPI and what starts it; NULL: it has none.
LS_CHECKED ls_status ls_launcher_refuse(const ls_launcher *launcher, const char *linked, const char *start);

#endif
