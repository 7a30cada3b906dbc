// trainer_state.c - a trainer's state outside of its device: snapshots taken and restored, weights saved and loaded.
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "files/snapshot.h"
#include "train/trainer_internal.h"
#include "files/weights_metadata.h"
#include "files/weights.h"

// --- snapshots --------------------------------------------------------------------------------------

ls_status ls_trainer_snapshot_new(const ls_trainer *t, ls_snapshot **out) {
    return ls_snapshot_new(t->plan.graph, t->plan.rules, out);
}

int ls_trainer_shows_average(const ls_trainer *t, int64_t update) {
    return t->plan.rules && t->plan.rules->average == LS_AVERAGE_EMA && update > t->plan.schedule.average_start;
}

void ls_trainer_swap_average(ls_trainer *t) {
    if (ls_trainer_shows_average(t, t->progress.done.updates)) ls_update_swap_average(t->session.update);
}

// Where a tensor lies after `update` updates. Before ema's average starts the weights stand for it.
static ls_buffer buffer_of(const ls_trainer *t, const ls_snapshot_tensor *tensor, int64_t update) {
    const ls_param_store *a = t->session.compute.store;
    const int in_average = tensor->state == LS_SNAPSHOT_OTHER
                               ? t->plan.rules->average == LS_AVERAGE_LOOKAHEAD
                               : ls_param_store_changes(a, tensor->param) && ls_trainer_shows_average(t, update);
    if (tensor->state <= 0)
        return ls_param_store_range(
            in_average ? a->average : a->weight, a->offset[tensor->param], a->elements[tensor->param], sizeof(float));
    int64_t first = a->trained_elements * (tensor->state - 1) + a->offset[tensor->param];
    return ls_param_store_range(a->state, first, a->elements[tensor->param], sizeof(float));
}

void ls_trainer_export_tensor(ls_trainer *t, const ls_snapshot_tensor *tensor) {
    ls_device *device = t->session.compute.device;
    const ls_param_shape *shape = &t->plan.graph->params[tensor->param].shape;
    device->api->param_export(device, shape, buffer_of(t, tensor, t->progress.done.updates), tensor->values);
}

static void restore_tensors(ls_trainer *t, const ls_snapshot *s) {
    ls_device *device = t->session.compute.device;
    for (int i = 0; i < s->count; i++) {
        const ls_snapshot_tensor *tensor = &s->tensors[i];
        const ls_param_shape *shape = &t->plan.graph->params[tensor->param].shape;
        device->api->param_import(device, shape, tensor->values, buffer_of(t, tensor, s->counters.update));
    }
    ls_session_weights_changed(&t->session.compute);
}

static ls_status sum_over_ranks(ls_trainer *t, const ls_micro_result *mine, ls_train_sums *sums) {
    double values[3] = { mine->loss_sum, (double)mine->correct, (double)mine->count };
    LS_TRY(ls_comm_allreduce(t->plan.comm, values, 3, LS_F64, LS_REDUCE_SUM));
    *sums = (ls_train_sums){ values[0], (int64_t)values[1], (int64_t)values[2] };
    return LS_SUCCESS;
}

static ls_micro_result own_share(const ls_trainer *t, const ls_train_sums *sums) {
    if (t->plan.info.comm->rank != 0) return (ls_micro_result){ 0 };
    return (ls_micro_result){ .loss_sum = sums->loss_sum, .correct = sums->correct, .count = sums->count };
}

static ls_status read_counters(ls_trainer *t, ls_train_counters *c) {
    ls_train_state state;
    LS_TRY(ls_update_read_state(t->session.update, &state));
    *c = (ls_train_counters){ .epoch = t->progress.done.epoch,
        .window = t->progress.done.window,
        .update = t->progress.done.updates,
        .samples = t->progress.done.samples,
        .applied = state.applied,
        .skipped = state.skipped,
        .finite_in_row = state.finite_in_row,
        .skipped_in_row = state.skipped_in_row,
        .loss_scale = (double)state.loss_scale,
        .last_epoch_loss = t->progress.last_epoch_loss,
        .evaluation = t->progress.evaluation,
        .seconds =
            t->plan.info.seconds_before + (t->progress.started_s > 0 ? ls_clock_seconds() - t->progress.started_s : 0),
        .steady = { t->progress.steady_before.seconds + t->progress.steady.seconds,
            t->progress.steady_before.samples + t->progress.steady.samples } };
    LS_TRY(sum_over_ranks(t, &t->progress.since_report, &c->since_report));
    return sum_over_ranks(t, &t->progress.of_epoch, &c->of_epoch);
}

static ls_status restore_counters(ls_trainer *t, const ls_train_counters *c) {
    ls_train_state state = { .applied = c->applied,
        .skipped = c->skipped,
        .loss_scale = (float)c->loss_scale,
        .finite_in_row = c->finite_in_row,
        .skipped_in_row = c->skipped_in_row,
        .bad_element = -1 };
    LS_TRY(ls_update_write_state(t->session.update, &state));
    t->progress.done =
        (ls_position){ .epoch = c->epoch, .window = c->window, .updates = c->update, .samples = c->samples };
    t->progress.next = t->progress.done;
    t->progress.skipped = c->skipped;
    t->progress.loss_scale = state.loss_scale;
    t->progress.since_report = own_share(t, &c->since_report);
    t->progress.of_epoch = own_share(t, &c->of_epoch);
    t->progress.last_epoch_loss = c->last_epoch_loss;
    t->progress.evaluation = c->evaluation;
    ls_trainer_heed_patience(t);
    t->plan.info.seconds_before = c->seconds;
    t->progress.steady_before = c->steady;
    return LS_SUCCESS;
}

void ls_trainer_heed_patience(ls_trainer *t) {
    const int64_t patience = t->plan.cfg->train_patience;
    if (patience == 0 || t->progress.evaluation.without_improvement < patience) return;
    if (t->progress.done.updates < t->plan.info.updates_planned) t->plan.info.stopped_early = 1;
    if (t->plan.info.stopped_early) t->plan.info.updates_planned = t->progress.done.updates;
}

ls_status ls_trainer_snapshot(ls_trainer *t, ls_snapshot *snapshot) {
    ls_train_counters counters;
    ls_comm_phase(t->plan.comm, "taking a snapshot", t->progress.done.updates);
    LS_TRY(read_counters(t, &counters));
    if (!snapshot) return LS_SUCCESS;
    snapshot->counters = counters;
    for (int i = 0; i < snapshot->count; i++) ls_trainer_export_tensor(t, &snapshot->tensors[i]);
    return t->session.compute.device->api->queue_sync(t->session.compute.queue); // an export that failed shows here
}

ls_status ls_trainer_restore(ls_trainer *t, ls_snapshot *snapshot) {
    ls_comm_phase(t->plan.comm, "taking over a snapshot", -1);
    LS_TRY(ls_comm_broadcast(t->plan.comm, &snapshot->counters, sizeof snapshot->counters, 0));
    LS_TRY(ls_comm_broadcast(t->plan.comm, snapshot->values, (int64_t)snapshot->bytes, 0));
    ls_input_pipeline_stop(t->session.input); // it begins again at the new place
    restore_tensors(t, snapshot);
    LS_TRY(restore_counters(t, &snapshot->counters));
    ls_trainer_replicas_equal(t);
    return t->session.compute.device->api->queue_sync(t->session.compute.queue);
}

// --- weights files ----------------------------------------------------------------------------------

ls_status ls_trainer_write_weights(ls_trainer *t, const char *path) {
    const ls_graph *g = t->plan.graph;
    size_t total = 0;
    for (int p = 0; p < g->param_count; p++) total += (size_t)ls_param_count(&g->params[p].shape);
    ls_safetensors_tensor *tensors;
    float *values = NULL, *at;
    ls_weights_metadata *notes = NULL;
    ls_status status;
    LS_TRY_GOTO(LS_NEW(tensors, g->param_count, "%s", path));
    LS_TRY_GOTO(LS_NEW(values, total, "%s", path));
    at = values;
    for (int p = 0; p < g->param_count; p++) {
        const ls_param *param = &g->params[p];
        ls_weights_describe(param, &tensors[p]);
        tensors[p].data = at;
        ls_param_store_export(t->session.compute.store, p, at);
        at += ls_param_count(&param->shape);
    }
    LS_TRY_GOTO(ls_weights_metadata_new(g, t->plan.train_data, t->plan.parts, &notes));
    status = ls_safetensors_write(path, tensors, g->param_count, notes->list, notes->count, NULL);
done:
    ls_weights_metadata_free(notes);
    free(tensors);
    free(values);
    return status;
}

ls_status ls_trainer_save_weights(ls_trainer *t, const char *path) {
    ls_trainer_swap_average(t);
    ls_status status = t->plan.info.comm->rank == 0 ? ls_trainer_write_weights(t, path) : LS_SUCCESS;
    ls_trainer_swap_average(t);
    LS_TRY(ls_comm_barrier_napping(t->plan.comm)); // the disk may be slow
    return ls_comm_agree(t->plan.comm, status, NULL);
}

// Rows of classes are put into the order of the data's classes.
static ls_status arrange_rows(ls_trainer *t, const ls_weights_fit *fit) {
    ls_param_store *store = t->session.compute.store;
    for (int p = 0; fit->order && p < t->plan.graph->param_count; p++) {
        float *values;
        if (!fit->rows[p]) continue;
        LS_TRY(LS_NEW(values, ls_param_count(&t->plan.graph->params[p].shape), "%s", t->plan.graph->params[p].name));
        ls_param_store_export(store, p, values);
        ls_status status = ls_weights_fit_arrange(fit, t->plan.graph, p, values);
        if (!ls_failed(status)) ls_param_store_import(store, p, values);
        free(values);
        LS_TRY(status);
    }
    ls_session_weights_changed(&t->session.compute);
    return LS_SUCCESS;
}

ls_status ls_trainer_fit_weights(
    const ls_trainer *t, const char *path, const ls_safetensors *file, ls_weights_fit **out) {
    ls_weights_info *recorded = NULL, *here = NULL;
    ls_status status = ls_weights_info_read(path, file, &recorded);
    LS_THEN(status, ls_weights_info_of_data(t->plan.train_data, &here));
    LS_THEN(status, ls_weights_fit_new(&(ls_weights_fit_options){ .path = path,
                                           .file = recorded,
                                           .here = here,
                                           .graph = t->plan.graph,
                                           .cfg = t->plan.cfg,
                                           .use = t->plan.evaluates ? LS_WEIGHTS_EVALUATE : LS_WEIGHTS_START },
                        out));
    ls_weights_info_free(recorded);
    ls_weights_info_free(here);
    return status;
}

static ls_status take_weights(ls_trainer *t, const char *path, const ls_safetensors *file) {
    ls_weights_fit *fit;
    LS_TRY(ls_trainer_fit_weights(t, path, file, &fit));
    ls_status status = ls_weights_load(file, &t->session.compute);
    LS_THEN(status, arrange_rows(t, fit));
    if (!ls_failed(status) && t->plan.info.comm->rank == 0) {
        if (fit->note[0]) ls_alert("%s", fit->note);
        if (fit->class_note[0]) ls_alert("%s", fit->class_note);
    }
    ls_weights_fit_free(fit);
    return status;
}

static ls_status read_weights(ls_trainer *t, const char *path) {
    ls_safetensors *file;
    LS_TRY(ls_safetensors_read(path, &file));
    ls_status status = take_weights(t, path, file);
    ls_safetensors_free(file);
    return status;
}

ls_status ls_trainer_load_weights(ls_trainer *t, const char *path) {
    int failed_rank;
    return ls_comm_agree(t->plan.comm, read_weights(t, path), &failed_rank);
}
