// comm.h - the ranks of a run and the messages between them.
//
// `self` is one rank without MPI; `mpi` is MPI 3.1. mpi.h appears in comm_mpi*.[ch] only. Collectives must be called by
// all ranks in the same order. Ranks that wait for each other for longer than the timeout end the run: a watchdog
// thread writes one line that names the culprit, with a table of what every rank was doing, and ends the whole job with
// exit code 5; no call returns an error for that.
#ifndef LS_DIST_COMM_H
#define LS_DIST_COMM_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"
#include "device/collective.h"

typedef struct ls_comm ls_comm;
typedef enum { LS_REDUCE_SUM, LS_REDUCE_MAX, LS_REDUCE_MIN } ls_reduce;

typedef struct {
    int rank, world_size;
    int job_rank;               // in the communicator of ls_comm_start: for messages
    int local_rank, local_size; // among the ranks of this host
    int hosts, host_index;      // numbered by their lowest rank
    char host[64];
    const char *backend; // "self" | "mpi"
    char library[128];   // ls_comm_library; "" where MPI was not started
} ls_comm_info;

// Started by a launcher (dist/launcher.c has all that are recognised) starts MPI, else `self`; a launcher's only
// process is `self`, too. Where a launcher has started several and MPI does not join them, LS_USAGE, on one of them;
// the others end. `command` is what this process is to do, as far as all ranks must do the same, "train bench --layers"
// (NULL: unknown, it ends after the start): ranks compare it, their version and build before anything else; LS_COMM
// on all of them with a table where they differ.
// Sets Open MPI's parameters for the environment before (see prepare_environment in comm.c; what the user has set
// stays), so: before any thread. From here on no rank outlives its launcher.
LS_CHECKED ls_status ls_comm_start(int *argc, char ***argv, const char *command, ls_comm **out);
// Processes that this one starts from here on are one rank each by itself: the launcher's variables leave the environment.
void ls_comm_leave_launch(void);
// The MPI library that this program is linked with, as it names itself: "Open MPI v4.1.4"; "no MPI".
const char *ls_comm_library(void);
// One rank by itself, whatever the launch: `bench` trains on rank 0 alone with it while the others wait. Free by
// ls_comm_finish.
LS_CHECKED ls_status ls_comm_self(ls_comm **out);
// The first `ranks` ranks of comm by themselves, with a description and a watchdog of their own, comm's timeout and hierarchy;
// *out is NULL on the others. All ranks of comm call it. Its ranks free it by ls_comm_finish, before comm. One rank
// alone is `self`.
LS_CHECKED ls_status ls_comm_first(ls_comm *comm, int ranks, ls_comm **out);
// Likewise: the ranks of this rank's host; the lowest rank of each host.
LS_CHECKED ls_status ls_comm_of_host(ls_comm *comm, ls_comm **out);
LS_CHECKED ls_status ls_comm_of_leaders(ls_comm *comm, ls_comm **out);
const ls_comm_info *ls_comm_get_info(const ls_comm *comm);
void ls_comm_set_timeout(ls_comm *comm, double timeout_s); // 0: none (as it starts)
// How large sums are made (dist.hierarchy; a value LS_HIERARCHY_* of config.h, auto as it starts): by hosts, each first
// summing inside, then their lowest ranks; or by all ranks at once. The same on all ranks, before the first sum.
void ls_comm_set_hierarchy(ls_comm *comm, int hierarchy);
// What this rank is doing, for the watchdog's line; a string constant. Shows life, too.
void ls_comm_phase(ls_comm *comm, const char *phase, int64_t update);

// This rank waits for what its peers must do, too, elsewhere than in the collectives below: sums on a device's queues.
// The watchdog counts it as they do theirs; `what` is a string constant. From the thread that calls the collectives.
void ls_comm_wait_begins(ls_comm *comm, const char *what);
void ls_comm_wait_ends(ls_comm *comm);
// The watchdog polls the state and the progress of these collectives, too; NULL, NULL: no longer. Before they are
// closed.
LS_CHECKED ls_status ls_comm_watch(ls_comm *comm, const ls_collective_api *api, ls_collective *collective);

// Host memory. LS_F32, LS_F64, LS_I32, LS_I64, LS_U8; sums of LS_BF16, too, each addition rounded to nearest even. The
// same bits on all ranks.
LS_CHECKED ls_status ls_comm_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op);
LS_CHECKED ls_status ls_comm_broadcast(ls_comm *comm, void *data, int64_t bytes, int root);
LS_CHECKED ls_status ls_comm_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes_each);
LS_CHECKED ls_status ls_comm_barrier(ls_comm *comm);
// The same for long waits: polls with naps of about 1 ms, so that waiting ranks leave their cores to those that work,
// and shows the watchdog life, so that the wait may be long.
LS_CHECKED ls_status ls_comm_barrier_napping(ls_comm *comm);

// All ranks pass their own status; all get the failure of the lowest failing rank (its code and text), and *failed_rank
// is that rank (-1: none). For errors that only some ranks see, at start and at agreed points. A failure that was
// agreed on before stays that of the rank where it happened.
ls_status ls_comm_agree(ls_comm *comm, ls_status mine, int *failed_rank);
// The failure is the one that the last ls_comm_agree returned: all ranks have it already.
int ls_comm_agreed(const ls_comm *comm, ls_status failure);

// A collective failed on this rank. The others may be waiting in it or be elsewhere: only ls_comm_abort is left.
int ls_comm_broken(const ls_comm *comm);
// Orderly end: all ranks of comm have called it. Frees comm; that of ls_comm_start ends MPI, too.
void ls_comm_finish(ls_comm *comm);
// Before the message of a failure that ends all ranks by ls_comm_abort: from here on the watchdogs write nothing. Does
// not return, for as long as it takes the job to end, when the watchdog was first.
void ls_comm_claim_end(ls_comm *comm);
// Ends all ranks at once with this exit code, under any launcher; never returns. Print the message before.
_Noreturn void ls_comm_abort(ls_comm *comm, int exit_code);

#endif
