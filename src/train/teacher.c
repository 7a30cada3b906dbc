#include "train/teacher.h"

#include <inttypes.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/weights.h"
#include "formats/weights_fit.h"

struct ls_teacher {
    ls_graph *graph;
    float *values; // values of all parameters, in order, without gaps; NULL: the session has them
};

static int64_t count_values(const ls_graph *graph) {
    int64_t count = 0;
    for (int p = 0; p < graph->param_count; p++) count += ls_param_count(&graph->params[p].shape);
    return count;
}

// --- rank 0 ------------------------------------------------------------------------------------------

static ls_status take_values(
    ls_teacher *teacher, const char *path, const ls_safetensors *file, const ls_weights_fit *fit) {
    const ls_graph *graph = teacher->graph;
    const float **found = ls_new(graph->param_count + 1, sizeof *found, "%s", path);
    ls_status status = ls_try_new(&teacher->values, count_values(graph) + 1, sizeof *teacher->values, "%s", path);
    LS_THEN(status, ls_weights_find(file, graph, found));
    float *values = teacher->values;
    for (int p = 0; p < graph->param_count && !ls_failed(status); p++) {
        const int64_t count = ls_param_count(&graph->params[p].shape);
        memcpy(values, found[p], (size_t)count * sizeof *values);
        status = ls_weights_fit_arrange(fit, graph, p, values);
        values += count;
    }
    free(found);
    return status;
}

// Compares the teacher with the data, and takes its weights. A difference that does no harm is reported.
static ls_status take_from(
    const ls_run_plan *plan, const char *path, const ls_safetensors *file, ls_weights_info *info, ls_teacher *teacher) {
    ls_weights_fit *fit = NULL;
    ls_weights_info *here;
    if (!info->graph)
        return ls_fail(LS_USAGE,
            "distill.weights: %s does not say its network ('lockstep.network' is missing from its __metadata__; "
            "weights "
            "of another program?); name the weights or the folder of a run of this program",
            path);
    teacher->graph = info->graph;
    info->graph = NULL;
    if (teacher->graph->classes != plan->graph->classes)
        return ls_fail(LS_DATA,
            "distill.weights: the network of %s has %d classes, and the data here have %d; name a teacher of the same "
            "classes",
            path, teacher->graph->classes, plan->graph->classes);
    if (info->several)
        return ls_fail(LS_DATA,
            "distill.weights: the teacher of %s gives several labels a picture, and its part of the loss is a softmax "
            "over classes; name another teacher",
            path);
    LS_TRY(ls_weights_info_of_data(plan->train_data, &here));
    ls_status status = ls_weights_fit_new(&(ls_weights_fit_options){ .path = path,
                                              .file = info,
                                              .here = here,
                                              .graph = teacher->graph,
                                              .cfg = plan->cfg,
                                              .use = LS_WEIGHTS_TEACH },
        &fit);
    LS_THEN(status, take_values(teacher, path, file, fit));
    if (!ls_failed(status) && fit->note[0]) ls_alert("%s", fit->note);
    if (!ls_failed(status) && fit->class_note[0]) ls_alert("%s", fit->class_note);
    ls_weights_fit_free(fit);
    ls_weights_info_free(here);
    return status;
}

static ls_status read_file(const ls_run_plan *plan, const char *path, ls_teacher_info *record, ls_teacher *teacher) {
    ls_safetensors *file;
    ls_weights_info *info = NULL;
    LS_TRY(ls_safetensors_read(path, &file));
    ls_status status = ls_weights_info_read(path, file, &info);
    LS_THEN(status, take_from(plan, path, file, info, teacher));
    record->hash = ls_safetensors_digest_of(file).hash;
    ls_text_cut(record->path, sizeof record->path, "%s", path);
    ls_weights_info_free(info);
    ls_safetensors_free(file);
    return status;
}

static ls_status read_teacher(ls_run_plan *plan, ls_teacher *teacher) {
    char named[2 * LS_TEXT_BYTES], path[2 * LS_TEXT_BYTES], where[LS_STATUS_TEXT_BYTES / 4];
    LS_TRY(ls_config_path(plan->cfg, LS_OPTION_distill_weights, named, sizeof named));
    ls_status status = ls_weights_locate(named, path, sizeof path);
    if (!ls_failed(status)) return read_file(plan, path, &plan->info.teacher, teacher);
    return ls_fail(
        status.code, "%s: %s", ls_config_where(plan->cfg, LS_OPTION_distill_weights, where, sizeof where), status.text);
}

// --- all ranks ---------------------------------------------------------------------------------------

// Gives the other ranks the network's text, from which they make the network.
static ls_status share_network(ls_run_plan *plan, ls_teacher *teacher) {
    const int reads = plan->info.comm->rank == 0;
    int64_t bytes = reads ? (int64_t)strlen(teacher->graph->text) + 1 : 0;
    char *text;
    LS_TRY(ls_comm_broadcast(plan->comm, &plan->info.teacher, sizeof plan->info.teacher, 0));
    LS_TRY(ls_comm_broadcast(plan->comm, &bytes, sizeof bytes, 0));
    text = ls_new(bytes, 1, "network of the teacher");
    if (reads) memcpy(text, teacher->graph->text, (size_t)bytes);
    ls_status status = ls_comm_broadcast(plan->comm, text, bytes, 0);
    if (!reads) LS_THEN(status, ls_graph_parse(plan->info.teacher.path, text, &teacher->graph));
    free(text);
    return status;
}

// Names the layers as the teacher's in tables and messages. The names of the weights stay.
static void rename_layers(ls_graph *graph) {
    for (int l = 0; l < graph->layer_count; l++) {
        char name[LS_NAME_BYTES] = "";
        ls_text_cut(name, sizeof name, "teacher.%s", graph->layers[l].name);
        memcpy(graph->layers[l].name, name, sizeof name);
    }
}

static ls_status place(ls_run_plan *plan, ls_run_session *session, ls_status status) {
    ls_teacher *teacher = session->teacher;
    const int allocates = plan->info.comm->rank != 0 && !ls_failed(status);
    const int64_t count = ls_failed(status) ? 0 : count_values(teacher->graph);
    if (allocates) status = ls_try_new(&teacher->values, count + 1, sizeof *teacher->values, "weights of the teacher");
    if (!ls_failed(status)) rename_layers(teacher->graph);
    LS_THEN(status, ls_session_place_teacher(&session->compute, teacher->graph));
    LS_TRY(ls_comm_agree(plan->comm, status, NULL));
    for (int l = 0; l < teacher->graph->layer_count; l++)
        plan->info.flops_per_sample += ls_layer_cost(teacher->graph, l).forward;
    return ls_comm_broadcast(plan->comm, teacher->values, count * (int64_t)sizeof *teacher->values, 0);
}

ls_status ls_teacher_open(ls_run_plan *plan, ls_run_session *session) {
    if (!plan->cfg->distill_weights[0] || plan->evaluates) return LS_SUCCESS;
    ls_comm_phase(plan->comm, "start-up: teacher", -1);
    session->teacher = ls_new(1, sizeof *session->teacher, "teacher");
    const int reads = plan->info.comm->rank == 0;
    LS_TRY(ls_comm_agree(plan->comm, reads ? read_teacher(plan, session->teacher) : LS_SUCCESS, NULL));
    return place(plan, session, share_network(plan, session->teacher));
}

void ls_teacher_load(ls_run_session *session) {
    ls_teacher *teacher = session->teacher;
    if (!teacher) return;
    const float *values = teacher->values;
    for (int p = 0; p < teacher->graph->param_count; p++) {
        ls_param_store_import(session->compute.teacher, p, values);
        values += ls_param_count(&teacher->graph->params[p].shape);
    }
    free(teacher->values);
    teacher->values = NULL;
}

void ls_teacher_free(ls_teacher *teacher) {
    if (!teacher) return;
    ls_graph_free(teacher->graph);
    free(teacher->values);
    free(teacher);
}
