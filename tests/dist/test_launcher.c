// What started a process, by its environment, as launchers leave it; and the first message between ranks.
#include <stdlib.h>
#include <string.h>
#include "base/version.h"
#include "dist/handshake.h"
#include "dist/launcher.h"
#include "support/cmocka.h"

enum { VARIABLES_MAX = 8 };

// Texts are parts of the launcher's name; several: whether one process can know that there are others.
static const struct {
    const char *what, *set[VARIABLES_MAX], *name;
    int rank, size, local_size, several;
} rows[] = {
    { "nothing", { NULL }, NULL, 0, 0, 0, 0 },
    { "Open MPI 4.1",
        { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_RANK=1" },
        "Open MPI's mpirun", 1, 4, 2, 1 },
    { "Open MPI, one", { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_LOCAL_SIZE=1" },
        "Open MPI's mpirun", 0, 1, 1, 0 },
    { "Open MPI's daemons were started by srun",
        { "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "OMPI_COMM_WORLD_RANK=7", "OMPI_COMM_WORLD_SIZE=8" },
        "Open MPI's mpirun", 7, 8, 0, 1 },
    { "MPICH", { "PMI_RANK=2", "PMI_SIZE=3", "PMI_FD=6", "MPI_LOCALNRANKS=3", "MPI_LOCALRANKID=2" }, "PMI", 2, 3, 3,
        1 },
    { "MPICH, one", { "PMI_RANK=0", "PMI_SIZE=1", "MPI_LOCALNRANKS=1" }, "PMI", 0, 1, 1, 0 },
    { "MPICH's proxies were started by srun, one node",
        { "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "PMI_RANK=0", "PMI_SIZE=2" }, "PMI", 0, 2, 0, 1 },
    { "MPICH by a port", { "PMI_PORT=a:1", "PMI_ID=0", "MPI_LOCALNRANKS=2" }, "PMI", 0, 0, 2, 1 },
    { "MVAPICH2", { "MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2" }, "MVAPICH2", 1, 2, 0, 1 },
    { "srun --mpi=pmi2", { "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "PMI_RANK=1", "PMI_SIZE=2" }, "PMI", 1, 2, 0,
        1 },
    { "srun --mpi=pmix", { "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "PMIX_RANK=1" }, "srun", 1, 2, 0, 1 },
    { "srun --mpi=none", { "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2" }, "srun", 1, 2, 0, 1 },
    { "srun's only task, perhaps a shell", { "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1" }, NULL, 0, 0, 0, 0 },
    { "a batch script", { "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=7" }, NULL, 0, 0, 0, 0 },
    { "flux", { "FLUX_TASK_RANK=3", "FLUX_JOB_SIZE=4" }, "flux", 3, 4, 0, 1 },
    { "PALS without PMI, rank 0", { "PALS_RANKID=0" }, "PALS", 0, 0, 0, 0 },
    { "PALS without PMI, rank 1", { "PALS_RANKID=1" }, "PALS", 1, 0, 0, 1 },
    { "torchrun", { "ROLE_RANK=1", "ROLE_WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "RANK=1", "WORLD_SIZE=2" }, "torchrun", 1,
        2, 2, 1 },
    { "a pod of many, each started by itself", { "RANK=1", "WORLD_SIZE=2" }, NULL, 0, 0, 0, 0 },
    { "PMIx alone, rank 0", { "PMIX_RANK=0" }, "PMIx", 0, 0, 0, 0 },
    { "PMIx alone, rank 1", { "PMIX_RANK=1" }, "PMIx", 1, 0, 0, 1 },
    { "nonsense", { "PMI_SIZE=x", "OMPI_COMM_WORLD_SIZE=" }, NULL, 0, 0, 0, 0 },
};

static void finds_launchers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        clearenv();
        for (int v = 0; rows[i].set[v]; v++) {
            char name[64];
            size_t length = strcspn(rows[i].set[v], "=");
            memcpy(name, rows[i].set[v], length);
            name[length] = 0;
            setenv(name, rows[i].set[v] + length + 1, 1);
        }
        ls_launcher found = ls_launcher_find();
        if (!found.name != !rows[i].name || (found.name && !strstr(found.name, rows[i].name)))
            fail_msg("%s: found %s, expected %s", rows[i].what, found.name, rows[i].name);
        if (!found.name) continue;
        int several = ls_launcher_is_several(&found);
        if (found.rank != rows[i].rank || found.size != rows[i].size || found.local_size != rows[i].local_size ||
            several != rows[i].several)
            fail_msg("%s: rank %d of %d, %d on this host, several: %d", rows[i].what, found.rank, found.size,
                found.local_size, several);
        assert_non_null(getenv(found.variable));
    }
}

static void refuses(void **state) {
    (void)state;
    const ls_launcher of_three = { .name = "it", .variable = "V", .compiler = "mpicc.it", .size = 3 };
    ls_status status = ls_launcher_refuse(&of_three, "Open MPI v4.1.4", "its own mpirun");
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text,
        "it has started 3 processes, but this program is linked with Open MPI v4.1.4, which does not join them: each "
        "would train alone; start it by its own mpirun, or build it for that launcher's MPI: cmake "
        "-DMPI_C_COMPILER=... (mpicc.it); docs/cluster.md has both; a process that is meant to be alone: unset V");
    const ls_launcher of_many = { .name = "it", .variable = "V", .rank = 1 };
    status = ls_launcher_refuse(&of_many, NULL, NULL);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text,
        "it has started several processes, but this program was built without MPI (LOCKSTEP_MPI=OFF): each would train "
        "alone; start it without that launcher, or build it with MPI (docs/cluster.md); a process that is meant to be "
        "alone: unset V");
}

#define TITLE "ranks were started as different programs, or to do different things:\n"
enum { RANKS = 3 };

// What rank 1 of three sends that the others do not; NULL: the same.
static const struct {
    const char *version, *build, *command, *message; // message: NULL for success; %s: this build's
} greetings[] = {
    { NULL, NULL, NULL, NULL },
    { NULL, NULL, "train bench", TITLE "  fact     ranks 0, 2  rank 1\n  command  train       train bench" },
    { NULL, NULL, "", NULL }, // ends by itself
    { "0.0.9", NULL, "train", TITLE "  fact     ranks 0, 2" },
    { "0.0.9", NULL, "", TITLE "  fact     ranks 0, 2" },
    { NULL, "GNU 12.2.0 Debug -g -fsanitize=thread", NULL, TITLE "  fact   ranks 0, 2" },
};

static void judges_greetings(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof greetings / sizeof greetings[0]; i++) {
        ls_handshake all[RANKS];
        for (int r = 0; r < RANKS; r++) ls_handshake_make("train", &all[r]);
        if (greetings[i].command) ls_handshake_make(greetings[i].command, &all[1]);
        if (greetings[i].version) strcpy(all[1].version, greetings[i].version);
        if (greetings[i].build) strcpy(all[1].build, greetings[i].build);
        ls_status status = ls_handshake_check(all, RANKS);
        assert_int_equal(status.code, greetings[i].message ? LS_COMM : LS_OK);
        if (!greetings[i].message) continue;
        if (strncmp(status.text, greetings[i].message, strlen(greetings[i].message)) != 0) fail_msg("%s", status.text);
        if (greetings[i].version) assert_true(strstr(status.text, "0.0.9") && strstr(status.text, ls_version()));
        if (greetings[i].build) assert_non_null(strstr(status.text, "-fsanitize=thread"));
    }
    ls_handshake all[2]; // what no rank of ours sends
    ls_handshake_make("train", &all[0]);
    memset(&all[1], 'x', sizeof all[1]);
    ls_status status = ls_handshake_check(all, 2);
    assert_int_equal(status.code, LS_COMM);
    assert_non_null(strstr(status.text, "program  lockstep"));
    assert_non_null(strstr(status.text, "another one"));
}

// Long commands that differ at their end only.
static void tells_long_commands_apart(void **state) {
    (void)state;
    ls_handshake all[2];
    char command[400];
    for (int r = 0; r < 2; r++) {
        memset(command, 's', sizeof command);
        strcpy(command + sizeof command - 2, r ? "1" : "0");
        ls_handshake_make(command, &all[r]);
        assert_int_equal(strlen(all[r].command), LS_HANDSHAKE_TEXT - 1);
    }
    assert_int_equal(ls_handshake_check(all, 2).code, LS_COMM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_launchers),
        cmocka_unit_test(refuses),
        cmocka_unit_test(judges_greetings),
        cmocka_unit_test(tells_long_commands_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
