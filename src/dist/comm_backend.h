// comm_backend.h - the struct of an ls_comm, and the table of functions that each backend provides. Private to dist/.
//
// comm.c does the part that is the same for all backends: phases, waits, agreement. A new backend provides one more
// table. The state of a backend begins with an ls_comm.
#ifndef LS_DIST_COMM_BACKEND_H
#define LS_DIST_COMM_BACKEND_H

#include <stdatomic.h>
#include "dist/comm.h"
#include "dist/watch/flight_recorder.h"
#include "dist/launcher.h"
#include "dist/watch/watchdog.h"

// Sums several ranges in the background. Only one thread at a time may use it.
typedef struct ls_channel ls_channel;

typedef struct {
    const char *name;
    ls_status (*allreduce)(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op);
    ls_status (*broadcast)(ls_comm *comm, void *data, int64_t bytes, int root);
    ls_status (*allgather)(ls_comm *comm, const void *mine, void *all, int64_t bytes_each);
    ls_status (*barrier)(ls_comm *comm, int napping);
    // channel_new and channel_free are collective. A slot is one sum in flight; its data must stay until channel_test
    // sets done. The four channel functions are NULL in `self`.
    ls_status (*channel_new)(ls_comm *comm, int slots, ls_channel **out);
    void (*channel_free)(ls_channel *channel);
    ls_status (*channel_start)(ls_channel *channel, int slot, void *data, int64_t count, ls_dtype dtype);
    ls_status (*channel_test)(ls_channel *channel, int slot, int *done); // also advances sums that this one waits for
    // Makes a communicator of the ranks with the same colour, in the order of ranks. colour < 0: *out stays NULL.
    ls_status (*split)(ls_comm *comm, int colour, ls_comm **out);
    void (*finish)(ls_comm *comm); // frees comm
    // May be called from any thread. clang counts this attribute as part of the type, but not _Noreturn.
    void (*abort)(ls_comm *comm, int exit_code) __attribute__((noreturn));
} ls_comm_backend;

struct ls_comm {
    const ls_comm_backend *backend;
    ls_comm_info info;
    ls_life life;
    ls_flight_recorder recorder;
    ls_watchdog *watchdog; // NULL in `self`
    double timeout_s;
    int hierarchy; // a value LS_HIERARCHY_*
    int broken;    // a collective failed here: it is unknown where other ranks are, so no collective may follow
    struct {       // the last failure that ls_comm_agree returned on all ranks, and the rank where it happened
        int rank;
        char text[LS_STATUS_TEXT_BYTES];
    } agreed;
};

ls_status ls_comm_self_new(ls_comm **out);
// Starts MPI under this launcher and makes the communicator of all ranks. command: as for ls_comm_start.
ls_status ls_comm_mpi_new(int *argc, char ***argv, const ls_launcher *launcher, const char *command, ls_comm **out);
const char *ls_comm_mpi_library(void);                            // also works before MPI_Init
void ls_comm_init(ls_comm *comm, const ls_comm_backend *backend); // sets comm up as one rank on this host

#endif
