// run.c - updates, epochs, reports.
#include <math.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/spans.h"
#include "train/diagnose/nonfinite_search.h"
#include "train/diagnose/verdict.h"
#include "train/energy.h"
#include "train/run_clock.h"
#include "train/trainer_internal.h"

static const double REFRESH_SECONDS = 0.1; // between refreshes of a display

// --- one update ----------------------------------------------------------------------------------

ls_status ls_trainer_start_input(ls_trainer *t) {
    const ls_config *cfg = t->plan.cfg;
    ls_loader_options options = {
        .batches = t->plan.info.batches,
        .seed = (uint64_t)cfg->run_seed,
        .shuffle = cfg->data_shuffle,
        .augmentation = ls_config_augmentation(cfg),
        .first_epoch = t->progress.next.epoch,
        .first_window = t->progress.next.window,
        .epochs = INT32_MAX, // the run decides when it ends, not the loader
        .workers = (int)cfg->data_workers,
        .traced = 1,
    };
    return ls_input_pipeline_start(t->session.input, &options, -1);
}

ls_status ls_trainer_read_ahead(ls_trainer *t) {
    return ls_input_pipeline_started(t->session.input) ? LS_SUCCESS : ls_trainer_start_input(t);
}

// What the host did from start_s, as ls_spans_clock said, until now; 0: not traced.
static void add_span(ls_span_lane lane, const char *name, int64_t update, double start_s) {
    if (start_s == 0) return;
    ls_spans_add(&(ls_span){
        .lane = lane, .name = name, .number = -1, .update = update, .start_s = start_s, .end_s = ls_clock_seconds() });
}

// How many of the window's micro-batches fall to a rank: fewer, or none, in a short last window.
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

static ls_status enqueue_micro_batch(ls_trainer *t) {
    ls_program_inputs inputs = ls_session_inputs(&t->session.compute);
    ls_update_inputs(t->session.update, &inputs);
    ls_batch batch;
    ls_comm_phase(t->plan.comm, "reading data", t->progress.next.updates);
    LS_TRY(ls_input_pipeline_next(t->session.input, &inputs, &batch));
    ls_comm_phase(t->plan.comm, "forward and backward", t->progress.next.updates);
    LS_TRY(ls_update_micro(t->session.update, ls_trainer_program_for(t, t->progress.next.epoch, batch.count), &inputs));
    return ls_input_pipeline_done(t->session.input);
}

static void add_result(ls_micro_result *sum, const ls_micro_result *more) {
    sum->loss_sum += more->loss_sum;
    sum->correct += more->correct;
    sum->count += more->count;
    sum->bad += more->bad;
}

static void move_on(ls_position *p, const ls_batches *b) {
    p->samples += ls_batches_window_samples(b, p->window);
    p->updates++;
    if (++p->window < b->windows) return;
    p->window = 0;
    p->epoch++;
}

static ls_status enqueue_update(ls_trainer *t) {
    const ls_batches *b = &t->plan.info.batches;
    const ls_position *p = &t->progress.next;
    const ls_param_rules *rules = t->plan.rules;
    int mine = rank_micro_batches(b, p->window, b->rank), synced = ls_config_syncs_norm(t->plan.cfg, b->world_size);
    LS_TRY(ls_trainer_read_ahead(t));
    ls_sliding_window window = {
        .samples = t->session.class_weights ? ls_class_weights_sum(t->session.class_weights, b, p->epoch, p->window)
                                            : ls_batches_window_samples(b, p->window),
        .micro_batches = all_micro_batches(b, p->window),
        .steps = synced ? rank_micro_batches(b, p->window, 0) : mine, // a window fills rank 0 first
        .whole = ls_batches_window_samples(b, p->window) == b->global_batch,
        .number = p->updates,
        .renormalise = ls_schedule_rescales(&t->plan.schedule, p->updates),
    };
    const ls_average_step average = ls_schedule_average(&t->plan.schedule, p->updates, t->plan.info.updates_planned);
    window.average_starts = average.starts;
    window.average_due = average.due;
    window.average_decay = average.decay;
    for (int r = 0; r < rules->rate_count; r++)
        window.lr[r] = (float)(t->plan.cfg->optimizer_lr *
                               ls_schedule_rate_factor(&t->plan.schedule, &rules->rate[r], p->updates));
    for (int r = 0; r < rules->rate_count; r++)
        if (ls_schedule_rate_over(&t->plan.schedule, &rules->rate[r], p->updates))
            window.rates_over |= UINT32_C(1) << r;
    double start_s = ls_spans_clock();
    ls_spans_update(p->updates);
    ls_comm_phase(t->plan.comm, "forward and backward", p->updates);
    ls_update_begin(t->session.update, &window);
    for (int m = 0; m < mine; m++) LS_TRY(enqueue_micro_batch(t));
    for (int m = mine; m < window.steps; m++) LS_TRY(ls_update_join(t->session.update, ls_trainer_full(t, p->epoch)));
    double finish_s = ls_spans_clock();
    ls_comm_phase(t->plan.comm, "reducing gradients", p->updates);
    LS_TRY(ls_update_end(t->session.update));
    add_span(LS_SPANS_HOST, "finish", p->updates, finish_s);
    add_span(LS_SPANS_HOST, "enqueue", p->updates, start_s);
    move_on(&t->progress.next, b);
    return LS_SUCCESS;
}

static ls_status complete_update(ls_trainer *t, ls_train_state *state) {
    ls_micro_result result;
    double start_s = ls_spans_clock(), before = ls_clock_seconds();
    LS_TRY(ls_update_complete(t->session.update, state, &result));
    t->progress.device_wait_s += ls_clock_seconds() - before;
    if (t->session.compute.device->api->capture_begin)
        add_span(LS_SPANS_WAITS, "device", t->progress.done.updates, start_s);
    LS_TRY(ls_timeline_resolve(t->session.trace.timeline, t->progress.done.updates));
    add_span(LS_SPANS_HOST, "complete", t->progress.done.updates, start_s);
    t->progress.skipped = state->skipped;
    add_result(&t->progress.since_report, &result);
    add_result(&t->progress.of_epoch, &result);
    LS_TRY(ls_trainer_check_finite(t, state, result.bad));
    move_on(&t->progress.done, &t->plan.info.batches);
    return LS_SUCCESS;
}

ls_status ls_trainer_advance(ls_trainer *t, int64_t end, ls_train_state *state) {
    if (t->session.trace.timeline) {
        if (t->progress.done.updates == t->session.trace.next) LS_TRY(ls_trainer_turn_trace(t));
        if (end > t->session.trace.next) end = t->session.trace.next;
    }
    while (t->progress.next.updates < end && t->progress.next.updates - t->progress.done.updates < t->session.depth) {
        if (t->progress.next.updates > t->progress.done.updates)
            LS_TRY(ls_trainer_agree_on_stop(t)); // else the caller has
        if (t->progress.next.updates >= t->saving.meet_at) break;
        LS_TRY(enqueue_update(t));
    }
    return complete_update(t, state);
}

ls_status ls_trainer_update(ls_trainer *t, ls_train_state *state) {
    return ls_trainer_advance(t, t->progress.done.updates + 1, state);
}

// --- reports -------------------------------------------------------------------------------------

// Sums over all ranks.
static ls_status reduce_result(ls_trainer *t, ls_micro_result *result) {
    double sums[3] = { result->loss_sum, (double)result->correct, (double)result->count };
    LS_TRY(ls_comm_allreduce(t->plan.comm, sums, 3, LS_F64, LS_REDUCE_SUM));
    result->loss_sum = sums[0];
    result->correct = (int64_t)sums[1];
    result->count = (int64_t)sums[2];
    return LS_SUCCESS;
}

static double mean(double sum, int64_t count) {
    return count ? sum / (double)count : 0;
}

typedef struct {
    const ls_train_observer *observers;
    int observer_count;
    double start, last_report, last_refresh;
    int64_t samples_at_report;
    int64_t first_samples; // where this process began
    double first_update;   // since process start
    uint64_t allocations;
    ls_train_progress progress;
    ls_run_clock clock;
    double waited_before; // for sums, by the end of the first update
    ls_gpu_records *gpus;
    ls_energy *energy;
    ls_stragglers *stragglers;
} run_state;

static void show(const ls_trainer *t, const run_state *run) {
    if (t->plan.info.comm->rank != 0) return;
    ls_comm_phase(t->plan.comm, "writing metrics", t->progress.done.updates);
    for (int i = 0; i < run->observer_count; i++)
        if (run->observers[i].progress) run->observers[i].progress(run->observers[i].context, &run->progress);
    ls_comm_phase(t->plan.comm, "training", t->progress.done.updates);
}

static void measure(ls_trainer *t, run_state *run, const ls_train_state *state, double now) {
    ls_train_progress *p = &run->progress;
    int64_t windows = t->plan.info.batches.windows;
    p->update = t->progress.done.updates;
    p->epoch = (t->progress.done.updates - 1) / windows;
    p->epoch_progress = (double)(t->progress.done.updates - p->epoch * windows) / (double)windows;
    p->samples_seen = t->progress.done.samples;
    p->learning_rate = (double)state->lr[0];
    p->loss_scale = (double)state->loss_scale;
    p->grad_norm = (double)state->grad_norm;
    p->skipped = t->progress.skipped;
    p->part_seconds = now - run->start;
    p->seconds = t->plan.info.seconds_before + p->part_seconds;
    const int64_t left = t->plan.info.updates_planned - t->progress.done.updates;
    const double of_a_sample =
        t->progress.steady.samples ? t->progress.steady.seconds / (double)t->progress.steady.samples : NAN;
    p->seconds_left =
        left > 0 ? of_a_sample * (double)t->plan.info.batches.samples * (double)left / (double)windows : 0;
    double since = now - run->last_report;
    if (since > 0 && t->progress.done.samples > run->samples_at_report)
        p->images_per_second = (double)(t->progress.done.samples - run->samples_at_report) / since;
    p->loader_wait_seconds = ls_trainer_loader_wait_seconds(t);
    p->comm_seconds_exposed = ls_update_comm_counts(t->session.update).exposed_seconds;
    if (p->record) p->time = *ls_run_clock_read(&run->clock, t);
}

// Who waits for whom since the last record.
static ls_status report_times(const ls_trainer *t, run_state *run) {
    ls_train_progress *p = &run->progress;
    const char *warning;
    ls_rank_time mine = { .compute = p->time.compute,
        .wait = ls_trainer_comm_counts(t).waited_seconds - run->waited_before,
        .loader_wait = p->time.loader_wait,
        .core_wait = p->time.core_wait };
    LS_TRY(ls_stragglers_report(run->stragglers, &mine, t->progress.steady.seconds, p->gpus, &p->times, &warning));
    if (warning && run->observer_count == 0) ls_warn("%s", warning);
    for (int i = 0; warning && i < run->observer_count; i++)
        if (run->observers[i].warning) run->observers[i].warning(run->observers[i].context, warning);
    return LS_SUCCESS;
}

static ls_status report_energy(run_state *run) {
    ls_run_energy energy;
    LS_TRY(ls_energy_read(run->energy, run->progress.gpus, 0, &energy));
    run->progress.joules = energy.joules;
    return LS_SUCCESS;
}

// A record is due at the same updates on all ranks; a refresh is rank 0's own affair.
static ls_status report(ls_trainer *t, run_state *run, const ls_train_state *state, int epoch_ended) {
    double now = ls_clock_seconds();
    int last = t->progress.done.updates == t->plan.info.updates_planned;
    run->progress.record = t->progress.done.updates % t->plan.cfg->log_every == 0 || epoch_ended || last;
    if (!run->progress.record && now - run->last_refresh < REFRESH_SECONDS) return LS_SUCCESS;
    double start_s = ls_spans_clock();
    measure(t, run, state, now);
    run->last_refresh = now;
    if (run->progress.record) {
        LS_TRY(reduce_result(t, &t->progress.since_report));
        LS_TRY(ls_gpu_records_gather(run->gpus, &run->progress.gpus));
        LS_TRY(report_times(t, run));
        LS_TRY(report_energy(run));
        run->progress.train_loss = mean(t->progress.since_report.loss_sum, t->progress.since_report.count);
        run->progress.train_accuracy = mean((double)t->progress.since_report.correct, t->progress.since_report.count);
        t->progress.since_report = (ls_micro_result){ 0 };
    }
    show(t, run);
    add_span(LS_SPANS_HOST, "write", t->progress.done.updates - 1, start_s);
    if (run->progress.record) {
        run->last_report = now;
        run->samples_at_report = t->progress.done.samples;
    }
    return LS_SUCCESS;
}

// A run with validation touches the test split at its end alone.
static ls_status evaluate(ls_trainer *t, int last) {
    ls_train_evaluation e = { .best_accuracy = t->progress.evaluation.best_accuracy,
        .best_update = t->progress.evaluation.best_update,
        .without_improvement = t->progress.evaluation.without_improvement };
    if (t->plan.val_data) {
        LS_TRY(ls_trainer_validate(t, 0, &e));
        const int first = t->progress.evaluation.val_samples == 0, better = first || e.val_accuracy > e.best_accuracy;
        e.without_improvement = better ? 0 : e.without_improvement + 1;
        if (better) e.best_accuracy = e.val_accuracy;
        if (better) e.best_update = e.update;
        t->progress.evaluation = e;
        ls_trainer_heed_patience(t);
        last |= t->plan.info.stopped_early;
    }
    if (last || !t->plan.val_data) LS_TRY(ls_trainer_evaluate(t, last, &e));
    t->progress.evaluation = e;
    return LS_SUCCESS;
}

static ls_status end_epoch(ls_trainer *t, run_state *run, int last) {
    ls_micro_result sums = t->progress.of_epoch;
    LS_TRY(reduce_result(t, &sums));
    t->progress.last_epoch_loss = mean(sums.loss_sum, sums.count);
    if (t->progress.done.window == 0)
        t->progress.of_epoch = (ls_micro_result){ 0 }; // else train.max_updates ends it: a resume may go on
    int64_t every = t->plan.cfg->train_eval_every;
    if (!last && (every == 0 || t->progress.done.epoch % every != 0)) return LS_SUCCESS;
    double before = ls_clock_seconds();
    ls_trainer_swap_average(t);
    ls_status status = evaluate(t, last);
    ls_trainer_swap_average(t);
    LS_TRY(status);
    t->saving.agree_at = t->progress.next.updates; // the updates before it do not say how long it took
    if (ls_spans_on()) add_span(LS_SPANS_HOST, "evaluate", t->progress.done.updates - 1, before);
    for (int i = 0; t->plan.info.comm->rank == 0 && i < run->observer_count; i++)
        if (run->observers[i].evaluated)
            run->observers[i].evaluated(run->observers[i].context, &t->progress.evaluation);
    const double elapsed = ls_clock_seconds() - before;
    ls_run_clock_add(&run->clock, LS_RUN_EVALUATION, elapsed);
    run->last_report += elapsed; // evaluation does not count against the rate
    return LS_SUCCESS;
}

// Where the device must have come to an end: evaluation, checkpoints and comparisons need the weights of that moment.
static int64_t next_stop(const ls_trainer *t) {
    int64_t stop = (t->progress.done.epoch + 1) * t->plan.info.batches.windows, saved = ls_trainer_next_save(t);
    int64_t compared = ls_trainer_replicas_stop(t);
    if (saved < stop) stop = saved;
    if (compared < stop) stop = compared;
    return stop < t->plan.info.updates_planned ? stop : t->plan.info.updates_planned;
}

static ls_status run_update(ls_trainer *t, run_state *run) {
    double before = ls_clock_seconds();
    int64_t samples = t->progress.done.samples, epoch = t->progress.done.epoch;
    uint64_t allocations = ls_allocation_count();
    ls_train_state state;
    LS_TRY(ls_trainer_advance(t, next_stop(t), &state));
    if (run->first_update > 0) {
        const double elapsed = ls_clock_seconds() - before;
        t->progress.steady.seconds += elapsed;
        ls_run_clock_add(&run->clock, LS_RUN_UPDATES, elapsed);
        t->progress.steady.samples += t->progress.done.samples - samples;
        if (t->progress.done.updates > t->plan.info.resumed_at + 2)
            run->allocations += ls_allocation_count() - allocations;
    } else {
        run->first_update = ls_clock_since_process_start();
        run->waited_before = ls_trainer_comm_counts(t).waited_seconds;
        ls_run_clock_start(&run->clock, t);
    }
    int last = t->progress.done.updates == t->plan.info.updates_planned;
    LS_TRY(report(t, run, &state, t->progress.done.epoch != epoch));
    return t->progress.done.epoch != epoch || last ? end_epoch(t, run, last) : LS_SUCCESS;
}

// What comes between two updates holds training up, and counts as it.
static ls_status between_updates(ls_trainer *t, run_state *run) {
    double before = ls_clock_seconds();
    if (ls_trainer_replicas_due(t)) LS_TRY(ls_trainer_check_replicas(t));
    const double checked = ls_clock_seconds();
    LS_TRY(ls_trainer_save_if_due(t, run->observers, run->observer_count));
    const double after = ls_clock_seconds();
    ls_run_clock_add(&run->clock, LS_RUN_CHECKPOINT, after - checked);
    if (t->progress.steady.samples > 0) t->progress.steady.seconds += after - before;
    return LS_SUCCESS;
}

// A checkpoint has the result of the last evaluation, not its details.
static ls_status evaluate_again(ls_trainer *t) {
    ls_train_evaluation e = { 0 };
    ls_trainer_swap_average(t);
    ls_status status = ls_trainer_evaluate(t, 1, &e);
    ls_trainer_swap_average(t);
    return status;
}

static ls_status run_updates(ls_trainer *t, run_state *run) {
    // A checkpoint that another train.max_updates or train.patience makes the last may have no result yet.
    const int tested =
        t->progress.evaluation.update == t->progress.done.updates && t->progress.evaluation.test_samples > 0;
    if (t->progress.done.updates == t->plan.info.updates_planned)
        return tested ? evaluate_again(t) : end_epoch(t, run, 1);
    while (t->progress.done.updates < t->plan.info.updates_planned) {
        LS_TRY(ls_trainer_agree_on_stop(t));
        if (t->progress.done.updates < t->saving.meet_at) LS_TRY(run_update(t, run));
        LS_TRY(between_updates(t, run));
    }
    return LS_SUCCESS;
}

static double rate(ls_train_steady steady) {
    return steady.seconds > 0 ? (double)steady.samples / steady.seconds : 0;
}

static ls_verdict find_verdict(const ls_trainer *t, const run_state *run, const ls_run_time *time) {
    return ls_verdict_find(&(ls_verdict_facts){ .cfg = t->plan.cfg,
        .ranks = t->plan.info.comm->world_size,
        .threads = t->plan.info.threads,
        .train_samples = t->plan.info.train_data->count,
        .parameters = t->plan.info.parameters,
        .room = t->plan.info.room,
        .updates = t->progress.done.updates - t->plan.info.resumed_at,
        .time = *time,
        .each = run->progress.times,
        .each_seconds = run->progress.time.seconds });
}

// Means and maxima over ranks.
static ls_status summarise(ls_trainer *t, run_state *run, ls_train_summary *s) {
    double world = t->plan.info.comm->world_size, seconds = ls_clock_seconds() - run->start;
    double sums[2] = { ls_update_comm_counts(t->session.update).exposed_seconds, ls_trainer_loader_wait_seconds(t) };
    double peaks[3] = { (double)ls_memory_peak_bytes(), (double)ls_trainer_device_bytes(t), run->first_update };
    LS_TRY(ls_comm_allreduce(t->plan.comm, sums, 2, LS_F64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(t->plan.comm, peaks, 3, LS_F64, LS_REDUCE_MAX));
    *s = (ls_train_summary){
        .status = "completed",
        .resumed_at = t->plan.info.resumed_at,
        .epochs = t->progress.done.epoch,
        .updates = t->progress.done.updates,
        .skipped = t->progress.skipped,
        .samples_seen = t->progress.done.samples,
        .train_loss = t->progress.last_epoch_loss,
        .evaluation = t->progress.evaluation,
        .best_update = -1,
        .train_images_per_second =
            rate((ls_train_steady){ t->progress.steady_before.seconds + t->progress.steady.seconds,
                t->progress.steady_before.samples + t->progress.steady.samples }),
        .wall_seconds = t->plan.info.seconds_before + seconds,
        .part_images_per_second = rate(t->progress.steady),
        .part_seconds = seconds,
        .part_updates = t->progress.done.updates - t->plan.info.resumed_at,
        .part_samples = t->progress.done.samples - run->first_samples,
        .time_to_first_update_seconds = peaks[2],
        .comm_seconds_exposed = sums[0] / world,
        .loader_wait_seconds = sums[1] / world,
        .peak_device_bytes = (size_t)peaks[1],
        .peak_host_bytes = (size_t)peaks[0],
        .allocations_in_updates = run->allocations,
        .replica_checks = ls_trainer_replica_checks(t),
        .time = *ls_run_clock_read(&run->clock, t),
    };
    if (t->plan.info.comm->rank == 0) s->verdict = find_verdict(t, run, &s->time);
    if (t->saving.files) s->best_update = ls_checkpoint_manager_best(t->saving.files, &s->best_accuracy);
    const char *late = ls_stragglers_sum_up(run->stragglers, &s->stragglers_share);
    if (late && t->plan.info.comm->rank == 0) snprintf(s->stragglers, sizeof s->stragglers, "%s", late);
    LS_TRY(ls_gpu_records_sum(run->gpus, &s->gpus));
    const ls_gpu_sample *gpus;
    LS_TRY(ls_gpu_records_gather(run->gpus, &gpus));
    LS_TRY(ls_energy_read(run->energy, gpus, 1, &s->energy));
    ls_trainer_swap_average(t);
    ls_status status = ls_param_store_hash(t->session.compute.store, &s->weights_hash);
    ls_trainer_swap_average(t);
    return status;
}

static ls_status save_end(ls_trainer *t, run_state *run) {
    const double before = ls_clock_seconds();
    LS_TRY(ls_trainer_save_end(t, run->observers, run->observer_count));
    ls_run_clock_add(&run->clock, LS_RUN_CHECKPOINT, ls_clock_seconds() - before);
    return LS_SUCCESS;
}

ls_status ls_trainer_run(
    ls_trainer *t, const ls_train_observer *observers, int observer_count, ls_train_summary *summary) {
    double now = ls_clock_seconds();
    run_state run = { .observers = observers,
        .observer_count = observer_count,
        .start = now,
        .last_report = now,
        .samples_at_report = t->progress.done.samples,
        .first_samples = t->progress.done.samples };
    t->progress.started_s = now;
    LS_TRY(ls_gpu_records_start(t->plan.comm, &t->plan.info.device_info, &run.gpus));
    const char *root = getenv("LOCKSTEP_SYS_ROOT"); // as ls_device_assignment has it
    ls_status status = ls_energy_start(t->plan.comm, root ? root : "", t->plan.info.places, &run.energy);
    LS_THEN(status, ls_stragglers_new(t->plan.comm, t->plan.info.places, &run.stragglers));
    LS_THEN(status, run_updates(t, &run));
    LS_THEN(status, save_end(t, &run));
    LS_THEN(status, summarise(t, &run, summary));
    ls_stragglers_free(run.stragglers);
    ls_energy_free(run.energy);
    ls_gpu_records_free(run.gpus);
    return status;
}

ls_status ls_trainer_updates(ls_trainer *t, int64_t updates, double *loss) {
    int64_t end = t->progress.done.updates + updates;
    for (int64_t i = 0; i < updates; i++) {
        ls_train_state state;
        t->progress.since_report = (ls_micro_result){ 0 };
        LS_TRY(ls_trainer_advance(t, end, &state));
        if (!loss) continue;
        LS_TRY(reduce_result(t, &t->progress.since_report));
        loss[i] = mean(t->progress.since_report.loss_sum, t->progress.since_report.count);
    }
    return LS_SUCCESS;
}

double ls_trainer_loader_wait_seconds(const ls_trainer *t) {
    return ls_input_pipeline_wait_seconds(t->session.input);
}

ls_reducer_counts ls_trainer_comm_counts(const ls_trainer *t) {
    return ls_update_comm_counts(t->session.update);
}
