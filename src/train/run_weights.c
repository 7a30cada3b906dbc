#include "train/run_weights.h"

#include "base/log.h"
#include "base/memory.h"
#include "formats/weights.h"
#include "formats/weights_metadata.h"

ls_status ls_run_write_weights(const ls_run_session *session, const char *path) {
    const ls_run_plan *plan = session->plan;
    const ls_graph *g = plan->graph;
    size_t total = 0;
    for (int p = 0; p < g->param_count; p++) total += (size_t)ls_param_count(&g->params[p].shape);
    ls_safetensors_tensor *tensors = ls_new(g->param_count, sizeof *tensors, "%s", path);
    float *values = NULL, *at;
    ls_weights_metadata *notes = NULL;
    ls_status status;
    LS_TRY_GOTO(ls_try_new(&values, total, sizeof *values, "%s", path));
    at = values;
    for (int p = 0; p < g->param_count; p++) {
        const ls_param *param = &g->params[p];
        ls_weights_describe(param, &tensors[p]);
        tensors[p].data = at;
        ls_param_store_export(session->compute.store, p, at);
        at += ls_param_count(&param->shape);
    }
    LS_TRY_GOTO(ls_weights_metadata_new(g, plan->train_data, plan->parts, &notes));
    status = ls_safetensors_write(path, tensors, g->param_count, notes->list, notes->count, NULL);
done:
    ls_weights_metadata_free(notes);
    free(tensors);
    free(values);
    return status;
}

ls_status ls_run_save_weights(ls_run_session *session, int64_t updates, const char *path) {
    const ls_run_plan *plan = session->plan;
    ls_run_session_swap_average(session, updates);
    ls_status status = plan->info.comm->rank == 0 ? ls_run_write_weights(session, path) : LS_SUCCESS;
    ls_run_session_swap_average(session, updates);
    LS_TRY(ls_comm_barrier_napping(plan->comm)); // waits without a timeout, because the disk may be slow
    return ls_comm_agree(plan->comm, status, NULL);
}

// Reorders the rows of the weights that belong to classes, to match the order of the data's classes.
static ls_status arrange_rows(ls_run_session *session, const ls_weights_fit *fit) {
    const ls_run_plan *plan = session->plan;
    ls_param_store *store = session->compute.store;
    for (int p = 0; fit->order && p < plan->graph->param_count; p++) {
        float *values;
        if (!fit->rows[p]) continue;
        values =
            ls_new(ls_param_count(&plan->graph->params[p].shape), sizeof *values, "%s", plan->graph->params[p].name);
        ls_param_store_export(store, p, values);
        ls_status status = ls_weights_fit_arrange(fit, plan->graph, p, values);
        if (!ls_failed(status)) ls_param_store_import(store, p, values);
        free(values);
        LS_TRY(status);
    }
    ls_session_weights_changed(&session->compute);
    return LS_SUCCESS;
}

ls_status ls_run_fit_weights(
    const ls_run_plan *plan, const char *path, const ls_safetensors *file, ls_weights_fit **out) {
    ls_weights_info *recorded = NULL, *here = NULL;
    ls_status status = ls_weights_info_read(path, file, &recorded);
    LS_THEN(status, ls_weights_info_of_data(plan->train_data, &here));
    LS_THEN(status, ls_weights_fit_new(&(ls_weights_fit_options){ .path = path,
                                           .file = recorded,
                                           .here = here,
                                           .graph = plan->graph,
                                           .cfg = plan->cfg,
                                           .use = plan->evaluates ? LS_WEIGHTS_EVALUATE : LS_WEIGHTS_START },
                        out));
    ls_weights_info_free(recorded);
    ls_weights_info_free(here);
    return status;
}

static ls_status take_weights(ls_run_session *session, const char *path, const ls_safetensors *file) {
    ls_weights_fit *fit;
    LS_TRY(ls_run_fit_weights(session->plan, path, file, &fit));
    ls_status status = ls_weights_load(file, &session->compute);
    LS_THEN(status, arrange_rows(session, fit));
    if (!ls_failed(status) && session->plan->info.comm->rank == 0) {
        ls_status finite = LS_SUCCESS;
        if (session->plan->evaluates) finite = ls_weights_check_finite(file, session->plan->graph);
        if (ls_failed(finite)) ls_alert("%s", finite.text);
        if (fit->note[0]) ls_alert("%s", fit->note);
        if (fit->class_note[0]) ls_alert("%s", fit->class_note);
    }
    ls_weights_fit_free(fit);
    return status;
}

static ls_status read_weights(ls_run_session *session, const char *path) {
    ls_safetensors *file;
    LS_TRY(ls_safetensors_read(path, &file));
    ls_status status = take_weights(session, path, file);
    ls_safetensors_free(file);
    return status;
}

ls_status ls_run_load_weights(ls_run_session *session, const char *path) {
    int failed_rank;
    return ls_comm_agree(session->plan->comm, read_weights(session, path), &failed_rank);
}
