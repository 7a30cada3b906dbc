// comm_self.c - the backend of a single rank, for which collectives are trivial.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/memory.h"
#include "dist/comm_backend.h"

static ls_status self_allreduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduce op) {
    (void)comm, (void)data, (void)count, (void)dtype, (void)op;
    return LS_SUCCESS;
}

static ls_status self_broadcast(ls_comm *comm, void *data, int64_t bytes, int root) {
    (void)comm, (void)data, (void)bytes, (void)root;
    return LS_SUCCESS;
}

static ls_status self_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes_each) {
    (void)comm;
    if (mine != all) memcpy(all, mine, (size_t)bytes_each);
    return LS_SUCCESS;
}

static ls_status self_barrier(ls_comm *comm, int napping) {
    (void)comm, (void)napping;
    return LS_SUCCESS;
}

static ls_status self_split(ls_comm *comm, int colour, ls_comm **out) {
    (void)comm;
    return colour < 0 ? LS_SUCCESS : ls_comm_self_new(out);
}

static void self_finish(ls_comm *comm) {
    free(comm);
}

static __attribute__((noreturn)) void self_abort(ls_comm *comm, int exit_code) {
    (void)comm;
    fflush(NULL);
    _exit(exit_code);
}

static const ls_comm_backend self_backend = {
    .name = "self",
    .allreduce = self_allreduce,
    .broadcast = self_broadcast,
    .allgather = self_allgather,
    .barrier = self_barrier,
    .split = self_split,
    .finish = self_finish,
    .abort = self_abort,
};

ls_status ls_comm_self_new(ls_comm **out) {
    ls_comm *comm = ls_new(1, sizeof *comm, "communicator");
    ls_comm_init(comm, &self_backend);
    *out = comm;
    return LS_SUCCESS;
}
