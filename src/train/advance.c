#include "train/run.h"

#include "base/clock.h"
#include "base/spans.h"
#include "train/cross_check.h"
#include "train/diagnose/nonfinite_search.h"

// Returns the number of micro-batches that this rank has in the window. In a short last window it may have fewer than
// usual, or none.
static int rank_micro_batches(const ls_batches *b, int64_t window, int rank) {
    int count = 0;
    for (int j = rank * b->per_rank; j < (rank + 1) * b->per_rank; j++)
        count += ls_batches_micro_samples(b, window, j) > 0;
    return count;
}

static int all_micro_batches(const ls_batches *b, int64_t window) {
    int all = 0;
    for (int j = 0; j < b->micro_batches; j++) all += ls_batches_micro_samples(b, window, j) > 0;
    return all;
}

ls_status ls_run_enqueue_micro_batch(ls_run_session *session, ls_input_pipeline *input, const ls_position *at) {
    ls_program_inputs inputs = ls_session_inputs(&session->compute);
    ls_update_inputs(session->update, &inputs);
    ls_batch batch;
    ls_comm_phase(session->plan->comm, "reading data", at->updates);
    LS_TRY(ls_input_pipeline_next(input, &inputs, &batch));
    ls_comm_phase(session->plan->comm, "forward and backward", at->updates);
    LS_TRY(ls_update_micro(session->update, ls_run_session_program_for(session, at->epoch, batch.count), &inputs));
    return ls_input_pipeline_done(input);
}

// Describes the next update: its samples, its micro-batches, and its values from the schedule.
static ls_sliding_window next_window(const ls_run_session *session, ls_run_progress *progress, int mine) {
    const ls_run_plan *plan = session->plan;
    const ls_batches *b = &plan->info.batches;
    const ls_schedule *schedule = &plan->schedule;
    const ls_param_rules *rules = plan->rules;
    const ls_position *at = &progress->next;
    const int synced = ls_config_syncs_norm(plan->cfg, b->world_size);
    const ls_average_step average = ls_schedule_average(schedule, at->updates, progress->last);
    ls_sliding_window window = {
        .samples = session->class_weights ? ls_class_weights_sum(session->class_weights, b, at->epoch, at->window)
                                          : ls_batches_window_samples(b, at->window),
        .micro_batches = all_micro_batches(b, at->window),
        // rank 0 has the most, because a window fills the lowest ranks first
        .steps = synced ? rank_micro_batches(b, at->window, 0) : mine,
        .whole = ls_batches_window_samples(b, at->window) == b->global_batch,
        .number = at->updates,
        .renormalise = ls_schedule_rescales(schedule, &progress->rescaling, at->updates),
        .average_starts = average.starts,
        .average_due = average.due,
        .average_decay = average.decay,
    };
    for (int r = 0; r < rules->rate_count; r++) {
        const ls_rate_rule *rule = &rules->rate[r];
        window.lr[r] = (float)(plan->cfg->optimizer_lr * ls_schedule_rate_factor(schedule, rule, at->updates));
        if (ls_schedule_rate_over(schedule, rule, at->updates)) window.rates_over |= UINT32_C(1) << r;
    }
    return window;
}

// Begins the update and enqueues this rank's micro-batches.
static ls_status enqueue_window(
    ls_run_session *session, const ls_position *at, const ls_sliding_window *window, int mine) {
    ls_update_begin(session->update, window);
    for (int m = 0; m < mine; m++) LS_TRY(ls_run_enqueue_micro_batch(session, session->input, at));
    for (int m = mine; m < window->steps; m++)
        LS_TRY(ls_update_join(session->update, ls_run_session_full_program(session, at->epoch)));
    return LS_SUCCESS;
}

static ls_status enqueue_update(ls_run_session *session, ls_run_progress *progress, const ls_run_saving *saving) {
    const ls_batches *b = &session->plan->info.batches;
    const ls_position *at = &progress->next;
    const int mine = rank_micro_batches(b, at->window, b->rank);
    LS_TRY(ls_run_session_read_ahead(session, at));
    const ls_sliding_window window = next_window(session, progress, mine);
    double start_s = ls_spans_clock();
    ls_spans_update(at->updates);
    ls_comm_phase(session->plan->comm, "forward and backward", at->updates);
    if (ls_cross_check_due(session->cross_check, at, &window))
        LS_TRY(ls_cross_check_update(session, at, &window, saving->on && saving->saved > 0 ? saving->saved : -1));
    else
        LS_TRY(enqueue_window(session, at, &window, mine));
    double finish_s = ls_spans_clock();
    ls_comm_phase(session->plan->comm, "reducing gradients", at->updates);
    LS_TRY(ls_update_end(session->update));
    ls_run_trace_span(LS_SPANS_HOST, "finish", at->updates, finish_s);
    ls_run_trace_span(LS_SPANS_HOST, "enqueue", at->updates, start_s);
    ls_position_move_on(&progress->next, b);
    return LS_SUCCESS;
}

static ls_status complete_update(
    ls_run_session *session, ls_run_progress *progress, const char *folder, ls_train_state *state) {
    ls_micro_result result;
    double start_s = ls_spans_clock(), before = ls_clock_seconds();
    LS_TRY(ls_update_complete(session->update, state, &result));
    progress->device_wait_s += ls_clock_seconds() - before;
    if (session->compute.device->api->capture_begin)
        ls_run_trace_span(LS_SPANS_WAITS, "device", progress->done.updates, start_s);
    LS_TRY(ls_timeline_resolve(session->trace.timeline, progress->done.updates));
    ls_run_trace_span(LS_SPANS_HOST, "complete", progress->done.updates, start_s);
    progress->skipped = state->skipped;
    ls_micro_result_add(&progress->since_report, &result);
    ls_micro_result_add(&progress->of_epoch, &result);
    LS_TRY(ls_run_check_finite(session, progress, folder, state, result.bad));
    ls_position_move_on(&progress->done, &session->plan->info.batches);
    return LS_SUCCESS;
}

ls_status ls_run_advance(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t end, ls_train_state *state) {
    if (session->trace.timeline) {
        if (progress->done.updates == session->trace.next) LS_TRY(ls_run_trace_turn(session, progress));
        if (end > session->trace.next) end = session->trace.next;
    }
    while (progress->next.updates < end && progress->next.updates - progress->done.updates < session->depth) {
        if (progress->next.updates > progress->done.updates)
            // for the first update the caller has already agreed
            LS_TRY(ls_run_saving_agree(saving, session->plan, progress));
        if (progress->next.updates >= saving->meet_at) break;
        LS_TRY(enqueue_update(session, progress, saving));
        if (ls_cross_check_warns(session->cross_check)) break;
    }
    return complete_update(session, progress, saving->folder, state);
}
