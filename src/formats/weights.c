// weights.c - finds the tensors of a network in a weights file, by name and shape.
#include "formats/weights.h"

#include <math.h>
#include <sys/stat.h>
#include "base/atomic_file.h"
#include "base/memory.h"
#include "config/file_type.h"

ls_status ls_weights_locate(const char *named, char *path, size_t bytes) {
    struct stat info;
    const int is_folder = stat(named, &info) == 0 && S_ISDIR(info.st_mode);
    LS_TRY(ls_expect_file_type(named, 1u << LS_FILE_TYPE_WEIGHTS | 1u << LS_FILE_TYPE_FOLDER, LS_WEIGHTS_EXPECTED));
    LS_TRY(ls_path_join(path, bytes, "", named));
    if (!is_folder) return LS_SUCCESS;
    LS_TRY(ls_path_join(path, bytes, named, "weights.safetensors"));
    if (ls_path_exists(path)) return LS_SUCCESS;
    LS_TRY(ls_path_join(path, bytes, named, "run.json"));
    return ls_fail(ls_path_exists(path) ? LS_STORAGE : LS_USAGE,
        "%s: a folder without weights.safetensors; name a weights file, the folder of a run that is complete, or a "
        "checkpoint's (as RUN/checkpoints/update-000000000481)",
        named);
}

void ls_weights_describe(const ls_param *param, ls_safetensors_tensor *tensor) {
    *tensor = (ls_safetensors_tensor){ .name = param->name, .rank = param->rank };
    for (int d = 0; d < param->rank; d++) tensor->dim[d] = param->file_dim[d];
}

static ls_status find_param(const ls_safetensors *file, const ls_param *param, const float **values) {
    ls_safetensors_tensor wanted;
    const void *data;
    ls_weights_describe(param, &wanted);
    LS_TRY(ls_safetensors_find(file, &wanted, &data));
    *values = data;
    return LS_SUCCESS;
}

ls_status ls_weights_find(const ls_safetensors *file, const ls_graph *graph, const float **values) {
    for (int p = 0; p < graph->param_count; p++) LS_TRY(find_param(file, &graph->params[p], &values[p]));
    return LS_SUCCESS;
}

ls_status ls_weights_check_finite(const ls_safetensors *file, const ls_graph *graph) {
    for (int p = 0; p < graph->param_count; p++) {
        const float *values = NULL;
        LS_TRY(find_param(file, &graph->params[p], &values));
        for (int64_t i = 0; i < ls_param_count(&graph->params[p].shape); i++)
            if (!isfinite(values[i]))
                return ls_fail(LS_STORAGE, "%s: tensor '%s' has weights that are not finite: did its run diverge?",
                    ls_safetensors_path(file), graph->params[p].name);
    }
    return LS_SUCCESS;
}

ls_status ls_weights_load(const ls_safetensors *file, ls_session *session) {
    const ls_graph *graph = session->store->graph;
    const float **values = ls_new(graph->param_count + 1, sizeof *values, "list of weights");
    ls_status status = ls_weights_find(file, graph, values);
    if (!ls_failed(status)) ls_session_set_weights(session, values);
    free(values);
    return status;
}
