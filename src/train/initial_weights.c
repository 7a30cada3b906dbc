// initial_weights.c - the weights that a run starts from. Each rank makes them by itself: from the seed (model/init.c),
// or, for whitening filters, from the training pictures (model/whiten.h). Ranks compare a hash of the result
// (startup_check.c). Weights of a file, which rank 0 reads and sends, may replace them (formats/weights_map.h).
#include <inttypes.h>
#include <string.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/run_parts.h"
#include "deploy/calibrate.h"
#include "deploy/fake_network.h"
#include "formats/weights.h"
#include "formats/weights_map.h"
#include "model/whiten.h"
#include "train/run_weights.h"

// --- made ---------------------------------------------------------------------------------------------

static ls_status add_pictures(const ls_run_plan *plan, ls_whiten *whiten, int64_t samples) {
    const ls_dataset_info *info = plan->info.train_data;
    uint8_t *pixels;
    int32_t label;
    LS_TRY(ls_try_new(&pixels, ls_chw_count(info->shape), sizeof *pixels, "a picture for whitening"));
    ls_status status = LS_SUCCESS;
    for (int64_t i = 0; i < samples && i < info->count && !ls_failed(status); i++) {
        status = ls_dataset_read_whole(plan->train_data, i, pixels, &label);
        if (!ls_failed(status)) ls_whiten_add(whiten, pixels);
    }
    free(pixels);
    return status;
}

static ls_status whiten(ls_run_session *session, int p) {
    const ls_run_plan *plan = session->plan;
    const ls_dataset_info *info = plan->info.train_data;
    const ls_param *param = &plan->graph->params[p];
    const ls_layer_conv2d *conv = &plan->graph->layers[param->layer].attr.conv2d;
    ls_whiten *whiten = NULL;
    float *values = ls_new(ls_param_count(&param->shape), sizeof *values, "%s", param->name);
    ls_status status = ls_whiten_new(&param->shape, info->shape, &whiten);
    LS_THEN(status, add_pictures(plan, whiten, conv->whiten_samples));
    LS_THEN(status, ls_whiten_filters(whiten, info->mean, info->std, conv->whiten_eps, values));
    if (!ls_failed(status)) ls_param_store_import(session->compute.store, p, values);
    ls_whiten_free(whiten);
    free(values);
    return status;
}

ls_status ls_run_make_weights(ls_run_session *session) {
    const ls_run_plan *plan = session->plan;
    LS_TRY(ls_param_store_init(session->compute.store, (uint64_t)plan->cfg->run_seed));
    // an evaluation loads all weights from a file
    for (int p = 0; p < plan->graph->param_count && !plan->evaluates; p++)
        if (plan->graph->params[p].init == LS_INIT_WHITEN) LS_TRY(whiten(session, p));
    return LS_SUCCESS;
}

// --- from a file --------------------------------------------------------------------------------------

// The weights of a file, which rank 0 sends to the other ranks.
typedef struct {
    uint8_t *taken; // for each parameter: 1 if it comes from the file
    float *values;  // values of all parameters, in order, without gaps
    int64_t count;
} first_weights;

static ls_status check_complete(const ls_run_plan *plan, const char *path) {
    if (!plan->evaluates || plan->init_map->taken == plan->graph->param_count) return LS_SUCCESS;
    int p = 0;
    while (plan->init_map->source[p]) p++;
    return ls_fail(LS_USAGE,
        "%s: '%s' is new by model.init_rules, and nothing is trained here: name weights that have it", path,
        plan->graph->params[p].name);
}

static ls_status take_values(
    const ls_run_plan *plan, const ls_safetensors *file, const ls_weights_fit *fit, first_weights *first) {
    float *values = first->values;
    for (int p = 0; p < plan->graph->param_count; p++) {
        first->taken[p] = plan->init_map->source[p] != NULL;
        if (first->taken[p]) {
            ls_weights_map_values(plan->init_map, file, p, values);
            LS_TRY(ls_weights_fit_arrange(fit, plan->graph, p, values));
        }
        values += ls_param_count(&plan->graph->params[p].shape);
    }
    return LS_SUCCESS;
}

// Reports the parameters that start anew because the file has another number of classes.
static void report_count(const ls_run_plan *plan, const ls_weights_fit *fit, const char *path) {
    char names[LS_WEIGHTS_NOTE_BYTES] = "";
    ls_text_room room = { names, sizeof names };
    for (int p = 0; p < plan->graph->param_count; p++)
        if (fit->rows[p] && !plan->init_map->source[p])
            ls_text_put(&room, "%s%s", names[0] ? ", " : "", plan->graph->params[p].name);
    ls_alert("%s has %" PRId64 " classes, here are %d: %s start anew", path, plan->init_map->classes,
        plan->graph->classes, names);
}

// Reports how the file's weights fit the network and the data. A difference in classes is not reported if
// model.init_rules let all tensors that have a row for each class start anew.
static void report_fit(const ls_run_plan *plan, const ls_weights_fit *fit, const char *path) {
    int matters = plan->init_map->started_anew, rows = 0;
    for (int p = 0; p < plan->graph->param_count; p++) {
        rows += fit->rows[p];
        matters += fit->rows[p] && plan->init_map->source[p];
    }
    if (fit->note[0]) ls_alert("%s", fit->note);
    if (plan->init_map->classes)
        report_count(plan, fit, path);
    else if (fit->class_note[0] && (matters || rows == 0))
        ls_alert("%s", fit->class_note);
}

static ls_status map_tensors(
    ls_run_plan *plan, const char *path, const ls_safetensors *file, const ls_weights_fit *fit, first_weights *first) {
    LS_TRY(ls_weights_map_new(path, file, plan->graph, plan->cfg->model_init_rules, fit, &plan->init_map));
    LS_TRY(check_complete(plan, path));
    LS_TRY(take_values(plan, file, fit, first));
    report_fit(plan, fit, path);
    return LS_SUCCESS;
}

// --- from a file in floats, for a quantised network (train.quantise) ------------------------------------

// Whether the quantised network of this graph is the run's. A graph of floats is quantised first.
static ls_status compare_network(const ls_run_plan *plan, const ls_graph *graph, int *same) {
    ls_graph *quantised = NULL;
    if (!ls_graph_is_quantised(graph)) LS_TRY(ls_fake_network_new(graph, &quantised));
    *same = (quantised ? quantised : graph)->hash == plan->graph->hash;
    ls_graph_free(quantised);
    return LS_SUCCESS;
}

static int same_normalisation(const ls_weights_info *info, const ls_dataset_info *data) {
    const size_t bytes = (size_t)data->shape.c * sizeof *data->mean;
    return memcmp(info->mean, data->mean, bytes) == 0 && memcmp(info->std, data->std, bytes) == 0;
}

// The integers are made from a whole network and stay as they are made, so the file must have the network of
// model.file and the classes here, and integers also the normalisation here.
static ls_status check_quantised(
    const ls_run_plan *plan, const char *path, const ls_weights_info *info, const ls_weights_fit *fit) {
    const ls_chw *here = &plan->graph->input, *there = &info->input;
    int same;
    if (!info->graph)
        return ls_fail(LS_USAGE,
            "%s: train.quantise = int8 needs weights that name their network, as train writes them: fine-tune these "
            "in floats first",
            path);
    if (memcmp(here, there, sizeof *here) != 0)
        return ls_fail(LS_USAGE,
            "%s: its pictures are %dx%dx%d, those of this run %dx%dx%d: train.quantise = int8 needs the same "
            "data.image_size and data.channels",
            path, there->c, there->h, there->w, here->c, here->h, here->w);
    if (fit->order || fit->starts_anew)
        return ls_fail(LS_USAGE,
            "%s: train.quantise = int8 needs the classes of the data, in their order: fine-tune in floats first", path);
    if (ls_graph_is_quantised(info->graph) && !same_normalisation(info, plan->info.train_data))
        return ls_fail(LS_USAGE,
            "%s: its integers are made for another data.mean or data.std: use those values, or begin with weights in "
            "floats",
            path);
    LS_TRY(compare_network(plan, info->graph, &same));
    if (same) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: its network is not %s: train.quantise = int8 needs the same network in model.file",
        path, plan->graph->path);
}

static ls_status calibrate(
    const ls_run_plan *plan, const ls_weights_info *info, const ls_safetensors *file, first_weights *first) {
    ls_network *network;
    LS_TRY(ls_network_new(info, file, 1, &network));
    const ls_status status = ls_calibrate_network(network, plan->train_data, LS_CALIBRATE_PICTURES);
    if (!ls_failed(status)) ls_fake_network_values(network, first->values);
    ls_network_free(network);
    memset(first->taken, 1, (size_t)plan->graph->param_count);
    return status;
}

static ls_status quantise_floats(ls_run_plan *plan, const ls_safetensors *file, ls_weights_info *info,
    const ls_weights_fit *fit, first_weights *first) {
    const ls_dataset_info *data = plan->info.train_data;
    memcpy(info->mean, data->mean, sizeof info->mean);
    memcpy(info->std, data->std, sizeof info->std);
    LS_TRY(calibrate(plan, info, file, first));
    if (fit->note[0]) ls_alert("%s", fit->note);
    if (fit->class_note[0]) ls_alert("%s", fit->class_note);
    return LS_SUCCESS;
}

// --- from a file ----------------------------------------------------------------------------------------

static ls_status take_tensors(ls_run_plan *plan, const char *path, const ls_safetensors *file, first_weights *first) {
    ls_weights_fit *fit;
    ls_weights_info *info = NULL;
    LS_TRY(ls_run_fit_weights(plan, path, file, &fit));
    ls_status status = ls_weights_info_read(path, file, &info);
    const int floats = !ls_failed(status) && !(info->graph && ls_graph_is_quantised(info->graph));
    if (plan->cfg->train_quantise && (floats || !plan->evaluates))
        LS_THEN(status, check_quantised(plan, path, info, fit));
    LS_THEN(status, floats && plan->cfg->train_quantise ? quantise_floats(plan, file, info, fit, first)
                                                        : map_tensors(plan, path, file, fit, first));
    ls_weights_info_free(info);
    ls_weights_fit_free(fit);
    return status;
}

static ls_status take_from(ls_run_plan *plan, const char *path, const ls_safetensors *file, first_weights *first) {
    ls_init_info *info = &plan->info.init;
    const int all = plan->graph->param_count;
    LS_TRY(take_tensors(plan, path, file, first));
    *info = (ls_init_info){
        .hash = ls_safetensors_digest_of(file).hash, .taken = plan->init_map ? plan->init_map->taken : all, .all = all
    };
    ls_text_cut(info->path, sizeof info->path, "%s", path);
    ls_text_cut(info->which, sizeof info->which, "all, calibrated for int8");
    if (plan->init_map) ls_weights_map_text(plan->init_map, info->which, sizeof info->which);
    // A training run records the file that it starts from.
    return plan->parts ? ls_run_plan_set_parts(plan, ls_run_parts_new(&plan->info, NULL, NULL, NULL)) : LS_SUCCESS;
}

static ls_status read_file(ls_run_plan *plan, first_weights *first) {
    char named[2 * LS_TEXT_BYTES], path[2 * LS_TEXT_BYTES];
    ls_safetensors *file;
    LS_TRY(ls_config_path(plan->cfg, LS_OPTION_model_init, named, sizeof named));
    LS_TRY(ls_weights_locate(named, path, sizeof path));
    LS_TRY(ls_safetensors_read(path, &file));
    ls_status status = take_from(plan, path, file, first);
    ls_safetensors_free(file);
    return status;
}

static ls_status allocate_first(const ls_graph *graph, first_weights *first) {
    for (int p = 0; p < graph->param_count; p++) first->count += ls_param_count(&graph->params[p].shape);
    LS_TRY(ls_try_new(&first->taken, graph->param_count + 1, sizeof *first->taken, "weights to start from"));
    return ls_try_new(&first->values, first->count + 1, sizeof *first->values, "weights to start from");
}

static ls_status share_weights(ls_run_session *session, const first_weights *first) {
    const ls_run_plan *plan = session->plan;
    LS_TRY(ls_comm_broadcast(plan->comm, first->taken, plan->graph->param_count, 0));
    LS_TRY(ls_comm_broadcast(plan->comm, first->values, first->count * (int64_t)sizeof *first->values, 0));
    const float *values = first->values;
    for (int p = 0; p < plan->graph->param_count; p++) {
        if (first->taken[p]) ls_param_store_import(session->compute.store, p, values);
        values += ls_param_count(&plan->graph->params[p].shape);
    }
    ls_session_weights_changed(&session->compute);
    return session->compute.device->api->queue_sync(session->compute.queue);
}

ls_status ls_run_init_weights(ls_run_plan *plan, ls_run_session *session) {
    if (!plan->cfg->model_init[0]) return LS_SUCCESS;
    first_weights first = { .taken = NULL };
    ls_comm_phase(plan->comm, "start-up: weights", -1);
    ls_status status = allocate_first(plan->graph, &first);
    if (plan->info.comm->rank == 0) LS_THEN(status, read_file(plan, &first));
    const ls_status met = ls_comm_barrier_napping(plan->comm); // rank 0 may calibrate for minutes (train.quantise)
    status = ls_failed(met) ? met : ls_comm_agree(plan->comm, status, NULL);
    LS_THEN(status, share_weights(session, &first));
    free(first.taken);
    free(first.values);
    return status;
}
