// comm_mpi.h - what the files of the mpi backend share. Private to comm_mpi*.c, which alone know MPI (3.1, threads at
// level MULTIPLE).
#ifndef LS_DIST_COMM_MPI_H
#define LS_DIST_COMM_MPI_H

#include <mpi.h>
#include "dist/comm_backend.h"

typedef struct {
    ls_comm base;
    MPI_Comm comm;    // a duplicate of MPI_COMM_WORLD, or its first ranks
    MPI_Comm host;    // the ranks of this host, by rank
    MPI_Comm leaders; // the lowest rank of each host; MPI_COMM_NULL on the others
    int is_world;     // its end is MPI's
} ls_comm_mpi;

const char *ls_mpi_explain(int rc);
#define TRY_MPI(call) LS_TRY_LIB(LS_COMM, ls_mpi_explain, call)

MPI_Datatype ls_mpi_type(ls_dtype dtype); // MPI_DATATYPE_NULL: not summed

ls_status ls_mpi_channel_new(ls_comm *comm, int slots, ls_channel **out);
void ls_mpi_channel_free(ls_channel *channel);
ls_status ls_mpi_channel_start(ls_channel *channel, int slot, void *data, int64_t count, ls_dtype dtype);
ls_status ls_mpi_channel_test(ls_channel *channel, int slot, int *done);

#endif
