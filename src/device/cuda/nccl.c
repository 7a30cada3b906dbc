// nccl.c - implements nccl.h with NCCL, which is opened at run time when several ranks sum with it. A single GPU does
// not need it.
//
// The communicator is non-blocking, so that nothing here waits for a peer without a time limit: a call that returns
// before NCCL has finished is polled until it has. A communicator whose peer is gone is aborted, never destroyed. A
// separate thread ends the communicator; if NCCL does not return, that thread is abandoned.
//
// Only one thread at a time calls NCCL with the communicator. A non-blocking call leaves its work to an NCCL thread;
// the next query of the communicator's state joins and frees that thread, and each call starts with such a query.
//
// Source: NCCL 2.28 user guide, "Communicators" and "Fault tolerance"; NCCL's group.cc, ncclGroupJobComplete.
#include "device/cuda/nccl.h"

#ifdef LS_WITH_NCCL

#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "system/library_search.h"

// VERSION_OF_WINDOWS: before this version, captured sums in symmetric windows can be wrong, because their kernels do
// not wait for the work before them (nccl #1924).
enum { VERSION_MIN = 21800, VERSION_OF_WINDOWS = 23007, REGISTERED_MAX = 16 };
static const double abort_grace_s = 5; // for CommAbort: NCCL's threads check the abort flag many times a second

_Static_assert(sizeof(ncclUniqueId) == LS_COLLECTIVE_ID_BYTES, "an id is NCCL's");

// --- the library ---------------------------------------------------------------------------------

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
#define WINDOW_FUNCTIONS(X) \
    X(CommWindowRegister, 0) \
    X(CommWindowDeregister, 0)
#else
#define WINDOW_FUNCTIONS(X)
typedef void *ncclWindow_t;
#endif

// name of the function; 1 if every NCCL from 2.18 on has it
#define FUNCTIONS(X) \
    X(GetVersion, 1) \
    X(GetUniqueId, 1) \
    X(GetErrorString, 1) \
    X(GetLastError, 1) \
    X(CommInitRankConfig, 1) \
    X(CommGetAsyncError, 1) \
    X(CommFinalize, 1) \
    X(CommDestroy, 1) \
    X(CommAbort, 1) \
    X(AllReduce, 1) \
    X(MemAlloc, 0) \
    X(MemFree, 0) \
    X(CommRegister, 0) \
    X(CommDeregister, 0) \
    WINDOW_FUNCTIONS(X)

typedef struct {
#define FIELD(name, always) __typeof__(&nccl##name) name;
    FUNCTIONS(FIELD)
#undef FIELD
    int version;
    char problem[512]; // "": the library is usable
} nccl_api;

// One for the whole process, as the library itself.
static nccl_api nccl;
static atomic_int nccl_open;
static pthread_once_t nccl_once = PTHREAD_ONCE_INIT;

static void find_functions(const ls_library_file *file) {
#define FIND(name, always) \
    if (!ls_library_search_find(file->handle, "nccl" #name, &nccl.name) && (always) && !nccl.problem[0]) \
        snprintf(nccl.problem, sizeof nccl.problem, "%.300s has no function nccl" #name, file->path);
    FUNCTIONS(FIND)
#undef FIND
}

static void open_nccl(void) {
    ls_library_file file;
    char advice[384];
    char *folders = ls_library_search_folders(CUDART_VERSION / 1000, LS_CUDA_BUILD_FOLDERS);
    const int found = ls_library_search_open(folders, 1, "libnccl.so.2", &file);
    free(folders);
    if (!found) {
        if (file.error[0])
            snprintf(nccl.problem, sizeof nccl.problem, "NCCL cannot be loaded: %.300s", file.error);
        else
            snprintf(nccl.problem, sizeof nccl.problem,
                "NCCL was not found: libnccl.so.2 is needed for sums between GPUs; %s; or use dist.backend = mpi",
                ls_library_search_advice(CUDART_VERSION / 1000, advice, sizeof advice));
        return;
    }
    find_functions(&file);
    if (nccl.problem[0]) return;
    if (nccl.GetVersion(&nccl.version) != ncclSuccess || nccl.version < VERSION_MIN)
        snprintf(nccl.problem, sizeof nccl.problem, "%.300s is NCCL %d, too old: 2.18 or later is needed", file.path,
            nccl.version);
    atomic_store(&nccl_open, !nccl.problem[0]);
}

static ls_status need_nccl(void) {
    pthread_once(&nccl_once, open_nccl);
    return nccl.problem[0] ? ls_fail(LS_DEVICE, "%s", nccl.problem) : LS_SUCCESS;
}

ls_status ls_nccl_probe(char *version, size_t bytes) {
    LS_TRY(need_nccl());
    snprintf(version, bytes, "NCCL %d.%d.%d", nccl.version / 10000, nccl.version / 100 % 100, nccl.version % 100);
    return LS_SUCCESS;
}

// --- errors --------------------------------------------------------------------------------------

// Parts of NCCL's messages, and advice for the user.
static const struct {
    const char *words, *advice;
} hints[] = {
    { "Duplicate GPU", "two ranks have the same GPU: start as many ranks on a host as it has GPUs, or use "
                       "dist.backend = mpi, which lets ranks share a GPU" },
    { "socket interface", "NCCL found no network interface: set NCCL_SOCKET_IFNAME to one that all hosts share (lo on "
                          "a single host)" },
    { "ismatched NCCL version", "the ranks have different NCCL libraries: install the same one on all hosts" },
    { "version mismatch", "the ranks have different NCCL libraries: install the same one on all hosts" },
    { "Connection refused", "a peer is gone, or a firewall is between the hosts" },
    { "shared memory", "/dev/shm is too small (in a container: --shm-size=1g)" },
    { "memlock", "locked memory is limited: ulimit -l unlimited" },
};

static const char *advice_for(const char *words) {
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strstr(words, hints[i].words)) return hints[i].advice;
    return "NCCL_DEBUG=WARN in the environment shows more";
}

static ls_status fail(ls_code code, const char *call, ncclComm_t comm, ncclResult_t rc) {
    char words[512] = "";
    const char *last = nccl.GetLastError(comm);
    snprintf(words, sizeof words, "%s", last ? last : "");
    for (char *c = words; *c; c++)
        if (*c == '\n') *c = ' ';
    return ls_fail(code, "%s: NCCL error %d (%s)%s%s; %s", call, (int)rc, nccl.GetErrorString(rc), words[0] ? ": " : "",
        words, advice_for(words));
}

// --- a communicator ------------------------------------------------------------------------------

struct ls_nccl {
    ls_cuda_device *device;
    int rank, world_size;
    double timeout_s;
    pthread_mutex_t lock; // protects comm; held by the thread that is in NCCL with it
    ncclComm_t comm;      // NULL after close has taken it
    void *registered[REGISTERED_MAX];
    ncclWindow_t windows[REGISTERED_MAX];
    int registered_count;
};

// Waits until NCCL has finished the call that returned rc. No other thread may use comm meanwhile. *late: 1 if NCCL did
// not finish within the timeout, else 0.
static ncclResult_t settle(ncclComm_t comm, ncclResult_t rc, double timeout_s, int *late) {
    double until = ls_clock_seconds() + timeout_s, nap_s = 2e-6;
    *late = 0;
    while (rc == ncclInProgress) {
        ncclResult_t state = ncclSuccess, queried = nccl.CommGetAsyncError(comm, &state);
        rc = queried == ncclSuccess ? state : queried;
        if (rc != ncclInProgress) break;
        if (ls_clock_seconds() > until) {
            *late = 1;
            break;
        }
        ls_clock_sleep(nap_s);
        if (nap_s < 1e-3) nap_s *= 1.5;
    }
    return rc;
}

// --- its end -------------------------------------------------------------------------------------

typedef struct {
    ncclComm_t comm;
    int in_order; // end with all peers; else abort
    double timeout_s;
    atomic_int done; // 0: not yet, 1: ended, -1: NCCL failed
} ending;

static void *end_comm(void *context) {
    ending *e = context;
    int late = 0;
    if (e->in_order) {
        ncclResult_t rc = settle(e->comm, nccl.CommFinalize(e->comm), e->timeout_s, &late);
        e->in_order = rc == ncclSuccess && !late;
    }
    ncclResult_t rc = e->in_order ? nccl.CommDestroy(e->comm) : nccl.CommAbort(e->comm);
    atomic_store(&e->done, rc == ncclSuccess || rc == ncclInProgress ? 1 : -1);
    return NULL;
}

// Ends the communicator. Returns 1 if NCCL ended it in time, so that the GPU no longer waits for a peer. in_order: end
// together with all peers; else abort.
static int end_within(ncclComm_t comm, int in_order, double timeout_s) {
    pthread_t thread;
    ending *e = malloc(sizeof *e); // the thread keeps it if it does not return in time
    if (!e) return 0;
    *e = (ending){ .comm = comm, .in_order = in_order, .timeout_s = timeout_s };
    if (pthread_create(&thread, NULL, end_comm, e) != 0) {
        free(e);
        return 0;
    }
    double until = ls_clock_seconds() + (in_order ? timeout_s : 0) + abort_grace_s;
    while (!atomic_load(&e->done) && ls_clock_seconds() < until) ls_clock_sleep(1e-3);
    if (!atomic_load(&e->done)) {
        pthread_detach(thread);
        return 0;
    }
    pthread_join(thread, NULL);
    int ended = atomic_load(&e->done) > 0;
    free(e);
    return ended;
}

// --- nccl.h -------------------------------------------------------------------------------------

ls_status ls_nccl_make_id(uint8_t id[LS_COLLECTIVE_ID_BYTES]) {
    ncclUniqueId unique;
    LS_TRY(need_nccl());
    ncclResult_t rc = nccl.GetUniqueId(&unique);
    if (rc != ncclSuccess) return fail(LS_DEVICE, "ncclGetUniqueId", NULL, rc);
    memcpy(id, &unique, sizeof unique);
    return LS_SUCCESS;
}

static ls_status start(ls_nccl *peers, const uint8_t id[LS_COLLECTIVE_ID_BYTES]) {
    ncclUniqueId unique;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int late;
    memcpy(&unique, id, sizeof unique);
    config.blocking = 0;
    ncclResult_t rc = nccl.CommInitRankConfig(&peers->comm, peers->world_size, unique, peers->rank, &config);
    if (rc == ncclInProgress)
        rc = settle(peers->comm, rc, peers->timeout_s, &late);
    else
        late = 0;
    if (late)
        return ls_fail(LS_COMM,
            "ncclCommInitRankConfig: the %d ranks did not all meet within %.0f s (rank %d waited); a peer is gone, or "
            "the hosts cannot reach each other through the interface in NCCL_SOCKET_IFNAME",
            peers->world_size, peers->timeout_s, peers->rank);
    return rc == ncclSuccess ? LS_SUCCESS : fail(LS_DEVICE, "ncclCommInitRankConfig", peers->comm, rc);
}

ls_status ls_nccl_open(ls_cuda_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank, int world_size,
    double timeout_s, ls_nccl **out) {
    LS_TRY(need_nccl());
    ls_nccl *peers = ls_new(1, sizeof *peers, "NCCL's communicator");
    peers->device = device;
    peers->rank = rank;
    peers->world_size = world_size;
    peers->timeout_s = timeout_s;
    ls_status status = start(peers, id); // no other thread uses peers yet
    if (ls_failed(status)) {
        if (peers->comm) (void)end_within(peers->comm, 0, 0);
        free(peers);
        return status;
    }
    pthread_mutex_init(&peers->lock, NULL);
    *out = peers;
    return LS_SUCCESS;
}

// Symmetric windows have the same place on all ranks. Sums then read the peers' memory without intermediate copies.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static int has_windows(void) {
    return nccl.version >= VERSION_OF_WINDOWS && nccl.CommWindowRegister && nccl.CommWindowDeregister && nccl.MemAlloc;
}

static ncclResult_t open_window(ncclComm_t comm, void *address, size_t bytes, ncclWindow_t *out) {
    return nccl.CommWindowRegister(comm, address, bytes, out, NCCL_WIN_COLL_SYMMETRIC);
}

static ncclResult_t close_window(ncclComm_t comm, ncclWindow_t window) {
    return nccl.CommWindowDeregister(comm, window);
}
#else
static int has_windows(void) {
    return 0;
}

static ncclResult_t open_window(ncclComm_t comm, void *address, size_t bytes, ncclWindow_t *out) {
    (void)comm, (void)address, (void)bytes, (void)out;
    return ncclSuccess;
}

static ncclResult_t close_window(ncclComm_t comm, ncclWindow_t window) {
    (void)comm, (void)window;
    return ncclSuccess;
}
#endif

// Waits for the result of a call that registers memory.
static ls_status registered(ls_nccl *peers, const char *call, ncclResult_t rc) {
    int late;
    rc = settle(peers->comm, rc, peers->timeout_s, &late);
    return rc == ncclSuccess ? LS_SUCCESS : fail(late ? LS_COMM : LS_DEVICE, call, peers->comm, rc);
}

static ls_status register_memory(ls_nccl *peers, void *address, size_t bytes) {
    void **handle = &peers->registered[peers->registered_count];
    ncclWindow_t *window = &peers->windows[peers->registered_count];
    LS_TRY(registered(peers, "ncclCommRegister", nccl.CommRegister(peers->comm, address, bytes, handle)));
    if (has_windows())
        LS_TRY(registered(peers, "ncclCommWindowRegister", open_window(peers->comm, address, bytes, window)));
    if (*handle || *window) peers->registered_count++; // both are NULL if the GPUs cannot use the registration
    return LS_SUCCESS;
}

ls_status ls_nccl_register_memory(ls_nccl *peers, void *address, size_t bytes) {
    if (!nccl.CommRegister || peers->registered_count == REGISTERED_MAX || bytes == 0) return LS_SUCCESS;
    pthread_mutex_lock(&peers->lock);
    ls_status status = register_memory(peers, address, bytes);
    pthread_mutex_unlock(&peers->lock);
    return status;
}

static int deregister(const ls_nccl *peers, ncclComm_t comm, int place, double timeout_s) {
    void *handle = peers->registered[place];
    ncclWindow_t window = peers->windows[place];
    int late;
    if (window && settle(comm, close_window(comm, window), timeout_s, &late) != ncclSuccess) return 0;
    return !handle || settle(comm, nccl.CommDeregister(comm, handle), timeout_s, &late) == ncclSuccess;
}

static ls_status all_reduce(
    ls_nccl *peers, void *data, int64_t count, ls_dtype dtype, ls_collect op, int32_t tag, cudaStream_t stream) {
    static const struct {
        int known;
        ncclDataType_t type;
    } types[LS_DTYPE_COUNT] = {
        [LS_F32] = { 1, ncclFloat32 },
        [LS_F64] = { 1, ncclFloat64 },
        [LS_BF16] = { 1, ncclBfloat16 },
        [LS_I32] = { 1, ncclInt32 },
        [LS_I64] = { 1, ncclInt64 },
    };
    if (!types[dtype].known)
        return ls_fail(LS_INTERNAL, "ncclAllReduce: %s is not summed over ranks", ls_dtype_name(dtype));
    char call[64];
    int late;
    ncclResult_t rc = nccl.AllReduce(
        data, data, (size_t)count, types[dtype].type, op == LS_COLLECT_MAX ? ncclMax : ncclSum, peers->comm, stream);
    // The collective is not in the queue until NCCL reports success. Without waiting, later work would overtake it.
    if (rc == ncclInProgress)
        rc = settle(peers->comm, rc, peers->timeout_s, &late);
    else
        late = 0;
    if (rc == ncclSuccess) return LS_SUCCESS;
    snprintf(call, sizeof call, "ncclAllReduce of bucket %d", tag);
    if (late) return ls_fail(LS_COMM, "%s: not started within %.0f s; a peer is gone or hangs", call, peers->timeout_s);
    return fail(LS_DEVICE, call, peers->comm, rc);
}

ls_status ls_nccl_all_reduce(
    ls_nccl *peers, void *data, int64_t count, ls_dtype dtype, ls_collect op, int32_t tag, cudaStream_t stream) {
    pthread_mutex_lock(&peers->lock);
    ls_status status = all_reduce(peers, data, count, dtype, op, tag, stream);
    pthread_mutex_unlock(&peers->lock);
    return status;
}

// Returns LS_COMM if NCCL has noticed an error of the communicator. Call it with the lock held.
static ls_status query(const ls_nccl *peers) {
    ncclResult_t state = ncclSuccess, rc = nccl.CommGetAsyncError(peers->comm, &state);
    if (rc != ncclSuccess) state = rc;
    if (state == ncclSuccess || state == ncclInProgress) return LS_SUCCESS;
    return fail(LS_COMM, "a collective between GPUs", peers->comm, state);
}

// Asks for the communicator's state. Never waits: if another thread has the lock, this returns success, because that
// thread is in a call that reports the error itself.
ls_status ls_nccl_health(ls_nccl *peers) {
    if (pthread_mutex_trylock(&peers->lock) != 0) return LS_SUCCESS;
    ls_status status = peers->comm ? query(peers) : LS_SUCCESS;
    pthread_mutex_unlock(&peers->lock);
    return status;
}

int ls_nccl_close(ls_nccl *peers, double timeout_s) {
    pthread_mutex_lock(&peers->lock);
    int well = !ls_failed(query(peers));
    ncclComm_t comm = peers->comm;
    peers->comm = NULL;
    pthread_mutex_unlock(&peers->lock);
    for (int i = 0; i < peers->registered_count && well; i++) well = deregister(peers, comm, i, timeout_s);
    int ended = end_within(comm, well, timeout_s);
    pthread_mutex_destroy(&peers->lock);
    free(peers);
    return ended;
}

cudaError_t ls_nccl_malloc(size_t bytes, void **address) {
    *address = NULL;
    if (!atomic_load(&nccl_open) || !nccl.MemAlloc || !nccl.MemFree) return cudaSuccess;
    if (nccl.MemAlloc(address, bytes) == ncclSuccess) return cudaSuccess;
    *address = NULL;
    return has_windows() ? cudaErrorMemoryAllocation
                         : cudaSuccess; // registering a window of other memory on one rank alone would hang
}

cudaError_t ls_nccl_free(void *address) {
    return nccl.MemFree(address) == ncclSuccess ? cudaSuccess : cudaErrorUnknown;
}

#else // nccl.h was not found when this was built: only one GPU

static ls_status without(void) {
    return ls_fail(LS_DEVICE, "this build sums nothing between GPUs: nccl.h was not found when it was made (take "
                              "dist.backend = mpi, or build again with NCCL; scripts/fetch-cuda.sh gets it)");
}

ls_status ls_nccl_probe(char *version, size_t bytes) {
    (void)version, (void)bytes;
    return without();
}

ls_status ls_nccl_make_id(uint8_t id[LS_COLLECTIVE_ID_BYTES]) {
    (void)id;
    return without();
}

ls_status ls_nccl_open(ls_cuda_device *device, const uint8_t id[LS_COLLECTIVE_ID_BYTES], int rank, int world_size,
    double timeout_s, ls_nccl **out) {
    (void)device, (void)id, (void)rank, (void)world_size, (void)timeout_s, (void)out;
    return without();
}

ls_status ls_nccl_register_memory(ls_nccl *peers, void *address, size_t bytes) {
    (void)peers, (void)address, (void)bytes;
    return without();
}

ls_status ls_nccl_all_reduce(
    ls_nccl *peers, void *data, int64_t count, ls_dtype dtype, ls_collect op, int32_t tag, cudaStream_t stream) {
    (void)peers, (void)data, (void)count, (void)dtype, (void)op, (void)tag, (void)stream;
    return without();
}

ls_status ls_nccl_health(ls_nccl *peers) {
    (void)peers;
    return without();
}

int ls_nccl_close(ls_nccl *peers, double timeout_s) {
    (void)peers, (void)timeout_s;
    return 1;
}

cudaError_t ls_nccl_malloc(size_t bytes, void **address) {
    (void)bytes;
    *address = NULL;
    return cudaSuccess;
}

cudaError_t ls_nccl_free(void *address) {
    return cudaFree(address);
}

#endif
