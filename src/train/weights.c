// weights.c - the network's weights in a file, as a PyTorch state_dict: which they are, and a trainer's.
#include <stdlib.h>
#include "train/safetensors.h"
#include "train/trainer_internal.h"
#include "train/weight_notes.h"
#include "train/weights.h"

void ls_weight_describe(const ls_param *param, ls_safetensors_tensor *tensor) {
    *tensor = (ls_safetensors_tensor){ .name = param->name, .rank = param->rank };
    for (int d = 0; d < param->rank; d++) tensor->dim[d] = param->file_dim[d];
}

ls_status ls_weights_find(const ls_safetensors *file, const ls_graph *graph, const float **values) {
    for (int p = 0; p < graph->param_count; p++) {
        ls_safetensors_tensor wanted;
        const void *data;
        ls_weight_describe(&graph->params[p], &wanted);
        LS_TRY(ls_safetensors_find(file, &wanted, &data));
        values[p] = data;
    }
    return LS_SUCCESS;
}

ls_status ls_trainer_write_weights(ls_trainer *t, const char *path) {
    const ls_graph *g = t->graph;
    size_t total = 0;
    for (int p = 0; p < g->param_count; p++) total += (size_t)ls_param_count(&g->params[p].shape);
    ls_safetensors_tensor *tensors = calloc((size_t)g->param_count, sizeof *tensors);
    float *values = calloc(total, sizeof *values), *at = values;
    ls_status status;
    if (tensors && values) {
        for (int p = 0; p < g->param_count; p++) {
            const ls_param *param = &g->params[p];
            ls_weight_describe(param, &tensors[p]);
            tensors[p].data = at;
            t->device->api->param_export(t->device, &param->shape, ls_arenas_weight(t->arenas, p), at);
            at += ls_param_count(&param->shape);
        }
        ls_weight_notes *notes = NULL;
        status = ls_weight_notes_new(g, t->train_data, &notes);
        if (!ls_failed(status))
            status = ls_safetensors_write(path, tensors, g->param_count, notes->list, notes->count, NULL);
        ls_weight_notes_free(notes);
    } else {
        status = ls_fail(LS_DEVICE, "out of host memory for %zu weights", total);
    }
    free(tensors);
    free(values);
    return status;
}

ls_status ls_trainer_save_weights(ls_trainer *t, const char *path) {
    ls_status status = t->facts.comm->rank == 0 ? ls_trainer_write_weights(t, path) : LS_SUCCESS;
    LS_TRY(ls_comm_barrier_napping(t->comm)); // the disk may be slow
    return ls_comm_agree(t->comm, status, NULL);
}

// All or nothing: every tensor is found before the first is taken over.
static ls_status take_weights(ls_trainer *t, const ls_safetensors *file) {
    const ls_graph *g = t->graph;
    const float **values = calloc((size_t)g->param_count + 1, sizeof *values);
    if (!values) return ls_fail(LS_DEVICE, "out of host memory for the list of weights");
    ls_status status = ls_weights_find(file, g, values);
    for (int p = 0; p < g->param_count && !ls_failed(status); p++)
        t->device->api->param_import(t->device, &g->params[p].shape, values[p], ls_arenas_weight(t->arenas, p));
    free(values);
    if (!ls_failed(status)) ls_update_weights_changed(t->update);
    return status;
}

static ls_status read_weights(ls_trainer *t, const char *path) {
    ls_safetensors *file;
    LS_TRY(ls_safetensors_read(path, &file));
    ls_status status = take_weights(t, file);
    ls_safetensors_free(file);
    return status;
}

ls_status ls_trainer_load_weights(ls_trainer *t, const char *path) {
    int failed_rank;
    return ls_comm_agree(t->comm, read_weights(t, path), &failed_rank);
}
