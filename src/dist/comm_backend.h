// comm_backend.h - what stands behind ls_comm: a table of functions per backend. Private to dist/.
//
// comm.c does what is the same for all backends: phases, waits, agreement. A further backend fills
// one more table. A backend's own state begins with ls_comm.
#ifndef LS_DIST_COMM_BACKEND_H
#define LS_DIST_COMM_BACKEND_H

#include <stdatomic.h>
#include "dist/comm.h"
#include "dist/watch/flight_recorder.h"
#include "dist/launcher.h"
#include "dist/watch/watchdog.h"

// Sums of several ranges in the background, for the reducer. One thread at a time uses it.
typedef struct ls_channel ls_channel;

typedef struct {
    const char *name;
    ls_status (*allreduce)(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op);
    ls_status (*broadcast)(ls_comm *comm, void *data, int64_t bytes, int root);
    ls_status (*allgather)(ls_comm *comm, const void *mine, void *all, int64_t bytes_each);
    ls_status (*barrier)(ls_comm *comm, int napping);
    // All ranks call channel_new and channel_free. A slot is one sum in flight; data must stay until test returns done.
    // NULL functions: the backend has one rank only.
    ls_status (*channel_new)(ls_comm *comm, int slots, ls_channel **out);
    void (*channel_free)(ls_channel *channel);
    ls_status (*channel_start)(ls_channel *channel, int slot, void *data, int64_t count, ls_dtype dtype);
    ls_status (*channel_test)(ls_channel *channel, int slot, int *done); // progresses all slots
    // Ranks of the same colour, by rank; colour < 0: none, *out stays NULL.
    ls_status (*split)(ls_comm *comm, int colour, ls_comm **out);
    void (*finish)(ls_comm *comm); // frees comm
    // From any thread. clang counts this attribute as a part of the type, and _Noreturn not: functions that are assigned to
    // it are declared with the attribute, too.
    void (*abort)(ls_comm *comm, int exit_code) __attribute__((noreturn));
} ls_comm_backend;

struct ls_comm {
    const ls_comm_backend *backend;
    ls_comm_info info;
    ls_life life;
    ls_flight_recorder recorder;
    ls_watchdog *watchdog; // NULL: one rank
    double timeout_s;
    int hierarchy; // LS_HIERARCHY_*
    int broken;    // a collective failed here: where the other ranks are is unknown, so none may follow
    struct {       // the failure that ls_comm_agree returned last, everywhere, and its rank
        int rank;
        char text[LS_STATUS_TEXT_BYTES];
    } agreed;
};

ls_status ls_comm_self_new(ls_comm **out);
// Started by this launcher, to do what `command` names (ls_comm_start).
ls_status ls_comm_mpi_new(int *argc, char ***argv, const ls_launcher *launcher, const char *command, ls_comm **out);
const char *ls_comm_mpi_library(void);                            // before MPI_Init, too
void ls_comm_init(ls_comm *comm, const ls_comm_backend *backend); // one rank on this host

#endif
