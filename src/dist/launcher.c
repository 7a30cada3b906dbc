#include "dist/launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/clock.h"

enum { OTHERS_WAIT_S = 2 };

// The known launchers and their variables. The first row counts whose variable `size` (if it is NULL: `rank`) is set.
// srun and flux come after the launchers of MPI, whose daemons they may start. NULL: the launcher has no such variable.
// starts_shells: the row does not count if size is 1, because the process may be an interactive shell.
static const struct {
    const char *name, *rank, *size, *local_size;
    int starts_shells;
    const char *compiler;
} launchers[] = {
    { "Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", 0,
        "mpicc.openmpi on Debian" },
    { "MVAPICH2's launcher", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", 0, "mpicc" },
    { "MVAPICH's launcher", "MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE", 0, "mpicc" },
    { "Platform MPI's mpirun", "MPI_RANKID", "MPI_NRANKS", NULL, 0, "mpicc" },
    { "jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_SIZE", 0, "mpicc" },
    { "a launcher with PMI (MPICH's or Intel MPI's mpirun, srun --mpi=pmi2)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS",
        0, "mpicc.mpich on Debian, mpiicx of Intel MPI" },
    { "a launcher with PMI (MPICH's or Intel MPI's mpirun)", "PMI_ID", NULL, "MPI_LOCALNRANKS", 0,
        "mpicc.mpich on Debian, mpiicx of Intel MPI" },
    { "Cray's PALS", "PALS_RANKID", NULL, "PALS_LOCAL_SIZE", 0, "cc" },
    { "Cray's aprun", "ALPS_APP_PE", NULL, NULL, 0, "cc" },
    { "flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", NULL, 1, NULL },
    // A batch script, and processes that the script starts itself, lack the number of tasks of a step.
    { "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, 1, NULL },
    { "torchrun", "ROLE_RANK", "ROLE_WORLD_SIZE", "LOCAL_WORLD_SIZE", 0, NULL },
    { "a launcher with PMIx", "PMIX_RANK", NULL, NULL, 0, "mpicc.openmpi on Debian" },
};
enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

static int number(const char *variable) {
    const char *text = variable ? getenv(variable) : NULL;
    return text ? atoi(text) : 0;
}

ls_launcher ls_launcher_find(void) {
    for (int i = 0; i < LAUNCHERS; i++) {
        const char *variable = launchers[i].size ? launchers[i].size : launchers[i].rank;
        int size = number(launchers[i].size);
        if (!getenv(variable) || (launchers[i].size && size < 1) || (launchers[i].starts_shells && size == 1)) continue;
        return (ls_launcher){ .name = launchers[i].name,
            .variable = variable,
            .compiler = launchers[i].compiler,
            .rank = number(launchers[i].rank),
            .size = size,
            .local_size = number(launchers[i].local_size),
            .speaks_pmix = getenv("PMIX_RANK") || getenv("OMPI_COMM_WORLD_RANK") };
    }
    return (ls_launcher){ .name = NULL };
}

void ls_launcher_forget(void) {
    for (int i = 0; i < LAUNCHERS; i++) {
        unsetenv(launchers[i].rank);
        if (launchers[i].size) unsetenv(launchers[i].size);
        if (launchers[i].local_size) unsetenv(launchers[i].local_size);
    }
}

int ls_launcher_is_several(const ls_launcher *launcher) {
    return launcher->size > 1 || launcher->local_size > 1 || launcher->rank > 0;
}

// Returns the rank that reports a failure: 1 if the launcher sets no number of processes (rank 0 then sees no others),
// else 0.
static int speaker(const ls_launcher *launcher) {
    return launcher->size > 1 || launcher->local_size > 1 ? 0 : 1;
}

void ls_launcher_leave_to(int is_mine, ls_code code) {
    if (is_mine) return;
    ls_clock_sleep(OTHERS_WAIT_S);
    _exit((int)code);
}

ls_status ls_launcher_refuse(const ls_launcher *launcher, const char *linked, const char *start) {
    ls_launcher_leave_to(launcher->rank == speaker(launcher), LS_USAGE);
    char several[32] = "several", build[160] = "";
    if (launcher->size > 1) snprintf(several, sizeof several, "%d", launcher->size);
    if (!linked)
        return ls_fail(LS_USAGE,
            "%s has started %s processes, but this program was built without MPI (LOCKSTEP_MPI=OFF): each would train "
            "alone; start it without that launcher, or build it with MPI (docs/cluster.md); a process that is meant to "
            "be alone: unset %s",
            launcher->name, several, launcher->variable);
    if (launcher->compiler)
        snprintf(build, sizeof build, ", or build it for that launcher's MPI: cmake -DMPI_C_COMPILER=... (%s)",
            launcher->compiler);
    return ls_fail(LS_USAGE,
        "%s has started %s processes, but this program is linked with %s, which does not join them: each would train "
        "alone; start it by %s%s; docs/cluster.md has both; a process that is meant to be alone: unset %s",
        launcher->name, several, linked, start, build, launcher->variable);
}
