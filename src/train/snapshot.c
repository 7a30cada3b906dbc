#include "train/snapshot.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/hash.h"
#include "train/trainer_internal.h"

// --- room ----------------------------------------------------------------------------------------

static int trained_params(const ls_graph *graph) {
    int count = 0;
    for (int p = 0; p < graph->param_count; p++) count += !ls_role_is_statistic(graph->params[p].role);
    return count;
}

static void describe(ls_snapshot_tensor *tensor, const ls_graph *graph, int p, int optimizer, int state) {
    const ls_param *param = &graph->params[p];
    *tensor = (ls_snapshot_tensor){
        .param = p, .state = state, .rank = param->rank, .elements = ls_param_count(&param->shape)
    };
    snprintf(tensor->name, sizeof tensor->name, "%s%s%s", param->name, state ? "." : "",
        state ? ls_optimizer_kept_name(optimizer, state - 1) : "");
    for (int d = 0; d < param->rank; d++) tensor->dim[d] = param->file_dim[d]; // as weights.h describes it
}

static void describe_all(ls_snapshot *s, const ls_graph *graph, int optimizer) {
    for (int state = 0; state <= ls_optimizer_kept(optimizer); state++) {
        for (int p = 0; p < graph->param_count; p++) {
            if (state && ls_role_is_statistic(graph->params[p].role)) continue;
            ls_snapshot_tensor *tensor = &s->tensors[s->count++];
            describe(tensor, graph, p, optimizer, state);
            s->bytes += (size_t)tensor->elements * sizeof(float);
        }
    }
}

static ls_status new_list(const ls_graph *graph, int optimizer, ls_snapshot **out) {
    ls_snapshot *s = calloc(1, sizeof *s);
    int count = graph->param_count + ls_optimizer_kept(optimizer) * trained_params(graph);
    if (s) s->tensors = calloc((size_t)count + 1, sizeof *s->tensors);
    if (!s || !s->tensors) {
        free(s);
        return ls_fail(LS_DEVICE, "out of host memory for a list of %d tensors", count);
    }
    s->params = graph->param_count;
    describe_all(s, graph, optimizer);
    *out = s;
    return LS_SUCCESS;
}

ls_status ls_snapshot_new(const ls_graph *graph, int optimizer, ls_snapshot **out) {
    ls_snapshot *s;
    LS_TRY(new_list(graph, optimizer, &s));
    s->values = calloc(1, s->bytes + 1);
    if (!s->values) {
        size_t bytes = s->bytes;
        ls_snapshot_free(s);
        return ls_fail(LS_DEVICE, "out of host memory for a snapshot of the run's state (%zu bytes)", bytes);
    }
    float *at = s->values;
    for (int i = 0; i < s->count; i++) {
        s->tensors[i].values = at;
        at += s->tensors[i].elements;
    }
    *out = s;
    return LS_SUCCESS;
}

ls_status ls_snapshot_new_for(const ls_trainer *t, ls_snapshot **out) {
    return ls_snapshot_new(t->graph, t->cfg->optimizer_kind, out);
}

ls_status ls_snapshot_list(const ls_trainer *t, ls_snapshot **out) {
    return new_list(t->graph, t->cfg->optimizer_kind, out);
}

void ls_snapshot_free(ls_snapshot *snapshot) {
    if (!snapshot) return;
    free(snapshot->tensors);
    free(snapshot->values);
    free(snapshot);
}

uint64_t ls_snapshot_hash(const ls_snapshot_tensor *tensor) {
    return ls_hash(tensor->values, (size_t)tensor->elements * sizeof *tensor->values);
}

// --- to and from a trainer -----------------------------------------------------------------------

static ls_buffer buffer_of(const ls_trainer *t, const ls_snapshot_tensor *tensor) {
    const ls_arenas *a = t->arenas;
    if (tensor->state == 0) return ls_arenas_weight(a, tensor->param);
    int64_t first = a->trained_elements * (tensor->state - 1) + a->offset[tensor->param];
    return ls_arenas_range(a->state, first, a->elements[tensor->param], sizeof(float));
}

void ls_trainer_export_tensor(ls_trainer *t, const ls_snapshot_tensor *tensor) {
    const ls_param_shape *shape = &t->graph->params[tensor->param].shape;
    t->device->api->param_export(t->device, shape, buffer_of(t, tensor), tensor->values);
}

static void give_tensors(ls_trainer *t, const ls_snapshot *s) {
    for (int i = 0; i < s->count; i++) {
        const ls_snapshot_tensor *tensor = &s->tensors[i];
        const ls_param_shape *shape = &t->graph->params[tensor->param].shape;
        t->device->api->param_import(t->device, shape, tensor->values, buffer_of(t, tensor));
    }
    ls_update_weights_changed(t->update);
}

static ls_status sum_over_ranks(ls_trainer *t, const ls_micro_result *mine, ls_train_sums *sums) {
    double values[3] = { mine->loss_sum, (double)mine->correct, (double)mine->count };
    LS_TRY(ls_comm_allreduce(t->comm, values, 3, LS_F64, LS_REDUCE_SUM));
    *sums = (ls_train_sums){ values[0], (int64_t)values[1], (int64_t)values[2] };
    return LS_SUCCESS;
}

static ls_micro_result own_share(const ls_trainer *t, const ls_train_sums *sums) {
    if (t->facts.comm->rank != 0) return (ls_micro_result){ 0 };
    return (ls_micro_result){ .loss_sum = sums->loss_sum, .correct = sums->correct, .count = sums->count };
}

static ls_status take_counters(ls_trainer *t, ls_train_counters *c) {
    ls_train_state state;
    LS_TRY(ls_update_read_state(t->update, &state));
    *c = (ls_train_counters){ .epoch = t->done.epoch,
        .window = t->done.window,
        .update = t->done.updates,
        .samples = t->done.samples,
        .applied = state.applied,
        .skipped = state.skipped,
        .finite_in_row = state.finite_in_row,
        .skipped_in_row = state.skipped_in_row,
        .loss_scale = (double)state.loss_scale,
        .last_epoch_loss = t->last_epoch_loss,
        .evaluation = t->evaluation,
        .seconds = t->seconds_before + (t->run_started > 0 ? ls_clock_seconds() - t->run_started : 0) };
    LS_TRY(sum_over_ranks(t, &t->since_report, &c->since_report));
    return sum_over_ranks(t, &t->of_epoch, &c->of_epoch);
}

static ls_status give_counters(ls_trainer *t, const ls_train_counters *c) {
    ls_train_state state = { .applied = c->applied,
        .skipped = c->skipped,
        .loss_scale = (float)c->loss_scale,
        .finite_in_row = c->finite_in_row,
        .skipped_in_row = c->skipped_in_row,
        .bad_element = -1 };
    LS_TRY(ls_update_write_state(t->update, &state));
    t->done = (ls_position){ .epoch = c->epoch, .window = c->window, .updates = c->update, .samples = c->samples };
    t->next = t->done;
    t->skipped = c->skipped;
    t->loss_scale = state.loss_scale;
    t->since_report = own_share(t, &c->since_report);
    t->of_epoch = own_share(t, &c->of_epoch);
    t->last_epoch_loss = c->last_epoch_loss;
    t->evaluation = c->evaluation;
    t->seconds_before = c->seconds;
    return LS_SUCCESS;
}

ls_status ls_trainer_snapshot(ls_trainer *t, ls_snapshot *snapshot) {
    ls_train_counters counters;
    ls_comm_phase(t->comm, "taking a snapshot", t->done.updates);
    LS_TRY(take_counters(t, &counters));
    if (!snapshot) return LS_SUCCESS;
    snapshot->counters = counters;
    for (int i = 0; i < snapshot->count; i++) ls_trainer_export_tensor(t, &snapshot->tensors[i]);
    return t->device->api->queue_sync(t->queue); // an export that failed shows here
}

ls_status ls_trainer_restore(ls_trainer *t, ls_snapshot *snapshot) {
    ls_comm_phase(t->comm, "taking over a snapshot", -1);
    LS_TRY(ls_comm_broadcast(t->comm, &snapshot->counters, sizeof snapshot->counters, 0));
    LS_TRY(ls_comm_broadcast(t->comm, snapshot->values, (int64_t)snapshot->bytes, 0));
    ls_feed_stop(t->feed); // it begins again at the new place
    give_tensors(t, snapshot);
    LS_TRY(give_counters(t, &snapshot->counters));
    ls_trainer_replicas_equal(t);
    return t->device->api->queue_sync(t->queue);
}
