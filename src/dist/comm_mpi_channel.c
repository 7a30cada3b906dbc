// comm_mpi_channel.c - sums in the background: several all-reduces in flight, progressed by whoever tests them.
#include <limits.h>
#include <stdlib.h>
#include "dist/comm_mpi.h"

struct ls_channel {
    MPI_Comm comm; // its own: sums in flight never meet the main thread's collectives
    int slots;
    MPI_Request request[];
};

ls_status ls_mpi_channel_new(ls_comm *comm, int slots, ls_channel **out) {
    ls_channel *channel = calloc(1, sizeof *channel + (size_t)slots * sizeof channel->request[0]);
    if (!channel) return ls_fail(LS_DEVICE, "communication channel of %d slots: no memory", slots);
    channel->slots = slots;
    for (int i = 0; i < slots; i++) channel->request[i] = MPI_REQUEST_NULL;
    int rc = MPI_Comm_dup(((ls_comm_mpi *)comm)->comm, &channel->comm);
    if (rc != MPI_SUCCESS) {
        free(channel);
        return ls_fail(LS_COMM, "MPI_Comm_dup: %s (%d)", ls_mpi_explain(rc), rc);
    }
    *out = channel;
    return LS_SUCCESS;
}

void ls_mpi_channel_free(ls_channel *channel) {
    int pending = 0;
    for (int i = 0; i < channel->slots; i++) pending |= channel->request[i] != MPI_REQUEST_NULL;
    // With a sum in flight the run is failing: freeing would wait for peers that may be gone.
    if (!pending) MPI_Comm_free(&channel->comm);
    free(channel);
}

ls_status ls_mpi_channel_start(ls_channel *channel, int slot, void *data, int64_t count, ls_dtype dtype) {
    if (count > INT_MAX) return ls_fail(LS_INTERNAL, "all-reduce of a bucket of %lld elements", (long long)count);
    TRY_MPI(MPI_Iallreduce(
        MPI_IN_PLACE, data, (int)count, ls_mpi_type(dtype), MPI_SUM, channel->comm, &channel->request[slot]));
    return LS_SUCCESS;
}

ls_status ls_mpi_channel_test(ls_channel *channel, int slot, int *done) {
    TRY_MPI(MPI_Test(&channel->request[slot], done, MPI_STATUS_IGNORE));
    return LS_SUCCESS;
}
