// How nccl.c calls NCCL, whose place the functions below take: one thread at a time, a health check that waits for nobody,
// what is registered by which version, and the order of the end.
//
// They do what NCCL 2.28 does with blocking = 0 (init.cc, group.cc): a call gives its work to a job in a thread of its own
// and returns ncclInProgress; ncclCommGetAsyncError joins and frees the job once it has ended; every other call begins with
// that. Two threads that ask at once free one job twice, so this is also a test for the thread sanitizer.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/library_search.h"

static int fake_search_open(const char *folders, int loader, const char *soname, ls_library_file *out);
static int fake_search_find(void *handle, const char *name, void *function);
static char *fake_search_folders(int cuda_major, const char *more);
static const char *fake_search_advice(int cuda_major, char *text, size_t bytes);
#define ls_library_search_open fake_search_open
#define ls_library_search_find fake_search_find
#define ls_library_search_folders fake_search_folders
#define ls_library_search_advice fake_search_advice
#include "../../../src/device/cuda/nccl.c"

#include "support/cmocka.h" // behind nccl.c, which has a function of a name that is a macro there
#include "support/must.h"

// --- NCCL's place --------------------------------------------------------------------------------

typedef struct {
    pthread_t thread;
    struct ncclComm *comm;
} job;

struct ncclComm {
    atomic_int state; // an ncclResult_t
    job *job;         // as NCCL's groupJob, no atomic
};

// One for each test: the communicator, and what the calls did.
static struct ncclComm the_comm;
static atomic_int inside, at_once, jobs, launches, held; // held: jobs do not end
static char calls[512];
static int version;

static void enter(void) {
    if (atomic_fetch_add(&inside, 1) > 0) atomic_fetch_add(&at_once, 1);
}

static ncclResult_t leave(ncclResult_t rc) {
    atomic_fetch_sub(&inside, 1);
    return rc;
}

static void note(const char *call) {
    size_t used = strlen(calls);
    snprintf(calls + used, sizeof calls - used, "%s%s", used ? " " : "", call);
}

static void *work(void *context) {
    job *mine = context;
    while (atomic_load(&held)) ls_clock_sleep(1e-4);
    int expected = ncclInProgress;
    atomic_compare_exchange_strong(&mine->comm->state, &expected, ncclSuccess);
    return NULL;
}

static ncclResult_t query_state(ncclComm_t comm) {
    ncclResult_t state = (ncclResult_t)atomic_load(&comm->state);
    if (state != ncclSuccess || !comm->job) return state;
    pthread_join(comm->job->thread, NULL);
    free(comm->job);
    comm->job = NULL;
    atomic_fetch_sub(&jobs, 1);
    return state;
}

static ncclResult_t begin_job(ncclComm_t comm) {
    ncclResult_t state = query_state(comm);
    if (state != ncclSuccess) return state == ncclInProgress ? ncclInvalidArgument : state;
    comm->job = malloc(sizeof *comm->job);
    assert_non_null(comm->job);
    comm->job->comm = comm;
    atomic_store(&comm->state, ncclInProgress);
    atomic_fetch_add(&jobs, 1);
    pthread_create(&comm->job->thread, NULL, work, comm->job);
    return ncclInProgress;
}

static ncclResult_t fake_GetVersion(int *out) {
    *out = version;
    return ncclSuccess;
}
static ncclResult_t fake_GetUniqueId(ncclUniqueId *id) {
    memset(id, 0, sizeof *id);
    return ncclSuccess;
}
static const char *fake_GetErrorString(ncclResult_t result) {
    return result == ncclRemoteError ? "remote process exited" : "some error";
}
static const char *fake_GetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}
static ncclResult_t fake_CommInitRankConfig(
    ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    (void)ranks, (void)id, (void)rank;
    assert_int_equal(config->blocking, 0);
    atomic_store(&the_comm.state, ncclSuccess);
    *comm = &the_comm;
    enter();
    return leave(begin_job(*comm));
}
static ncclResult_t fake_CommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
    enter();
    *state = query_state(comm);
    return leave(ncclSuccess);
}
static ncclResult_t fake_CommFinalize(ncclComm_t comm) {
    note("finalize");
    enter();
    return leave(begin_job(comm));
}
static ncclResult_t fake_CommDestroy(ncclComm_t comm) {
    note("destroy");
    enter();
    return leave(query_state(comm));
}
static ncclResult_t fake_CommAbort(ncclComm_t comm) {
    note("abort");
    enter();
    atomic_store(&held, 0);
    atomic_store(&comm->state, ncclSuccess);
    (void)query_state(comm);
    return leave(ncclSuccess);
}
static ncclResult_t fake_AllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
    ncclComm_t comm, cudaStream_t stream) {
    (void)send, (void)receive, (void)count, (void)type, (void)op, (void)stream;
    enter();
    ncclResult_t rc = begin_job(comm);
    atomic_fetch_add(&launches, 1);
    return leave(rc);
}
static ncclResult_t fake_MemAlloc(void **address, size_t bytes) {
    *address = bytes > 4096 ? NULL : malloc(bytes);
    return *address ? ncclSuccess : ncclUnhandledCudaError;
}
static ncclResult_t fake_MemFree(void *address) {
    free(address);
    return ncclSuccess;
}
static ncclResult_t fake_CommRegister(const ncclComm_t comm, void *address, size_t bytes, void **handle) {
    (void)bytes;
    note("register");
    *handle = address;
    enter();
    return leave(begin_job(comm));
}
static ncclResult_t fake_CommDeregister(const ncclComm_t comm, void *handle) {
    (void)handle;
    note("deregister");
    enter();
    return leave(begin_job(comm));
}
static ncclResult_t fake_CommWindowRegister(
    ncclComm_t comm, void *address, size_t bytes, ncclWindow_t *window, int flags) {
    (void)bytes;
    note(flags == NCCL_WIN_COLL_SYMMETRIC ? "window" : "another window");
    *window = address;
    enter();
    return leave(begin_job(comm));
}
static ncclResult_t fake_CommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
    (void)window;
    note("no window");
    enter();
    return leave(begin_job(comm));
}

static int fake_search_open(const char *folders, int loader, const char *soname, ls_library_file *out) {
    (void)folders, (void)loader;
    *out = (ls_library_file){ .handle = &the_comm };
    snprintf(out->path, sizeof out->path, "%s", soname);
    return 1;
}

static char *fake_search_folders(int cuda_major, const char *more) {
    (void)cuda_major, (void)more;
    return NULL;
}

static const char *fake_search_advice(int cuda_major, char *text, size_t bytes) {
    (void)cuda_major;
    snprintf(text, bytes, "get it");
    return text;
}

static int fake_search_find(void *handle, const char *name, void *function) {
#define FIND_FAKE(word, always) \
    if (strcmp(name, "nccl" #word) == 0) { \
        __typeof__(&nccl##word) found = fake_##word; \
        memcpy(function, &found, sizeof found); \
        return 1; \
    }
    (void)handle;
    FUNCTIONS(FIND_FAKE)
    return 0;
}

// --- what every test begins and ends with --------------------------------------------------------

static ls_nccl *open_version(int wanted, double timeout_s) {
    static const uint8_t id[LS_COLLECTIVE_ID_BYTES];
    ls_nccl *peers = NULL;
    version = wanted;
    calls[0] = 0;
    atomic_store(&at_once, 0);
    atomic_store(&launches, 0);
    atomic_store(&held, 0);
    nccl = (nccl_api){ 0 }; // another library than the test before has opened
    open_nccl();
    must(ls_nccl_open(NULL, id, 0, 1, timeout_s, &peers));
    return peers;
}

static ls_status sum(ls_nccl *peers) {
    float data[4] = { 0 };
    return ls_nccl_all_reduce(peers, data, 4, LS_F32, LS_COLLECT_SUM, 7, NULL);
}

// --- health ---------------------------------------------------------------------------------------

typedef struct {
    ls_nccl *peers;
    atomic_int stop, asked;
    ls_status status;
} asking;

static void *ask(void *context) {
    asking *a = context;
    while (!atomic_load(&a->stop)) {
        ls_keep_first(&a->status, ls_nccl_health(a->peers));
        atomic_fetch_add(&a->asked, 1);
    }
    return NULL;
}

static void health_is_asked_beside_launches(void **unused) {
    (void)unused;
    asking a = { .peers = open_version(22809, 60), .status = LS_SUCCESS };
    float data[4] = { 0 };
    pthread_t thread;
    pthread_create(&thread, NULL, ask, &a);
    must(ls_nccl_register_memory(a.peers, data, sizeof data));
    for (int i = 0; i < 300; i++) must(sum(a.peers));
    while (atomic_load(&a.asked) < 100) sched_yield();
    atomic_store(&a.stop, 1);
    pthread_join(thread, NULL);
    must(a.status);
    assert_int_equal(atomic_load(&at_once), 0);
    assert_int_equal(ls_nccl_close(a.peers, 60), 1);
    assert_int_equal(atomic_load(&jobs), 0);
}

static void *sum_once(void *context) {
    asking *a = context;
    a->status = sum(a->peers);
    return NULL;
}

// While a launch has not been taken, which lasts as long as the test wants, health comes back at once.
static void health_waits_for_nobody(void **unused) {
    (void)unused;
    asking a = { .peers = open_version(22809, 60), .status = LS_SUCCESS };
    pthread_t thread;
    atomic_store(&held, 1);
    alarm(60); // ends a program whose health waits
    pthread_create(&thread, NULL, sum_once, &a);
    while (!atomic_load(&launches)) sched_yield();
    for (int i = 0; i < 3; i++) must(ls_nccl_health(a.peers)); // the launch ends below
    alarm(0);
    atomic_store(&held, 0);
    pthread_join(thread, NULL);
    must(a.status);
    assert_int_equal(ls_nccl_close(a.peers, 60), 1);
}

static void an_error_is_noticed(void **unused) {
    (void)unused;
    ls_nccl *peers = open_version(22809, 60);
    must(sum(peers));
    must(ls_nccl_health(peers));
    atomic_store(&the_comm.state, ncclRemoteError);
    ls_status status = ls_nccl_health(peers);
    assert_int_equal(status.code, LS_COMM);
    assert_non_null(strstr(status.text, "remote process exited"));
    assert_int_equal(sum(peers).code, LS_DEVICE);
    assert_int_equal(ls_nccl_close(peers, 60), 1); // by abort
    assert_string_equal(calls, "abort");
}

static void a_launch_that_is_not_taken(void **unused) {
    (void)unused;
    ls_nccl *peers = open_version(22809, 60);
    peers->timeout_s = 0.02;
    atomic_store(&held, 1);
    ls_status status = sum(peers);
    assert_int_equal(status.code, LS_COMM);
    assert_non_null(strstr(status.text, "ncclAllReduce of bucket 7: not started within"));
    atomic_store(&the_comm.state, ncclRemoteError);
    assert_int_equal(ls_nccl_close(peers, 60), 1);
    assert_string_equal(calls, "abort");
}

// --- registration ---------------------------------------------------------------------------------

static void windows_by_version(void **unused) {
    (void)unused;
    static const struct {
        int version;
        const char *calls;
    } rows[] = {
        { 21800, "register register deregister deregister finalize destroy" },
        { 22809, "register register deregister deregister finalize destroy" },
        { 23006, "register register deregister deregister finalize destroy" },
        { 23007, "register window register window no window deregister no window deregister finalize destroy" },
        { 23100, "register window register window no window deregister no window deregister finalize destroy" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_nccl *peers = open_version(rows[i].version, 60);
        char one[64], other[64];
        must(ls_nccl_register_memory(peers, one, sizeof one));
        must(ls_nccl_register_memory(peers, other, sizeof other));
        assert_int_equal(ls_nccl_close(peers, 60), 1);
        if (strcmp(calls, rows[i].calls) != 0)
            fail_msg("%d: \"%s\", expected \"%s\"", rows[i].version, calls, rows[i].calls);
    }
}

// Windows need memory of NCCL's on all ranks: where one has it and does not get it, none may go on with other memory.
static void memory_by_version(void **unused) {
    (void)unused;
    void *address = NULL;
    ls_nccl *peers = open_version(22809, 60);
    assert_int_equal(ls_nccl_malloc(64, &address), cudaSuccess);
    assert_non_null(address);
    assert_int_equal(ls_nccl_free(address), cudaSuccess);
    assert_int_equal(ls_nccl_malloc(8192, &address), cudaSuccess);
    assert_null(address);
    assert_int_equal(ls_nccl_close(peers, 60), 1);
    peers = open_version(23007, 60);
    assert_int_equal(ls_nccl_malloc(8192, &address), cudaErrorMemoryAllocation);
    assert_null(address);
    assert_int_equal(ls_nccl_close(peers, 60), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_is_asked_beside_launches),
        cmocka_unit_test(health_waits_for_nobody),
        cmocka_unit_test(an_error_is_noticed),
        cmocka_unit_test(a_launch_that_is_not_taken),
        cmocka_unit_test(windows_by_version),
        cmocka_unit_test(memory_by_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
