#include "train/snapshots.h"

#include "base/clock.h"

ls_status ls_run_snapshot_new(const ls_run_plan *plan, ls_snapshot **out) {
    return ls_snapshot_new(plan->graph, plan->rules, out);
}

// Returns the memory that holds a tensor after `updates` updates. Before ema's average starts, the weights are used in
// its place.
static ls_buffer buffer_of(const ls_run_session *session, const ls_snapshot_tensor *tensor, int64_t updates) {
    const ls_param_store *a = session->compute.store;
    const int in_average = tensor->state == LS_SNAPSHOT_OTHER ? session->plan->rules->average == LS_AVERAGE_LOOKAHEAD
                                                              : ls_param_store_changes(a, tensor->param) &&
                                                                    ls_run_session_shows_average(session, updates);
    if (tensor->state <= 0)
        return ls_param_store_range(
            in_average ? a->average : a->weight, a->offset[tensor->param], a->elements[tensor->param], sizeof(float));
    int64_t first = a->trained_elements * (tensor->state - 1) + a->offset[tensor->param];
    return ls_param_store_range(a->state, first, a->elements[tensor->param], sizeof(float));
}

void ls_run_export_tensor(ls_run_session *session, int64_t updates, const ls_snapshot_tensor *tensor) {
    ls_device *device = session->compute.device;
    const ls_param_shape *shape = &session->plan->graph->params[tensor->param].shape;
    device->api->param_export(device, shape, buffer_of(session, tensor, updates), tensor->values);
}

static void restore_tensors(ls_run_session *session, const ls_snapshot *s) {
    ls_device *device = session->compute.device;
    for (int i = 0; i < s->count; i++) {
        const ls_snapshot_tensor *tensor = &s->tensors[i];
        const ls_param_shape *shape = &session->plan->graph->params[tensor->param].shape;
        device->api->param_import(device, shape, tensor->values, buffer_of(session, tensor, s->counters.update));
    }
    ls_session_weights_changed(&session->compute);
}

static ls_status sum_over_ranks(ls_comm *comm, const ls_micro_result *mine, ls_train_sums *sums) {
    ls_micro_result all = *mine;
    LS_TRY(ls_micro_result_sum(comm, &all));
    *sums = (ls_train_sums){ all.loss_sum, all.correct, all.count };
    return LS_SUCCESS;
}

// Returns this rank's part of sums that were restored from a snapshot: rank 0 gets all of them, the other ranks get 0.
static ls_micro_result own_share(const ls_comm_info *comm, const ls_train_sums *sums) {
    if (comm->rank != 0) return (ls_micro_result){ 0 };
    return (ls_micro_result){ .loss_sum = sums->loss_sum, .correct = sums->correct, .count = sums->count };
}

static ls_status read_counters(ls_run_session *session, const ls_run_progress *progress, ls_train_counters *c) {
    const ls_run_plan *plan = session->plan;
    ls_train_state state;
    LS_TRY(ls_update_read_state(session->update, &state));
    *c = (ls_train_counters){ .epoch = progress->done.epoch,
        .window = progress->done.window,
        .update = progress->done.updates,
        .samples = progress->done.samples,
        .applied = state.applied,
        .skipped = state.skipped,
        .finite_in_row = state.finite_in_row,
        .skipped_in_row = state.skipped_in_row,
        .loss_scale = (double)state.loss_scale,
        .last_epoch_loss = progress->last_epoch_loss,
        .evaluation = progress->evaluation,
        .seconds = progress->seconds_before + (progress->started_s > 0 ? ls_clock_seconds() - progress->started_s : 0),
        .steady = { progress->steady_before.seconds + progress->steady.seconds,
            progress->steady_before.samples + progress->steady.samples } };
    LS_TRY(sum_over_ranks(plan->comm, &progress->since_report, &c->since_report));
    return sum_over_ranks(plan->comm, &progress->of_epoch, &c->of_epoch);
}

static ls_status restore_counters(ls_run_session *session, ls_run_progress *progress, const ls_train_counters *c) {
    const ls_comm_info *comm = session->plan->info.comm;
    ls_train_state state = { .applied = c->applied,
        .skipped = c->skipped,
        .loss_scale = (float)c->loss_scale,
        .finite_in_row = c->finite_in_row,
        .skipped_in_row = c->skipped_in_row,
        .bad_element = -1 };
    LS_TRY(ls_update_write_state(session->update, &state));
    progress->done =
        (ls_position){ .epoch = c->epoch, .window = c->window, .updates = c->update, .samples = c->samples };
    progress->next = progress->done;
    progress->skipped = c->skipped;
    progress->loss_scale = state.loss_scale;
    progress->since_report = own_share(comm, &c->since_report);
    progress->of_epoch = own_share(comm, &c->of_epoch);
    progress->last_epoch_loss = c->last_epoch_loss;
    progress->evaluation = c->evaluation;
    ls_run_progress_heed_patience(progress, session->plan->cfg->train_patience);
    progress->seconds_before = c->seconds;
    progress->steady_before = c->steady;
    return LS_SUCCESS;
}

ls_status ls_run_snapshot(ls_run_session *session, const ls_run_progress *progress, ls_snapshot *snapshot) {
    ls_train_counters counters;
    ls_comm_phase(session->plan->comm, "taking a snapshot", progress->done.updates);
    LS_TRY(read_counters(session, progress, &counters));
    if (!snapshot) return LS_SUCCESS;
    snapshot->counters = counters;
    for (int i = 0; i < snapshot->count; i++)
        ls_run_export_tensor(session, progress->done.updates, &snapshot->tensors[i]);
    return session->compute.device->api->queue_sync(session->compute.queue); // returns the error of a failed export
}

ls_status ls_run_restore(ls_run_session *session, ls_run_progress *progress, ls_snapshot *snapshot) {
    const ls_run_plan *plan = session->plan;
    ls_comm_phase(plan->comm, "taking over a snapshot", -1);
    LS_TRY(ls_comm_broadcast(plan->comm, &snapshot->counters, sizeof snapshot->counters, 0));
    LS_TRY(ls_comm_broadcast(plan->comm, snapshot->values, (int64_t)snapshot->bytes, 0));
    ls_input_pipeline_stop(session->input); // the input starts again at the new position
    restore_tensors(session, snapshot);
    LS_TRY(restore_counters(session, progress, &snapshot->counters));
    return session->compute.device->api->queue_sync(session->compute.queue);
}
