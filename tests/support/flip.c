// flip.c - linked into train_flipped: the program, in which one rank's state is made wrong after an update, as a faulty
// memory would. The linker's --wrap (cmake/lockstep.cmake) sends calls of ls_update_complete through here.
//
// Environment
//   LOCKSTEP_TEST_FLIP   "RANK UPDATE TENSOR ELEMENT BIT": after that update, from 1, in a tensor as of a snapshot
//                        ("c1.weight", "n1.running_mean", "c1.weight.momentum"); of a device in host memory also
//                        "RANK UPDATE applied", "RANK UPDATE loss_scale", the update's own counters
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "run/snapshot.h"
#include "train/update_internal.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // __wrap_NAME is called as NAME

typedef struct {
    int rank, element, bit;
    long long update;
    char tensor[LS_SNAPSHOT_NAME_BYTES];
} fault;

static int read_fault(fault *f) {
    const char *text = getenv("LOCKSTEP_TEST_FLIP"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    *f = (fault){ 0 };
    if (!text || !rank) return 0;
    if (sscanf(text, "%d %lld %159s %d %d", &f->rank, &f->update, f->tensor, &f->element, &f->bit) < 3) abort();
    return f->rank == atoi(rank);
}

static void flip_element(const ls_update *u, const fault *f, const ls_snapshot_tensor *tensor) {
    const ls_param_store *a = u->store;
    const ls_param_shape *shape = &a->graph->params[tensor->param].shape;
    int64_t first = a->trained_elements * (tensor->state - 1) + a->offset[tensor->param];
    ls_buffer buffer = tensor->state ? ls_param_store_range(a->state, first, a->elements[tensor->param], sizeof(float))
                                     : ls_param_store_weight(a, tensor->param);
    uint32_t bits;
    if (f->element >= tensor->elements) abort();
    u->device->api->param_export(u->device, shape, buffer, tensor->values);
    memcpy(&bits, &tensor->values[f->element], sizeof bits);
    bits ^= (uint32_t)1 << f->bit;
    memcpy(&tensor->values[f->element], &bits, sizeof bits);
    u->device->api->param_import(u->device, shape, tensor->values, buffer);
}

static void do_harm(const ls_update *u, const fault *f) {
    ls_snapshot *list = NULL;
    if (strcmp(f->tensor, "applied") == 0 || strcmp(f->tensor, "loss_scale") == 0) {
        ls_train_state *state = ls_buffer_host(u->state);
        if (f->tensor[0] == 'a')
            state->applied++;
        else
            state->loss_scale *= 2;
        return;
    }
    if (ls_failed(ls_snapshot_new(u->store->graph, u->store->options.rules, &list))) abort();
    int found = 0;
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->tensors[i].name, f->tensor) != 0) continue;
        flip_element(u, f, &list->tensors[i]);
        found = 1;
    }
    if (!found) abort();
    ls_snapshot_free(list);
}

ls_status __real_ls_update_complete(ls_update *u, ls_train_state *state, ls_micro_result *result);
ls_status __wrap_ls_update_complete(ls_update *u, ls_train_state *state, ls_micro_result *result) {
    fault f;
    ls_status status = __real_ls_update_complete(u, state, result);
    if (read_fault(&f) && !ls_failed(status) && u->completed == f.update) do_harm(u, &f);
    return status;
}
