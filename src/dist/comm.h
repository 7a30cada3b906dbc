// comm.h - the ranks of a run, and the collectives by which they exchange data.
//
// `self` is one rank without MPI; `mpi` uses MPI 3.1. Only comm_mpi*.[ch] include mpi.h. All ranks must call
// collectives in the same order. If ranks wait for each other for longer than the timeout, a watchdog thread writes
// which rank is at fault, as far as it knows, and what the ranks are doing. Then it ends the whole job with exit code
// 5. No call returns an error for this case.
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
    int job_rank;               // rank in the communicator of ls_comm_start, for messages
    int local_rank, local_size; // among the ranks of this host
    int hosts, host_index;      // hosts are numbered in the order of their lowest ranks
    char host[64];
    const char *backend; // "self" | "mpi"
    char library[128];   // from ls_comm_library; "": backend "self"
} ls_comm_info;

// Makes the communicator of all ranks: `self` without a launcher (dist/launcher.c lists them) or if it has started one
// process, else `mpi`. If MPI cannot join the processes, one returns LS_USAGE and the others exit with this code.
//
// command: the part of this process's task that must be the same on all ranks, such as "train bench --layers" (NULL:
// unknown, the process ends right after the start). The ranks compare their commands, versions and builds before
// anything else. If these differ, rank 0 returns LS_COMM with a table, and the other ranks exit with this code.
//
// Call it before any thread is started, because it sets variables of the environment for Open MPI (prepare_environment
// in comm.c); variables that the user has set stay. From here on a rank ends when its launcher does, unless the rank's
// host has many ranks (die_with_launcher in comm.c).
LS_CHECKED ls_status ls_comm_start(int *argc, char ***argv, const char *command, ls_comm **out);
// Removes the launcher's variables from the environment: processes that this one starts are then runs of one rank.
void ls_comm_leave_launch(void);
// Returns the name and version of the linked MPI library, such as "Open MPI v4.1.4"; or "no MPI".
const char *ls_comm_library(void);
// Makes a communicator of one rank under any launch; `bench` trains on rank 0 alone with it. Free it by ls_comm_finish.
LS_CHECKED ls_status ls_comm_self(ls_comm **out);
// Makes a communicator of the first `ranks` ranks of comm, with a description and a watchdog of its own, and comm's
// timeout and hierarchy. *out is NULL on the other ranks. Collective over comm. The `ranks` ranks free
// *out by ls_comm_finish, before comm. With one rank, *out is a `self`.
LS_CHECKED ls_status ls_comm_first(ls_comm *comm, int ranks, ls_comm **out);
// Make communicators like ls_comm_first: of the ranks on this rank's host, and of the lowest ranks of all hosts.
LS_CHECKED ls_status ls_comm_of_host(ls_comm *comm, ls_comm **out);
LS_CHECKED ls_status ls_comm_of_leaders(ls_comm *comm, ls_comm **out);
const ls_comm_info *ls_comm_get_info(const ls_comm *comm);
void ls_comm_set_timeout(ls_comm *comm, double timeout_s); // 0: no timeout
// Sets how large sums and sums of gradients are made (dist.hierarchy; a value LS_HIERARCHY_* of config.h, at first
// auto): by hosts, first inside each host and then among the lowest ranks of the hosts, or by all ranks at once. Set it
// on all ranks before the first sum.
void ls_comm_set_hierarchy(ls_comm *comm, int hierarchy);
// Sets this rank's phase (a string constant) and update (-1: no update) for the watchdog's report. Is a sign of life.
void ls_comm_phase(ls_comm *comm, const char *phase, int64_t update);

// Marks a wait for other ranks outside the collectives below, such as for sums on a device's queues. The watchdog
// treats it like a wait in a collective. what: a string constant. Call it from the thread that calls the collectives.
void ls_comm_wait_begins(ls_comm *comm, const char *what);
void ls_comm_wait_ends(ls_comm *comm);
// Makes the watchdog also poll a device's collectives for failures and progress. api and collective NULL: stops the
// polling; do it before the collectives are closed.
LS_CHECKED ls_status ls_comm_watch(ls_comm *comm, const ls_collective_api *api, ls_collective *collective);

// Collectives on host memory; all ranks get the same bits. allreduce works in place, on LS_F32, LS_F64, LS_I32, LS_I64,
// LS_U8, and for sums LS_BF16, with each addition rounded to nearest even. all: bytes_each bytes of each rank, by rank.
LS_CHECKED ls_status ls_comm_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op);
LS_CHECKED ls_status ls_comm_broadcast(ls_comm *comm, void *data, int64_t bytes, int root);
LS_CHECKED ls_status ls_comm_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes_each);
LS_CHECKED ls_status ls_comm_barrier(ls_comm *comm);
// A barrier for long waits. It polls with naps of about 1 ms, so that waiting ranks leave their cores to working ranks.
// The watchdog allows it to be long.
LS_CHECKED ls_status ls_comm_barrier_napping(ls_comm *comm);

// Lets all ranks agree on one status. Each passes its own; all get the failure of the lowest failing rank (its code and
// text). *failed_rank (NULL is allowed) is that rank, or, if the failure was agreed on before, the rank where it
// happened; -1: no rank failed. For errors that only some ranks see, at the start and at agreed points. Collective. If
// the ranks cannot communicate, it returns this rank's failure or LS_COMM, and *failed_rank is this rank or -1.
ls_status ls_comm_agree(ls_comm *comm, ls_status mine, int *failed_rank);
// Returns 1 if the last ls_comm_agree returned this failure: all ranks have it already.
int ls_comm_agreed(const ls_comm *comm, ls_status failure);

// Returns 1 if a collective failed on this rank. Other ranks may wait in it or be elsewhere: call ls_comm_abort only.
int ls_comm_broken(const ls_comm *comm);
// Ends and frees comm, without ending the job. Collective. For the communicator of ls_comm_start it also ends MPI.
void ls_comm_finish(ls_comm *comm);
// Call it before the message of a failure that ends all ranks by ls_comm_abort: this rank's watchdog then writes
// nothing, and the monitors' watchdogs wait for the end of the job. If this rank's watchdog has already written its
// message, this call waits for the end of the job (at most 15 s).
void ls_comm_claim_end(ls_comm *comm);
// Ends all ranks of the job with this exit code, under any launcher. Never returns. Print the message before the call.
_Noreturn void ls_comm_abort(ls_comm *comm, int exit_code);

#endif
