// comm_mpi_channel.c - sums in the background: several are in flight, and threads advance them by testing them.
//
// A sum goes through stages; each stage is a non-blocking collective. By hosts these are REDUCE inside each host to its
// lowest rank, ACROSS those lowest ranks, and BACK to the other ranks of each host. Otherwise the only stage is ACROSS
// all ranks. A rank skips a stage for which it has no communicator. All ranks of a communicator must start its
// collectives in the same order, but they see the end of a stage at different times. So every stage has a communicator
// of its own, and sums enter a stage in the order in which they were started.
#include <limits.h>
#include "base/memory.h"
#include "config/config.h"
#include "dist/comm_mpi.h"

enum { REDUCE, ACROSS, BACK, STAGES };

typedef struct {
    void *data;
    int count, stage; // stage: the present one; -1: before the first; STAGES: done, or never started
    int64_t number;   // number of sums started before this one
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request request;
} sum;

struct ls_channel {
    const ls_comm_mpi *mpi;
    // By stage; MPI_COMM_NULL: skipped. Duplicates, so that these sums never mix with the main thread's collectives.
    MPI_Comm comm[STAGES];
    int slots, is_leader;
    int64_t started, entered[STAGES]; // how many sums were started, and how many have entered each stage
    int *slot_of;                     // by number % slots: the slot of a sum that has not entered all stages
    sum sum[];
};

int ls_mpi_by_hosts(const ls_comm_mpi *mpi) {
    if (mpi->base.hierarchy == LS_HIERARCHY_AUTO) return mpi->hierarchy_wins;
    return mpi->base.hierarchy == LS_HIERARCHY_ON;
}

// Duplicates the communicator if it has several ranks; with one rank there is nothing to sum, and *out stays null.
static ls_status duplicate(MPI_Comm comm, MPI_Comm *out) {
    if (comm == MPI_COMM_NULL) return LS_SUCCESS;
    int ranks;
    TRY_MPI(MPI_Comm_size(comm, &ranks));
    if (ranks > 1) TRY_MPI(MPI_Comm_dup(comm, out));
    return LS_SUCCESS;
}

static ls_status open_stages(ls_channel *channel) {
    const ls_comm_mpi *mpi = channel->mpi;
    if (!ls_mpi_by_hosts(mpi)) return duplicate(mpi->comm, &channel->comm[ACROSS]);
    LS_TRY(duplicate(mpi->host, &channel->comm[REDUCE]));
    LS_TRY(duplicate(mpi->leaders, &channel->comm[ACROSS]));
    return duplicate(mpi->host, &channel->comm[BACK]);
}

ls_status ls_mpi_channel_new(ls_comm *comm, int slots, ls_channel **out) {
    size_t bytes = sizeof(ls_channel) + (size_t)slots * sizeof(sum);
    ls_channel *channel = ls_new(1, bytes, "communication channel of %d slots", slots);
    channel->slot_of = ls_new(slots + 1, sizeof *channel->slot_of, "communication channel of %d slots", slots);
    channel->mpi = (ls_comm_mpi *)comm;
    channel->slots = slots;
    channel->is_leader = comm->info.local_rank == 0;
    for (int stage = 0; stage < STAGES; stage++) channel->comm[stage] = MPI_COMM_NULL;
    for (int i = 0; i < slots; i++) channel->sum[i] = (sum){ .stage = STAGES, .request = MPI_REQUEST_NULL };
    ls_status status = open_stages(channel);
    if (ls_failed(status)) {
        comm->broken = 1;
        ls_mpi_channel_free(channel);
        return status;
    }
    *out = channel;
    return LS_SUCCESS;
}

void ls_mpi_channel_free(ls_channel *channel) {
    if (!channel) return;
    int pending = 0;
    for (int i = 0; i < channel->slots; i++) pending |= channel->sum[i].stage != STAGES;
    // If a sum is in flight, the run is failing: freeing would wait for ranks that may be gone.
    for (int stage = 0; stage < STAGES && !pending; stage++) {
        if (channel->comm[stage] != MPI_COMM_NULL) MPI_Comm_free(&channel->comm[stage]);
    }
    free(channel->slot_of);
    free(channel);
}

static ls_status enter(ls_channel *channel, sum *s, int stage) {
    MPI_Comm comm = channel->comm[stage];
    s->stage = stage;
    channel->entered[stage]++;
    if (stage == ACROSS) {
        TRY_MPI(MPI_Iallreduce(MPI_IN_PLACE, s->data, s->count, s->type, s->op, comm, &s->request));
    } else if (stage == BACK) {
        TRY_MPI(MPI_Ibcast(s->data, s->count, s->type, 0, comm, &s->request));
    } else if (channel->is_leader) {
        TRY_MPI(MPI_Ireduce(MPI_IN_PLACE, s->data, s->count, s->type, s->op, 0, comm, &s->request));
    } else {
        TRY_MPI(MPI_Ireduce(s->data, NULL, s->count, s->type, s->op, 0, comm, &s->request));
    }
    return LS_SUCCESS;
}

// Advances a sum as far as it goes without waiting.
static ls_status advance(ls_channel *channel, sum *s) {
    while (s->stage < STAGES) {
        int done, next = s->stage + 1;
        TRY_MPI(MPI_Test(&s->request, &done, MPI_STATUS_IGNORE));
        if (!done) return LS_SUCCESS;
        while (next < STAGES && channel->comm[next] == MPI_COMM_NULL) next++;
        if (next == STAGES)
            s->stage = STAGES;
        else if (channel->entered[next] == s->number)
            LS_TRY(enter(channel, s, next));
        else
            return LS_SUCCESS; // earlier sums enter this stage first
    }
    return LS_SUCCESS;
}

ls_status ls_mpi_channel_start(ls_channel *channel, int slot, void *data, int64_t count, ls_dtype dtype) {
    MPI_Datatype type = ls_mpi_type(dtype);
    if (type == MPI_DATATYPE_NULL) return ls_fail(LS_INTERNAL, "all-reduce of %s", ls_dtype_name(dtype));
    if (count > INT_MAX) return ls_fail(LS_INTERNAL, "all-reduce of a bucket of %lld elements", (long long)count);
    sum *s = &channel->sum[slot];
    *s = (sum){ data, (int)count, -1, channel->started++, type, ls_mpi_op(channel->mpi, dtype, LS_REDUCE_SUM),
        MPI_REQUEST_NULL };
    channel->slot_of[s->number % channel->slots] = slot;
    return advance(channel, s);
}

ls_status ls_mpi_channel_test(ls_channel *channel, int slot, int *done) {
    sum *s = &channel->sum[slot];
    LS_TRY(advance(channel, s));
    // The sum may wait for an earlier one: in each stage, advance the sum whose turn it is.
    for (int stage = 0; stage < STAGES && s->stage != STAGES; stage++) {
        int64_t number = channel->entered[stage];
        if (channel->comm[stage] == MPI_COMM_NULL || number >= s->number) continue;
        LS_TRY(advance(channel, &channel->sum[channel->slot_of[number % channel->slots]]));
    }
    *done = s->stage == STAGES;
    return LS_SUCCESS;
}
