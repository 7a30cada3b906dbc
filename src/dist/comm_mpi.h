// comm_mpi.h - the declarations that the files of the mpi backend share. Private to comm_mpi*.c, the only files that
// call MPI (3.1, with thread level MULTIPLE).
#ifndef LS_DIST_COMM_MPI_H
#define LS_DIST_COMM_MPI_H

#include <mpi.h>
#include "dist/comm_backend.h"

typedef struct {
    ls_comm base;
    MPI_Comm comm;      // a duplicate of MPI_COMM_WORLD, or some of its ranks
    MPI_Comm host;      // the ranks of this host, in the order of ranks
    MPI_Comm leaders;   // the lowest ranks of all hosts; MPI_COMM_NULL on other ranks
    MPI_Op sum_bf16;    // sum of bf16 values, which MPI gets as MPI_UINT16_T
    ls_channel *pieces; // channel for large sums by hosts; NULL: not used yet
    int hierarchy_wins; // whether LS_HIERARCHY_AUTO means sums by hosts here
    int is_world;       // the communicator has all ranks of the job: its end is also MPI's
} ls_comm_mpi;

const char *ls_mpi_explain(int rc);
#define TRY_MPI(call) LS_TRY_LIB(LS_COMM, ls_mpi_explain, call)

// ---- comm_mpi_sum.c ----

MPI_Datatype ls_mpi_type(ls_dtype dtype);                               // MPI_DATATYPE_NULL: MPI has no such type
MPI_Op ls_mpi_op(const ls_comm_mpi *mpi, ls_dtype dtype, ls_reduce op); // MPI_OP_NULL: not for this type
LS_CHECKED ls_status ls_mpi_sum_new(MPI_Op *out);                       // makes the sum of bf16; free it by MPI_Op_free

// ---- comm_mpi_channel.c ----

int ls_mpi_by_hosts(const ls_comm_mpi *mpi); // whether large sums and a channel's sums are made by hosts
LS_CHECKED ls_status ls_mpi_channel_new(ls_comm *comm, int slots, ls_channel **out);
void ls_mpi_channel_free(ls_channel *channel);
LS_CHECKED ls_status ls_mpi_channel_start(ls_channel *channel, int slot, void *data, int64_t count, ls_dtype dtype);
LS_CHECKED ls_status ls_mpi_channel_test(ls_channel *channel, int slot, int *done);

#endif
