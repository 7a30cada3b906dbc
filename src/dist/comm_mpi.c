// comm_mpi.c - ranks as MPI processes; the only file that knows MPI (3.1, threads at level MULTIPLE).
//
// Collectives are non-blocking ones that are polled: a rank that waits long (another one evaluates, writes a
// checkpoint, or shares its core) first yields, then naps, where a blocking MPI call would burn its core.
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "dist/comm_backend.h"

typedef struct {
    ls_comm base;
    MPI_Comm comm; // a duplicate of MPI_COMM_WORLD
} mpi_comm;

struct ls_channel {
    MPI_Comm comm; // its own: sums in flight never meet the main thread's collectives
    int slots, broken;
    MPI_Request request[];
};

enum { CHUNK = 1 << 30, ABORT_GUARD_S = 2 }; // CHUNK: MPI 3.1 counts are int

static const double spin_s = 1e-3, nap_max_s = 1e-3;

static const char *explain(int rc) {
    static _Thread_local char text[MPI_MAX_ERROR_STRING];
    int bytes;
    if (MPI_Error_string(rc, text, &bytes) != MPI_SUCCESS) snprintf(text, sizeof text, "unknown MPI error");
    return text;
}
#define TRY_MPI(call) LS_TRY_LIB(LS_COMM, explain, call)

static MPI_Datatype type_of(ls_dtype dtype) {
    switch (dtype) {
    case LS_F32:
        return MPI_FLOAT;
    case LS_F64:
        return MPI_DOUBLE;
    case LS_I32:
        return MPI_INT32_T;
    case LS_I64:
        return MPI_INT64_T;
    case LS_U8:
        return MPI_UINT8_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op op_of(ls_reduce op) {
    if (op == LS_REDUCE_SUM) return MPI_SUM;
    return op == LS_REDUCE_MAX ? MPI_MAX : MPI_MIN;
}

// A nap is at most a twentieth of the time already waited, so that it delays the end by no more.
static ls_status complete(MPI_Request *request, int napping) {
    double start_s = ls_clock_seconds();
    for (;;) {
        int done;
        TRY_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return LS_SUCCESS;
        double waited_s = ls_clock_seconds() - start_s, nap_s = waited_s / 20;
        if (napping || nap_s > nap_max_s) nap_s = nap_max_s;
        if (!napping && waited_s < spin_s)
            sched_yield();
        else
            ls_clock_sleep(nap_s);
    }
}

static ls_status mpi_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op) {
    MPI_Comm world = ((mpi_comm *)comm)->comm;
    if (type_of(dtype) == MPI_DATATYPE_NULL) return ls_fail(LS_INTERNAL, "all-reduce of %s", ls_dtype_name(dtype));
    for (int64_t i = 0; i < count; i += CHUNK) {
        int part = (int)(count - i < CHUNK ? count - i : CHUNK);
        void *at = (char *)data + (size_t)i * ls_dtype_bytes(dtype);
        MPI_Request request;
        TRY_MPI(MPI_Iallreduce(MPI_IN_PLACE, at, part, type_of(dtype), op_of(op), world, &request));
        LS_TRY(complete(&request, 0));
    }
    return LS_SUCCESS;
}

static ls_status mpi_broadcast(ls_comm *comm, void *data, int64_t bytes, int root) {
    for (int64_t i = 0; i < bytes; i += CHUNK) {
        int part = (int)(bytes - i < CHUNK ? bytes - i : CHUNK);
        MPI_Request request;
        TRY_MPI(MPI_Ibcast((char *)data + i, part, MPI_BYTE, root, ((mpi_comm *)comm)->comm, &request));
        LS_TRY(complete(&request, 0));
    }
    return LS_SUCCESS;
}

static ls_status mpi_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes_each) {
    if (bytes_each > INT_MAX) return ls_fail(LS_INTERNAL, "all-gather of %lld bytes a rank", (long long)bytes_each);
    MPI_Request request;
    TRY_MPI(MPI_Iallgather(mine == all ? MPI_IN_PLACE : mine, (int)bytes_each, MPI_BYTE, all, (int)bytes_each, MPI_BYTE,
        ((mpi_comm *)comm)->comm, &request));
    return complete(&request, 0);
}

static ls_status mpi_barrier(ls_comm *comm, int napping) {
    MPI_Request request;
    TRY_MPI(MPI_Ibarrier(((mpi_comm *)comm)->comm, &request));
    return complete(&request, napping);
}

static ls_status mpi_channel_new(ls_comm *comm, int slots, ls_channel **out) {
    ls_channel *channel = calloc(1, sizeof *channel + (size_t)slots * sizeof channel->request[0]);
    if (!channel) return ls_fail(LS_DEVICE, "communication channel of %d slots: no memory", slots);
    channel->slots = slots;
    for (int i = 0; i < slots; i++) channel->request[i] = MPI_REQUEST_NULL;
    int rc = MPI_Comm_dup(((mpi_comm *)comm)->comm, &channel->comm);
    if (rc != MPI_SUCCESS) {
        free(channel);
        return ls_fail(LS_COMM, "MPI_Comm_dup: %s (%d)", explain(rc), rc);
    }
    *out = channel;
    return LS_SUCCESS;
}

static void mpi_channel_free(ls_channel *channel) {
    int pending = 0;
    for (int i = 0; i < channel->slots; i++) pending |= channel->request[i] != MPI_REQUEST_NULL;
    // With a sum in flight the run is failing: freeing would wait for peers that may be gone.
    if (!pending) MPI_Comm_free(&channel->comm);
    free(channel);
}

static ls_status mpi_channel_start(ls_channel *channel, int slot, void *data, int64_t count, ls_dtype dtype) {
    if (count > INT_MAX) return ls_fail(LS_INTERNAL, "all-reduce of a bucket of %lld elements", (long long)count);
    TRY_MPI(MPI_Iallreduce(
        MPI_IN_PLACE, data, (int)count, type_of(dtype), MPI_SUM, channel->comm, &channel->request[slot]));
    return LS_SUCCESS;
}

static ls_status mpi_channel_test(ls_channel *channel, int slot, int *done) {
    TRY_MPI(MPI_Test(&channel->request[slot], done, MPI_STATUS_IGNORE));
    return LS_SUCCESS;
}

static void mpi_finish(ls_comm *comm) {
    ls_comm_phase(comm, "the end of the run", -1);
    ls_life_wait_begins(&comm->life, "MPI_Finalize", -1);
    MPI_Comm_free(&((mpi_comm *)comm)->comm);
    MPI_Finalize();
    ls_watchdog_free(comm->watchdog);
    free(comm);
}

// Process-wide, as signal handlers are.
static volatile sig_atomic_t abort_code;
static void exit_now(int signal_number) {
    (void)signal_number;
    _exit(abort_code);
}

// MPI_Abort is the one early exit that gives the launcher our code; should it hang (the network to the launcher is
// gone, or another thread holds a lock of the library), the alarm ends this rank with the same code.
static _Noreturn void mpi_abort(ls_comm *comm, int exit_code) {
    (void)comm;
    abort_code = exit_code;
    struct sigaction action = { .sa_handler = exit_now };
    sigaction(SIGALRM, &action, NULL);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(ABORT_GUARD_S);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
}

static const ls_comm_backend mpi_backend = {
    .name = "mpi",
    .allreduce = mpi_allreduce,
    .broadcast = mpi_broadcast,
    .allgather = mpi_allgather,
    .barrier = mpi_barrier,
    .channel_new = mpi_channel_new,
    .channel_free = mpi_channel_free,
    .channel_start = mpi_channel_start,
    .channel_test = mpi_channel_test,
    .finish = mpi_finish,
    .abort = mpi_abort,
};

static ls_status learn_facts(mpi_comm *mpi) {
    ls_comm_facts *facts = &mpi->base.facts;
    TRY_MPI(MPI_Comm_rank(mpi->comm, &facts->rank));
    TRY_MPI(MPI_Comm_size(mpi->comm, &facts->world_size));
    MPI_Comm host;
    TRY_MPI(MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    TRY_MPI(MPI_Comm_rank(host, &facts->local_rank));
    TRY_MPI(MPI_Comm_size(host, &facts->local_size));
    TRY_MPI(MPI_Comm_free(&host));
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int bytes;
    TRY_MPI(MPI_Get_library_version(text, &bytes));
    text[strcspn(text, ",\n")] = 0; // "Open MPI v4.1.4, package: ..."
    snprintf(facts->library, sizeof facts->library, "%.*s", (int)sizeof facts->library - 1, text);
    return LS_SUCCESS;
}

static ls_status set_up(mpi_comm *mpi) {
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm));
    TRY_MPI(MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN));
    LS_TRY(learn_facts(mpi));
    return ls_watchdog_new(&mpi->base, &mpi->base.watchdog);
}

ls_status ls_comm_mpi_new(int *argc, char ***argv, ls_comm **out) {
    int provided;
    TRY_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
    TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (provided < MPI_THREAD_MULTIPLE) {
        MPI_Finalize();
        return ls_fail(LS_COMM,
            "this MPI library gives thread level %d, but gradients are reduced by a thread of their own, which needs "
            "MPI_THREAD_MULTIPLE (%d): use an Open MPI or MPICH that was built with it",
            provided, MPI_THREAD_MULTIPLE);
    }
    mpi_comm *mpi = calloc(1, sizeof *mpi);
    if (!mpi) return ls_fail(LS_DEVICE, "communicator: no memory");
    ls_comm_init(&mpi->base, &mpi_backend);
    ls_status status = set_up(mpi);
    if (ls_failed(status)) {
        free(mpi);
        return status;
    }
    *out = &mpi->base;
    return LS_SUCCESS;
}
