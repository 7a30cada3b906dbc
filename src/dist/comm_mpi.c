// comm_mpi.c - the backend whose ranks are MPI processes: start, description, collectives and end.
//
// Collectives are non-blocking and polled. A rank that waits long (because another rank evaluates, writes a checkpoint,
// or shares its core) first yields, then naps. A blocking MPI call would keep its core busy.
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "dist/comm_mpi.h"
#include "dist/handshake.h"
#include "dist/reduce/hierarchy.h"
#include "dist/watch/init_timeout.h"

// A sum by hosts adds inside each host first, then between hosts, in pieces. CHUNK: most elements of one MPI call, as
// MPI 3.1 counts in int. PIECE_BYTES: size of a piece. PIECES: pieces in flight. BY_HOSTS_BYTES: smaller sums take all
// ranks at once, as latency decides their time. ABORT_GUARD_S: seconds that guard_end gives a hanging end of this rank.
enum { CHUNK = 1 << 30, PIECE_BYTES = 1 << 20, PIECES = 4, BY_HOSTS_BYTES = 65536, ABORT_GUARD_S = 2 };

static const double spin_s = 1e-3, nap_max_s = 1e-3;

const char *ls_mpi_explain(int rc) {
    static _Thread_local char text[MPI_MAX_ERROR_STRING];
    int bytes;
    if (MPI_Error_string(rc, text, &bytes) != MPI_SUCCESS) snprintf(text, sizeof text, "unknown MPI error");
    return text;
}

// Gives the core away between two polls of a wait: naps for 1 ms if `napping`. Otherwise yields during the first
// millisecond of the wait, and later naps for a twentieth of the time already waited, but at most for 1 ms.
static void pause_since(double start_s, int napping) {
    double waited_s = ls_clock_seconds() - start_s, nap_s = waited_s / 20;
    if (napping || nap_s > nap_max_s) nap_s = nap_max_s;
    if (!napping && waited_s < spin_s)
        sched_yield();
    else
        ls_clock_sleep(nap_s);
}

static ls_status complete(MPI_Request *request, int napping) {
    double start_s = ls_clock_seconds();
    for (;;) {
        int done;
        TRY_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return LS_SUCCESS;
        pause_since(start_s, napping);
    }
}

// Sums data by hosts in pieces, so that one piece is on its way between hosts while the next is summed inside hosts.
static ls_status sum_by_hosts(ls_comm_mpi *mpi, char *data, int64_t count, ls_dtype dtype) {
    if (!mpi->pieces) LS_TRY(ls_mpi_channel_new(&mpi->base, PIECES, &mpi->pieces));
    int64_t each = PIECE_BYTES / (int64_t)ls_dtype_bytes(dtype), pieces = (count + each - 1) / each, started = 0;
    double start_s = ls_clock_seconds();
    for (int64_t ended = 0; ended < pieces;) {
        for (; started < pieces && started - ended < PIECES; started++) {
            int64_t first = started * each, part = count - first < each ? count - first : each;
            void *at = data + (size_t)first * ls_dtype_bytes(dtype);
            LS_TRY(ls_mpi_channel_start(mpi->pieces, (int)(started % PIECES), at, part, dtype));
        }
        int done;
        LS_TRY(ls_mpi_channel_test(mpi->pieces, (int)(ended % PIECES), &done));
        ended += done;
        if (done)
            start_s = ls_clock_seconds();
        else
            pause_since(start_s, 0);
    }
    return LS_SUCCESS;
}

static ls_status mpi_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op) {
    ls_comm_mpi *mpi = (ls_comm_mpi *)comm;
    MPI_Datatype type = ls_mpi_type(dtype);
    MPI_Op mpi_op = ls_mpi_op(mpi, dtype, op);
    if (type == MPI_DATATYPE_NULL || mpi_op == MPI_OP_NULL) {
        return ls_fail(LS_INTERNAL, "all-reduce of %s: operation %d", ls_dtype_name(dtype), (int)op);
    }
    int is_large = count * (int64_t)ls_dtype_bytes(dtype) >= BY_HOSTS_BYTES;
    if (op == LS_REDUCE_SUM && is_large && ls_mpi_by_hosts(mpi)) return sum_by_hosts(mpi, data, count, dtype);
    for (int64_t i = 0; i < count; i += CHUNK) {
        int part = (int)(count - i < CHUNK ? count - i : CHUNK);
        void *at = (char *)data + (size_t)i * ls_dtype_bytes(dtype);
        MPI_Request request;
        TRY_MPI(MPI_Iallreduce(MPI_IN_PLACE, at, part, type, mpi_op, mpi->comm, &request));
        LS_TRY(complete(&request, 0));
    }
    return LS_SUCCESS;
}

static ls_status mpi_broadcast(ls_comm *comm, void *data, int64_t bytes, int root) {
    for (int64_t i = 0; i < bytes; i += CHUNK) {
        int part = (int)(bytes - i < CHUNK ? bytes - i : CHUNK);
        MPI_Request request;
        TRY_MPI(MPI_Ibcast((char *)data + i, part, MPI_BYTE, root, ((ls_comm_mpi *)comm)->comm, &request));
        LS_TRY(complete(&request, 0));
    }
    return LS_SUCCESS;
}

static ls_status mpi_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes_each) {
    if (bytes_each > INT_MAX) return ls_fail(LS_INTERNAL, "all-gather of %lld bytes a rank", (long long)bytes_each);
    MPI_Request request;
    TRY_MPI(MPI_Iallgather(mine == all ? MPI_IN_PLACE : mine, (int)bytes_each, MPI_BYTE, all, (int)bytes_each, MPI_BYTE,
        ((ls_comm_mpi *)comm)->comm, &request));
    return complete(&request, 0);
}

static ls_status mpi_barrier(ls_comm *comm, int napping) {
    MPI_Request request;
    TRY_MPI(MPI_Ibarrier(((ls_comm_mpi *)comm)->comm, &request));
    return complete(&request, napping);
}

// The communicator of all ranks, from start to finish. It belongs to the whole process, as MPI does.
static _Atomic(ls_comm *) running;

static void mpi_finish(ls_comm *comm) {
    ls_comm_mpi *mpi = (ls_comm_mpi *)comm;
    ls_comm_phase(comm, mpi->is_world ? "the end of the run" : "the end of a part of the ranks", -1);
    // Counted as begun, so that the report shows ranks that have not come here.
    ls_flight_recorder_begins(&comm->recorder, LS_IN_BARRIER, -1, 0, -1);
    atomic_store(&comm->life.leaves, 1);
    if (mpi->is_world) {
        ls_out_of_memory_set_end(NULL);
        atomic_store(&running, NULL);
    }
    ls_life_wait_begins(&comm->life, mpi->is_world ? "MPI_Finalize" : "MPI_Comm_free", -1);
    ls_mpi_channel_free(mpi->pieces);
    MPI_Op_free(&mpi->sum_bf16);
    if (mpi->leaders != MPI_COMM_NULL) MPI_Comm_free(&mpi->leaders);
    MPI_Comm_free(&mpi->host);
    MPI_Comm_free(&mpi->comm);
    if (mpi->is_world) MPI_Finalize();
    ls_watchdog_free(comm->watchdog);
    free(mpi);
}

// The exit code for exit_now. It belongs to the whole process, as signal handlers do.
static atomic_int abort_code;
static void exit_now(int signal_number) {
    (void)signal_number;
    _exit(abort_code);
}

// Waits until the launcher has read this rank's output, at most half a second for each of two pipes. A launcher that
// hears of an abort may not read the rest of them (Hydra). Another process passes the text on: hence the last sleep.
static void let_output_through(void) {
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat info;
        int held = 0;
        if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) continue;
        for (int i = 0; i < 100 && ioctl(fd, FIONREAD, &held) == 0 && held > 0; i++) ls_clock_sleep(0.005);
    }
    ls_clock_sleep(0.1);
}

// Ends this rank with exit_code after ABORT_GUARD_S, if something hangs until then: a flush, MPI_Abort without a
// network to the launcher, or a lock of the MPI library that another thread holds.
static void guard_end(int exit_code) {
    abort_code = exit_code;
    struct sigaction action = { .sa_handler = exit_now };
    sigaction(SIGALRM, &action, NULL);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(ABORT_GUARD_S);
}

// Ends all ranks by MPI_Abort, the only early exit that passes our exit code to the launcher.
static _Noreturn void end_all_ranks(int exit_code) {
    let_output_through();
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
}

static __attribute__((noreturn)) void mpi_abort(ls_comm *comm, int exit_code) {
    (void)comm;
    guard_end(exit_code);
    fflush(NULL);
    end_all_ranks(exit_code);
}

// Ends the job for ls_out_of_memory. Any thread may call it, holding any lock, so no stream is flushed.
static void end_without_memory(const char *text) {
    guard_end(LS_DEVICE);
    while (!ls_life_claim_end(LS_ENDED_BY_PROGRAM)) pause(); // the watchdog ends the job and has said why
    ls_log(LS_LOG_ERROR, "%s", text);
    ls_comm *comm = atomic_load(&running);
    if (comm && comm->watchdog)
        ls_watchdog_notify(comm->watchdog); // takes no lock, and tells the two ranks that are monitors
    end_all_ranks(LS_DEVICE);
}

// Returns the number of this rank's host from LOCKSTEP_TEST_HOSTS, by which tests have several hosts on one machine.
// "0,0,1": ranks 0 and 1 share host 0; ranks beyond the list are on host 0. -1: the variable is not set.
static int host_for_test(int rank) {
    const char *list = getenv("LOCKSTEP_TEST_HOSTS");
    if (!list) return -1;
    for (; rank > 0; rank--) {
        list = strchr(list, ',');
        if (!list++) return 0;
    }
    return atoi(list);
}

static ls_status split_by_host(ls_comm_mpi *mpi) {
    ls_comm_info *info = &mpi->base.info;
    int host = host_for_test(info->job_rank);
    if (host < 0)
        TRY_MPI(MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &mpi->host));
    else
        TRY_MPI(MPI_Comm_split(mpi->comm, host, 0, &mpi->host));
    TRY_MPI(MPI_Comm_rank(mpi->host, &info->local_rank));
    TRY_MPI(MPI_Comm_size(mpi->host, &info->local_size));
    TRY_MPI(MPI_Comm_split(mpi->comm, info->local_rank == 0 ? 0 : MPI_UNDEFINED, 0, &mpi->leaders));
    int found[2] = { 0, 0 };
    if (mpi->leaders != MPI_COMM_NULL) {
        TRY_MPI(MPI_Comm_size(mpi->leaders, &found[0]));
        TRY_MPI(MPI_Comm_rank(mpi->leaders, &found[1]));
    }
    TRY_MPI(MPI_Bcast(found, 2, MPI_INT, 0, mpi->host));
    info->hosts = found[0];
    info->host_index = found[1];
    return LS_SUCCESS;
}

static ls_status choose_hierarchy(ls_comm_mpi *mpi) {
    const ls_comm_info *info = &mpi->base.info;
    int *host_of = ls_new(info->world_size, sizeof *host_of, "hosts of %d ranks", info->world_size);
    int rc = MPI_Allgather(&info->host_index, 1, MPI_INT, host_of, 1, MPI_INT, mpi->comm);
    if (rc == MPI_SUCCESS) mpi->hierarchy_wins = ls_hierarchy_wins(host_of, info->world_size, info->hosts);
    free(host_of);
    return rc == MPI_SUCCESS ? LS_SUCCESS : ls_fail(LS_COMM, "MPI_Allgather: %s (%d)", ls_mpi_explain(rc), rc);
}

static ls_status set_up(ls_comm_mpi *mpi) {
    ls_comm_info *info = &mpi->base.info;
    TRY_MPI(MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Comm_rank(mpi->comm, &info->rank));
    TRY_MPI(MPI_Comm_size(mpi->comm, &info->world_size));
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &info->job_rank));
    LS_TRY(ls_mpi_sum_new(&mpi->sum_bf16));
    LS_TRY(split_by_host(mpi));
    LS_TRY(choose_hierarchy(mpi));
    snprintf(info->library, sizeof info->library, "%s", ls_comm_mpi_library());
    ls_comm *comm = &mpi->base;
    const ls_watched_ranks ranks = { info->rank, info->world_size, info->hosts, info->host, comm,
        comm->backend->allgather, comm->backend->abort };
    return ls_watchdog_new(&ranks, &comm->life, &comm->recorder, &comm->watchdog);
}

static ls_status mpi_split(ls_comm *comm, int colour, ls_comm **out);

// Called at exit. If a library, or this program, calls exit() in the middle of a run, the other ranks would wait until
// the launcher ends them, with an exit code that depends on the launcher. So this rank ends them.
static void left_early(int exit_code, void *context) {
    (void)context;
    ls_comm *comm = atomic_load(&running);
    if (!comm || !ls_life_claim_end(LS_ENDED_BY_PROGRAM)) return;
    if (exit_code == 0) exit_code = LS_INTERNAL;
    fprintf(stderr,
        "error: rank %d on %s (pid %d) called exit() in \"%s\", while the other ranks go on; it ends the job\n",
        comm->info.rank, comm->info.host, (int)getpid(), atomic_load(&comm->life.phase));
    ls_comm_abort(comm, exit_code);
}

static const ls_comm_backend mpi_backend = {
    .name = "mpi",
    .allreduce = mpi_allreduce,
    .broadcast = mpi_broadcast,
    .allgather = mpi_allgather,
    .barrier = mpi_barrier,
    .channel_new = ls_mpi_channel_new,
    .channel_free = ls_mpi_channel_free,
    .channel_start = ls_mpi_channel_start,
    .channel_test = ls_mpi_channel_test,
    .split = mpi_split,
    .finish = mpi_finish,
    .abort = mpi_abort,
};

// Makes an ls_comm that owns the MPI communicator.
static ls_status wrap(MPI_Comm comm, int is_world, ls_comm **out) {
    ls_comm_mpi *mpi = ls_new(1, sizeof *mpi, "communicator");
    ls_comm_init(&mpi->base, &mpi_backend);
    mpi->comm = comm;
    mpi->is_world = is_world;
    ls_status status = set_up(mpi);
    if (ls_failed(status)) {
        free(mpi);
        return status;
    }
    *out = &mpi->base;
    return LS_SUCCESS;
}

static ls_status mpi_split(ls_comm *comm, int colour, ls_comm **out) {
    MPI_Comm some;
    TRY_MPI(MPI_Comm_split(((ls_comm_mpi *)comm)->comm, colour < 0 ? MPI_UNDEFINED : colour, 0, &some));
    if (some == MPI_COMM_NULL) return LS_SUCCESS;
    int ranks;
    TRY_MPI(MPI_Comm_size(some, &ranks));
    if (ranks > 1) return wrap(some, 0, out);
    TRY_MPI(MPI_Comm_free(&some));
    LS_TRY(ls_comm_self_new(out));
    (*out)->info.job_rank = comm->info.job_rank;
    return LS_SUCCESS;
}

// Returns the MPI library's name, shortened: Open MPI's goes on after "Open MPI v4.1.4", and MPICH's is a table.
const char *ls_comm_mpi_library(void) {
    static char name[sizeof((ls_comm_info *)0)->library];
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int bytes;
    if (MPI_Get_library_version(text, &bytes) != MPI_SUCCESS) return "an unknown MPI";
    text[strcspn(text, ",\n")] = 0;
    size_t used = 0;
    for (char *save, *word = strtok_r(text, " \t:", &save); word; word = strtok_r(NULL, " \t:", &save)) {
        if (strcmp(word, "Version") == 0) continue;
        int added = snprintf(name + used, sizeof name - used, "%s%s", used ? " " : "", word);
        used += (size_t)added < sizeof name - used ? (size_t)added : 0;
    }
    return name;
}

static ls_status refuse(const ls_launcher *launcher) {
#ifdef OPEN_MPI
    const char *start = "the mpirun of Open MPI (mpirun.openmpi on Debian) or srun --mpi=pmix";
#else
    const char *start = "the mpirun of that MPI (MPICH's on Debian: mpirun.mpich) or srun --mpi=pmi2";
#endif
    return ls_launcher_refuse(launcher, ls_comm_mpi_library(), start);
}

// The launcher while MPI starts, else NULL. Under the launcher of another MPI, the start may end the process;
// ended_by_start then reports that.
static _Atomic(const ls_launcher *) starting;
static void ended_by_start(int exit_code, void *context) {
    (void)context;
    const ls_launcher *launcher = atomic_load(&starting);
    if (!launcher) return;
    ls_status status = ls_fail(LS_COMM,
        "%s has ended this process (exit code %d) while it started under %s; what it says stands above; is that the "
        "launcher of this MPI? (docs/cluster.md)",
        ls_comm_mpi_library(), exit_code, launcher->name);
    if (launcher->rank == 0) ls_log_status(status);
    _exit(LS_COMM);
}

static ls_status init(int *argc, char ***argv, const ls_launcher *launcher) {
#ifdef OPEN_MPI
    // Without PMIx, Open MPI would be one rank by itself. Under srun it would end each task with a page of explanation.
    if (!launcher->speaks_pmix && ls_launcher_is_several(launcher)) return refuse(launcher);
#endif
    int provided;
    on_exit(ended_by_start, NULL);
    atomic_store(&starting, launcher);
    int rc = MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    atomic_store(&starting, NULL);
    // Before MPI has started, it cannot explain its error codes.
    if (rc != MPI_SUCCESS) return ls_fail(LS_COMM, "MPI_Init_thread: error %d; does mpirun -np 2 hostname work?", rc);
    TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int ranks;
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    if (ranks == 1 && ls_launcher_is_several(launcher)) {
        MPI_Finalize();
        return refuse(launcher);
    }
    if (provided < MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return ls_fail(LS_COMM,
            "this MPI library gives thread level %d, but gradients are reduced by a thread of their own, which needs "
            "MPI_THREAD_MULTIPLE (%d): use an Open MPI or MPICH that was built with it",
            provided, MPI_THREAD_MULTIPLE);
    }
    return LS_SUCCESS;
}

// Compares the handshakes of all ranks (program, version, build, command). *agreed is 1 if all ranks return the same
// status. Otherwise this rank fails alone, and the others may wait for it.
static ls_status shake_hands(const char *command, int *agreed) {
    int ranks;
    *agreed = 0;
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    ls_handshake mine, *all;
    all = ls_new(ranks, sizeof *all, "handshake of %d ranks", ranks);
    ls_handshake_make(command, &mine);
    int rc = MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    *agreed = rc == MPI_SUCCESS;
    ls_status status =
        *agreed ? ls_handshake_check(all, ranks) : ls_fail(LS_COMM, "MPI_Allgather: %s (%d)", ls_mpi_explain(rc), rc);
    free(all);
    return status;
}

static ls_status start(int *argc, char ***argv, const ls_launcher *launcher, const char *command, ls_comm **out) {
    int agreed;
    LS_TRY(init(argc, argv, launcher));
    ls_status status = shake_hands(command, &agreed);
    if (ls_failed(status)) {
        if (!agreed) return status; // exits without MPI_Finalize, so the launcher ends the others
        MPI_Finalize();
        ls_launcher_leave_to(launcher->rank == 0, status.code);
        return status;
    }
    MPI_Comm all;
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &all));
    return wrap(all, 1, out);
}

ls_status ls_comm_mpi_new(int *argc, char ***argv, const ls_launcher *launcher, const char *command, ls_comm **out) {
    ls_init_timeout *timeout;
    LS_TRY(ls_init_timeout_new(launcher, &timeout));
    ls_status status = start(argc, argv, launcher, command, out);
    ls_init_timeout_free(timeout);
    if (ls_failed(status)) return status;
    ls_comm_set_timeout(*out, ls_init_timeout_seconds());
    atomic_store(&running, *out);
    ls_out_of_memory_set_end(end_without_memory);
    on_exit(left_early, NULL);
    return LS_SUCCESS;
}
