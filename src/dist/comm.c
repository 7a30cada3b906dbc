#include "dist/comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "base/clock.h"
#include "dist/comm_backend.h"
#include "dist/launcher.h"

// With fewer ranks on a host than this, Open MPI's launcher forks them from its main thread, else from helper threads
// (odls_base_cutoff), whose end would count as the parent's death.
enum { FORKED_BY_MAIN_THREAD = 32 };
enum { SAID_S = 15 }; // time for the watchdog to end the job after its message

// Makes this rank die with its launcher, as an orphan would go on or keep its device. Not if its host has many ranks.
static void die_with_launcher(const ls_launcher *launcher) {
    if (launcher->local_size >= FORKED_BY_MAIN_THREAD) return;
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(LS_COMM); // the launcher has died meanwhile
}

#ifdef LOCKSTEP_WITHOUT_MPI
static ls_status start_mpi(int *argc, char ***argv, const ls_launcher *launcher, const char *command, ls_comm **out) {
    (void)argc, (void)argv, (void)command;
    return ls_launcher_is_several(launcher) ? ls_launcher_refuse(launcher, NULL, NULL) : ls_comm_self_new(out);
}

const char *ls_comm_library(void) {
    return "no MPI";
}
#else
// Sets variables in the environment for Open MPI; other libraries ignore them. Values of the user, for mpirun or in the
// environment, stay. Call it before MPI_Init.
static void prepare_environment(const ls_launcher *launcher) {
    // An MPI call that waits gives its core away, because ranks, their loaders and compute threads share cores.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    // Reduce-scatter and all-gather need half as many copies and additions as the default, which sends whole buckets to
    // one rank and back. Measured with Open MPI 4.1.4, in place, 2 ranks, 26 MB beside 20 ms of computation: an update
    // takes 28 ms instead of 32.
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
    // Send whole messages along binomial trees: the default cuts them into pieces of 16 KB and needs a call for each.
    setenv("OMPI_MCA_coll_libnbc_ireduce_algorithm", "2", 0);
    setenv("OMPI_MCA_coll_libnbc_ibcast_algorithm", "2", 0);
    // On one host no network is needed; looking for one takes 200 ms of MPI_Init's 260 (Open MPI 4.1.4, 2 ranks). All
    // ranks see the same two numbers, so they make the same choice.
    if (launcher->size > 0 && launcher->size == launcher->local_size) {
        setenv("OMPI_MCA_pml", "ob1", 0);
        // ob1 would try openib and ofi if they find a network, and openib warns. Since Open MPI 5, tcp prints "Unable
        // to find reachable pairing" for ranks of one host, which do not use it.
        const int old = strncmp(ls_comm_mpi_library(), "Open MPI v4", 11) == 0;
        setenv("OMPI_MCA_btl", old ? "^openib,ofi" : "^openib,ofi,tcp", 0);
    }
}

static ls_status start_mpi(int *argc, char ***argv, const ls_launcher *launcher, const char *command, ls_comm **out) {
    prepare_environment(launcher);
    return ls_comm_mpi_new(argc, argv, launcher, command, out);
}

const char *ls_comm_library(void) {
    return ls_comm_mpi_library();
}
#endif

ls_status ls_comm_start(int *argc, char ***argv, const char *command, ls_comm **out) {
    const ls_launcher launcher = ls_launcher_find();
    if (!launcher.name) return ls_comm_self_new(out);
    die_with_launcher(&launcher);
    // One rank under mpirun needs no MPI, which would cost 0.1 s. Launchers also start programs without MPI.
    if (launcher.size == 1) return ls_comm_self_new(out);
    return start_mpi(argc, argv, &launcher, command, out);
}

void ls_comm_leave_launch(void) {
    ls_launcher_forget();
}

ls_status ls_comm_self(ls_comm **out) {
    return ls_comm_self_new(out);
}

void ls_comm_init(ls_comm *comm, const ls_comm_backend *backend) {
    comm->backend = backend;
    comm->info = (ls_comm_info){ .world_size = 1, .local_size = 1, .hosts = 1, .backend = backend->name };
    if (gethostname(comm->info.host, sizeof comm->info.host - 1) != 0) strcpy(comm->info.host, "?");
    ls_flight_recorder_init(&comm->recorder);
    atomic_store(&comm->life.phase, "start");
    atomic_store(&comm->life.what, "");
    atomic_store(&comm->life.bucket, -1);
    atomic_store(&comm->life.update, -1);
    atomic_store(&comm->life.naps, 0);
    atomic_store(&comm->life.leaves, 0);
}

const ls_comm_info *ls_comm_get_info(const ls_comm *comm) {
    return &comm->info;
}

void ls_comm_set_timeout(ls_comm *comm, double timeout_s) {
    comm->timeout_s = timeout_s;
    if (comm->watchdog) ls_watchdog_set_timeout(comm->watchdog, timeout_s);
}

void ls_comm_set_hierarchy(ls_comm *comm, int hierarchy) {
    comm->hierarchy = hierarchy;
}

void ls_comm_phase(ls_comm *comm, const char *phase, int64_t update) {
    atomic_store(&comm->life.phase, phase);
    atomic_store(&comm->life.update, update);
    atomic_fetch_add(&comm->life.sequence, 2);
}

void ls_comm_wait_begins(ls_comm *comm, const char *what) {
    ls_life_wait_begins(&comm->life, what, -1);
}

void ls_comm_wait_ends(ls_comm *comm) {
    ls_life_wait_ends(&comm->life);
}

ls_status ls_comm_watch(ls_comm *comm, const ls_collective_api *api, ls_collective *collective) {
    return comm->watchdog ? ls_watchdog_set_device(comm->watchdog, api, collective) : LS_SUCCESS;
}

// Runs one collective, watched and recorded, and returns its status from the function. A failure sets comm->broken.
#define WATCHED(comm, what, kind, bytes, call) \
    do { \
        ls_flight_recorder *recorder_ = &(comm)->recorder; \
        int64_t number_ = \
            ls_flight_recorder_begins(recorder_, kind, -1, bytes, (int64_t)atomic_load(&(comm)->life.update)); \
        ls_life_wait_begins(&(comm)->life, what, -1); \
        ls_status watched_status_ = (call); \
        ls_life_wait_ends(&(comm)->life); \
        ls_flight_recorder_ends(recorder_, number_); \
        (comm)->broken |= ls_failed(watched_status_); \
        return watched_status_; \
    } while (0)

ls_status ls_comm_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op) {
    int64_t bytes = count * (int64_t)ls_dtype_bytes(dtype);
    WATCHED(comm, "all-reduce", LS_IN_ALLREDUCE, bytes, comm->backend->allreduce(comm, data, count, dtype, op));
}

ls_status ls_comm_broadcast(ls_comm *comm, void *data, int64_t bytes, int root) {
    WATCHED(comm, "broadcast", LS_IN_BROADCAST, bytes, comm->backend->broadcast(comm, data, bytes, root));
}

ls_status ls_comm_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes_each) {
    WATCHED(comm, "all-gather", LS_IN_ALLGATHER, bytes_each, comm->backend->allgather(comm, mine, all, bytes_each));
}

ls_status ls_comm_barrier(ls_comm *comm) {
    WATCHED(comm, "barrier", LS_IN_BARRIER, 0, comm->backend->barrier(comm, 0));
}

ls_status ls_comm_barrier_napping(ls_comm *comm) {
    int64_t number = ls_flight_recorder_begins(&comm->recorder, LS_IN_BARRIER, -1, 0, -1);
    atomic_store(&comm->life.naps, 1); // the watchdog then allows a long wait
    ls_status status = comm->backend->barrier(comm, 1);
    atomic_store(&comm->life.naps, 0);
    ls_flight_recorder_ends(&comm->recorder, number);
    comm->broken |= ls_failed(status);
    return status;
}

static ls_status split(ls_comm *comm, int colour, ls_comm **out) {
    *out = NULL;
    ls_life_wait_begins(&comm->life, "communicator of some ranks", -1);
    ls_status status = comm->backend->split(comm, colour, out);
    ls_life_wait_ends(&comm->life);
    comm->broken |= status.code == LS_COMM;
    if (!*out) return status;
    ls_comm_set_timeout(*out, comm->timeout_s);
    ls_comm_set_hierarchy(*out, comm->hierarchy);
    return status;
}

ls_status ls_comm_first(ls_comm *comm, int ranks, ls_comm **out) {
    *out = NULL;
    if (ranks < 1 || ranks > comm->info.world_size) {
        return ls_fail(LS_INTERNAL, "communicator of the first %d of %d ranks", ranks, comm->info.world_size);
    }
    return split(comm, comm->info.rank < ranks ? 0 : -1, out);
}

ls_status ls_comm_of_host(ls_comm *comm, ls_comm **out) {
    return split(comm, comm->info.host_index, out);
}

ls_status ls_comm_of_leaders(ls_comm *comm, ls_comm **out) {
    return split(comm, comm->info.local_rank ? -1 : 0, out);
}

int ls_comm_broken(const ls_comm *comm) {
    return comm->broken;
}

int ls_comm_agreed(const ls_comm *comm, ls_status failure) {
    return ls_failed(failure) && strcmp(comm->agreed.text, failure.text) == 0;
}

ls_status ls_comm_agree(ls_comm *comm, ls_status mine, int *failed_rank) {
    int rank = comm->info.rank, world_size = comm->info.world_size;
    int32_t lowest = ls_failed(mine) ? rank : world_size;
    int unused;
    if (!failed_rank) failed_rank = &unused;
    *failed_rank = rank;
    if (comm->broken && ls_failed(mine)) return mine;
    ls_status status = ls_comm_allreduce(comm, &lowest, 1, LS_I32, LS_REDUCE_MIN);
    if (ls_failed(status)) return ls_failed(mine) ? mine : status;
    *failed_rank = -1;
    if (lowest == world_size) {
        comm->agreed.text[0] = 0; // a later failure is a new one
        return LS_SUCCESS;
    }

    struct {
        int32_t code, rank;
        char text[LS_STATUS_TEXT_BYTES];
    } failure = { (int32_t)mine.code, ls_comm_agreed(comm, mine) ? comm->agreed.rank : rank, "" };
    if (rank == lowest) snprintf(failure.text, sizeof failure.text, "%s", mine.text);
    LS_TRY(ls_comm_broadcast(comm, &failure, sizeof failure, lowest));
    *failed_rank = failure.rank;
    comm->agreed.rank = failure.rank;
    snprintf(comm->agreed.text, sizeof comm->agreed.text, "%s", failure.text);
    return rank == lowest ? mine : ls_fail((ls_code)failure.code, "%s", failure.text);
}

void ls_comm_finish(ls_comm *comm) {
    comm->backend->finish(comm);
}

void ls_comm_claim_end(ls_comm *comm) {
    // If the watchdog has written its message, the job is about to end: another message would only be a consequence.
    if (!ls_life_claim_end(LS_ENDED_BY_PROGRAM)) ls_clock_sleep(SAID_S);
    if (comm->watchdog) ls_watchdog_notify(comm->watchdog);
}

_Noreturn void ls_comm_abort(ls_comm *comm, int exit_code) {
    ls_comm_claim_end(comm);
    comm->backend->abort(comm, exit_code);
}
