#include "train/run.h"

#include <math.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/spans.h"
#include "train/cross_check.h"
#include "train/diagnose/replicas.h"
#include "train/diagnose/stragglers.h"
#include "train/diagnose/verdict.h"
#include "train/energy.h"
#include "train/evaluate.h"
#include "train/gpu_records.h"
#include "train/run_clock.h"

static const double REFRESH_SECONDS = 0.1; // between two refreshes of a display

// --- records -------------------------------------------------------------------------------------

static double mean(double sum, int64_t count) {
    return count ? sum / (double)count : 0;
}

// The state of a run in progress: session, position, observers and records.
typedef struct {
    ls_run_session *session;
    ls_run_progress *progress;
    ls_run_saving *saving;
    const ls_train_observer *observers;
    int observer_count;
    double start, last_report, last_refresh;
    int64_t samples_at_report;
    int64_t first_samples; // samples that were done when this process started the run
    double first_update;   // seconds from the start of the process to the end of the first update; 0: not ended yet
    uint64_t allocations;
    ls_train_progress record; // the last record or refresh that was shown
    ls_run_clock clock;
    double waited_before; // seconds that this rank waited for sums until the end of the first update
    ls_gpu_records *gpus;
    ls_energy *energy;
    ls_stragglers *stragglers;
} run_state;

static void show_record(const run_state *run) {
    const ls_run_plan *plan = run->session->plan;
    if (plan->info.comm->rank != 0) return;
    ls_comm_phase(plan->comm, "writing metrics", run->progress->done.updates);
    for (int i = 0; i < run->observer_count; i++)
        if (run->observers[i].progress) run->observers[i].progress(run->observers[i].context, &run->record);
    ls_comm_phase(plan->comm, "training", run->progress->done.updates);
}

static void measure(run_state *run, const ls_train_state *state, double now) {
    const ls_run_plan *plan = run->session->plan;
    ls_run_session *session = run->session;
    ls_run_progress *progress = run->progress;
    ls_train_progress *p = &run->record;
    int64_t windows = plan->info.batches.windows;
    p->update = progress->done.updates;
    p->epoch = (progress->done.updates - 1) / windows;
    p->epoch_progress = (double)(progress->done.updates - p->epoch * windows) / (double)windows;
    p->samples_seen = progress->done.samples;
    p->learning_rate = (double)state->lr[0];
    p->loss_scale = (double)state->loss_scale;
    p->grad_norm = (double)state->grad_norm;
    p->skipped = progress->skipped;
    p->part_seconds = now - run->start;
    p->seconds = progress->seconds_before + p->part_seconds;
    const int64_t left = progress->last - progress->done.updates;
    const double of_a_sample =
        progress->steady.samples ? progress->steady.seconds / (double)progress->steady.samples : NAN;
    p->seconds_left = left > 0 ? of_a_sample * (double)plan->info.batches.samples * (double)left / (double)windows : 0;
    double since = now - run->last_report;
    if (since > 0 && progress->done.samples > run->samples_at_report)
        p->images_per_second = (double)(progress->done.samples - run->samples_at_report) / since;
    p->loader_wait_seconds = ls_run_session_loader_wait_seconds(session);
    p->comm_seconds_exposed = ls_run_session_comm_counts(session).exposed_seconds;
    if (p->record) p->time = *ls_run_clock_read(&run->clock, session, progress);
}

static void warn(const run_state *run, ls_log_level level, const char *text) {
    if (run->session->plan->info.comm->rank != 0) return;
    if (run->observer_count == 0) ls_log(level, "%s", text);
    for (int i = 0; i < run->observer_count; i++)
        if (run->observers[i].warning) run->observers[i].warning(run->observers[i].context, level, text);
}

// Exchanges times with the other ranks, and warns of ranks that delay the others.
static ls_status report_times(run_state *run) {
    ls_train_progress *p = &run->record;
    const char *warning;
    ls_rank_time mine = { .compute = p->time.compute,
        .wait = ls_run_session_comm_counts(run->session).waited_seconds - run->waited_before,
        .loader_wait = p->time.loader_wait,
        .core_wait = p->time.core_wait };
    LS_TRY(ls_stragglers_report(run->stragglers, &mine, run->progress->steady.seconds, p->gpus, &p->times, &warning));
    if (warning) warn(run, LS_LOG_WARNING, warning);
    return LS_SUCCESS;
}

static ls_status report_energy(run_state *run) {
    ls_run_energy energy;
    LS_TRY(ls_energy_read(run->energy, run->record.gpus, 0, &energy));
    run->record.joules = energy.joules;
    return LS_SUCCESS;
}

// Gives the observers a record (at log.every updates, at an epoch's end and at the run's end, the same on all ranks),
// or refreshes the display, which only rank 0 shows.
static ls_status report(run_state *run, const ls_train_state *state, int epoch_ended) {
    ls_run_progress *progress = run->progress;
    double now = ls_clock_seconds();
    int last = progress->done.updates == progress->last;
    run->record.record = progress->done.updates % run->session->plan->cfg->log_every == 0 || epoch_ended || last;
    if (!run->record.record && now - run->last_refresh < REFRESH_SECONDS) return LS_SUCCESS;
    double start_s = ls_spans_clock();
    measure(run, state, now);
    run->last_refresh = now;
    if (run->record.record) {
        LS_TRY(ls_micro_result_sum(run->session->plan->comm, &progress->since_report));
        LS_TRY(ls_gpu_records_gather(run->gpus, &run->record.gpus));
        LS_TRY(report_times(run));
        LS_TRY(report_energy(run));
        run->record.train_loss = mean(progress->since_report.loss_sum, progress->since_report.count);
        run->record.train_accuracy = mean((double)progress->since_report.correct, progress->since_report.count);
        progress->since_report = (ls_micro_result){ 0 };
    }
    show_record(run);
    ls_run_trace_span(LS_SPANS_HOST, "write", progress->done.updates - 1, start_s);
    if (run->record.record) {
        run->last_report = now;
        run->samples_at_report = progress->done.samples;
    }
    return LS_SUCCESS;
}

// --- epochs --------------------------------------------------------------------------------------

// Evaluates after an epoch. With validation pictures, the test split is evaluated only at the end of the run.
static ls_status evaluate(const run_state *run, int last) {
    const ls_run_plan *plan = run->session->plan;
    ls_run_progress *progress = run->progress;
    ls_train_evaluation e = { .best_accuracy = progress->evaluation.best_accuracy,
        .best_update = progress->evaluation.best_update,
        .without_improvement = progress->evaluation.without_improvement };
    if (plan->val_data) {
        LS_TRY(ls_run_validate(run->session, progress, 0, &e));
        const int first = progress->evaluation.val_samples == 0, better = first || e.val_accuracy > e.best_accuracy;
        e.without_improvement = better ? 0 : e.without_improvement + 1;
        if (better) e.best_accuracy = e.val_accuracy;
        if (better) e.best_update = e.update;
        progress->evaluation = e;
        ls_run_progress_heed_patience(progress, plan->cfg->train_patience);
        last |= progress->stopped_early;
    }
    if (last || !plan->val_data) LS_TRY(ls_run_evaluate(run->session, progress, last, &e));
    progress->evaluation = e;
    return LS_SUCCESS;
}

static ls_status end_epoch(run_state *run, int last) {
    ls_run_session *session = run->session;
    ls_run_progress *progress = run->progress;
    ls_micro_result sums = progress->of_epoch;
    LS_TRY(ls_micro_result_sum(session->plan->comm, &sums));
    progress->last_epoch_loss = mean(sums.loss_sum, sums.count);
    if (progress->done.window == 0)
        // otherwise train.max_updates ended the epoch early, and a resumed run may continue it
        progress->of_epoch = (ls_micro_result){ 0 };
    int64_t every = session->plan->cfg->train_eval_every;
    if (!last && (every == 0 || progress->done.epoch % every != 0)) return LS_SUCCESS;
    double before = ls_clock_seconds();
    ls_run_session_swap_average(session, progress->done.updates);
    ls_status status = evaluate(run, last);
    ls_run_session_swap_average(session, progress->done.updates);
    LS_TRY(status);
    // the rate of updates before the evaluation is no guide for the time until the next agreement
    run->saving->agree_at = progress->next.updates;
    if (ls_spans_on()) ls_run_trace_span(LS_SPANS_HOST, "evaluate", progress->done.updates - 1, before);
    for (int i = 0; session->plan->info.comm->rank == 0 && i < run->observer_count; i++)
        if (run->observers[i].evaluated) run->observers[i].evaluated(run->observers[i].context, &progress->evaluation);
    const double elapsed = ls_clock_seconds() - before;
    ls_run_clock_add(&run->clock, LS_RUN_EVALUATION, elapsed);
    run->last_report += elapsed; // the time of an evaluation does not count for images_per_second
    return LS_SUCCESS;
}

// Returns the number of updates after which this call of ls_run_to_end returns.
static int64_t end_of(const ls_run_progress *progress) {
    return progress->pause && progress->pause < progress->last ? progress->pause : progress->last;
}

// Returns the update before which all updates must be completed, for an evaluation, checkpoint, comparison or end.
static int64_t next_stop(const run_state *run) {
    const ls_run_plan *plan = run->session->plan;
    ls_run_progress *progress = run->progress;
    int64_t stop = (progress->done.epoch + 1) * plan->info.batches.windows,
            saved = ls_run_saving_next(run->saving, plan, progress);
    int64_t compared = ls_replicas_next_check(run->session, progress);
    if (saved < stop) stop = saved;
    if (compared < stop) stop = compared;
    return stop < end_of(progress) ? stop : end_of(progress);
}

static ls_status run_update(run_state *run) {
    ls_run_session *session = run->session;
    ls_run_progress *progress = run->progress;
    double before = ls_clock_seconds();
    int64_t samples = progress->done.samples, epoch = progress->done.epoch;
    uint64_t allocations = ls_allocation_count();
    ls_train_state state;
    LS_TRY(ls_run_advance(session, progress, run->saving, next_stop(run), &state));
    const char *wrong = ls_cross_check_take_warning(session->cross_check);
    if (wrong) warn(run, LS_LOG_ALERT, wrong);
    if (run->first_update > 0) {
        const double elapsed = ls_clock_seconds() - before;
        progress->steady.seconds += elapsed;
        ls_run_clock_add(&run->clock, LS_RUN_UPDATES, elapsed);
        progress->steady.samples += progress->done.samples - samples;
        if (progress->done.updates > session->plan->info.resumed_at + 2)
            run->allocations += ls_allocation_count() - allocations;
    } else {
        run->first_update = ls_clock_since_start();
        ls_startup_end(&progress->startup);
        run->waited_before = ls_run_session_comm_counts(session).waited_seconds;
        ls_run_clock_start(&run->clock, session, progress);
    }
    int last = progress->done.updates == progress->last;
    LS_TRY(report(run, &state, progress->done.epoch != epoch));
    return progress->done.epoch != epoch || last ? end_epoch(run, last) : LS_SUCCESS;
}

// Does the work between two updates. It delays training, so its time counts as training time.
static ls_status between_updates(run_state *run) {
    ls_run_session *session = run->session;
    ls_run_progress *progress = run->progress;
    double before = ls_clock_seconds();
    if (ls_replicas_due(session, progress)) LS_TRY(ls_replicas_check(session, progress, run->saving));
    const double checked = ls_clock_seconds();
    LS_TRY(ls_run_saving_if_due(run->saving, session, progress, run->observers, run->observer_count));
    const double after = ls_clock_seconds();
    ls_run_clock_add(&run->clock, LS_RUN_CHECKPOINT, after - checked);
    if (progress->steady.samples > 0) progress->steady.seconds += after - before;
    return LS_SUCCESS;
}

// Evaluates a completed run once more: its checkpoint holds the result of the last evaluation but not the details.
static ls_status evaluate_again(const run_state *run) {
    ls_run_session *session = run->session;
    ls_run_progress *progress = run->progress;
    ls_train_evaluation e = { 0 };
    ls_run_session_swap_average(session, progress->done.updates);
    ls_status status = ls_run_evaluate(session, progress, 1, &e);
    ls_run_session_swap_average(session, progress->done.updates);
    return status;
}

static ls_status run_updates(run_state *run) {
    const ls_run_plan *plan = run->session->plan;
    ls_run_progress *progress = run->progress;
    // If train.max_updates or train.patience was changed, a checkpoint without a result can be the end of the run.
    const int tested = progress->evaluation.update == progress->done.updates && progress->evaluation.test_samples > 0;
    if (progress->done.updates == progress->last) return tested ? evaluate_again(run) : end_epoch(run, 1);
    while (progress->done.updates < end_of(progress)) {
        LS_TRY(ls_run_saving_agree(run->saving, plan, progress));
        if (progress->done.updates < run->saving->meet_at) LS_TRY(run_update(run));
        LS_TRY(between_updates(run));
    }
    return LS_SUCCESS;
}

// --- summary -------------------------------------------------------------------------------------

static double rate(ls_train_steady steady) {
    return steady.seconds > 0 ? (double)steady.samples / steady.seconds : 0;
}

static ls_verdict find_verdict(const run_state *run, const ls_run_time *time) {
    const ls_run_plan *plan = run->session->plan;
    return ls_verdict_find(&(ls_verdict_facts){ .cfg = plan->cfg,
        .ranks = plan->info.comm->world_size,
        .threads = plan->info.threads,
        .train_samples = plan->info.train_data->count,
        .micro_batch = plan->info.batches.micro_batch,
        .accumulation = plan->info.batches.per_rank,
        .room = plan->info.room,
        .updates = run->progress->done.updates - plan->info.resumed_at,
        .time = *time,
        .each = run->record.times,
        .each_seconds = run->record.time.seconds });
}

// Fills in the summary, with means and maxima over ranks.
static ls_status summarise(run_state *run, ls_train_summary *s) {
    const ls_run_plan *plan = run->session->plan;
    ls_run_session *session = run->session;
    ls_run_progress *progress = run->progress;
    double world = plan->info.comm->world_size, seconds = ls_clock_seconds() - run->start;
    double sums[2] = { ls_run_session_comm_counts(session).exposed_seconds,
        ls_run_session_loader_wait_seconds(session) };
    double peaks[3] = { (double)ls_memory_peak_bytes(), (double)ls_memory_plan_bytes(&session->compute.memory),
        run->first_update };
    LS_TRY(ls_comm_allreduce(plan->comm, sums, 2, LS_F64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(plan->comm, peaks, 3, LS_F64, LS_REDUCE_MAX));
    *s = (ls_train_summary){
        .status = "completed",
        .resumed_at = plan->info.resumed_at,
        .epochs = progress->done.epoch,
        .updates = progress->done.updates,
        .skipped = progress->skipped,
        .samples_seen = progress->done.samples,
        .train_loss = progress->last_epoch_loss,
        .evaluation = progress->evaluation,
        .best_update = -1,
        .train_images_per_second = rate((ls_train_steady){ progress->steady_before.seconds + progress->steady.seconds,
            progress->steady_before.samples + progress->steady.samples }),
        .stopped_early = progress->stopped_early,
        .wall_seconds = progress->seconds_before + seconds,
        .part_images_per_second = rate(progress->steady),
        .part_seconds = seconds,
        .part_updates = progress->done.updates - plan->info.resumed_at,
        .part_samples = progress->done.samples - run->first_samples,
        .time_to_first_update_seconds = peaks[2],
        .startup = progress->startup,
        .comm_seconds_exposed = sums[0] / world,
        .loader_wait_seconds = sums[1] / world,
        .peak_device_bytes = (size_t)peaks[1],
        .peak_host_bytes = (size_t)peaks[0],
        .allocations_in_updates = run->allocations,
        .replica_checks = ls_replicas_checks(session->replicas),
        .cross_checks = ls_cross_check_counts(session->cross_check),
        .time = *ls_run_clock_read(&run->clock, session, progress),
    };
    if (plan->info.comm->rank == 0) s->verdict = find_verdict(run, &s->time);
    if (run->saving->files) s->best_update = ls_checkpoint_manager_best(run->saving->files, &s->best_accuracy);
    const char *stragglers = ls_stragglers_sum_up(run->stragglers, &s->stragglers_share);
    if (stragglers && plan->info.comm->rank == 0) snprintf(s->stragglers, sizeof s->stragglers, "%s", stragglers);
    LS_TRY(ls_gpu_records_sum(run->gpus, &s->gpus));
    const ls_gpu_sample *gpus;
    LS_TRY(ls_gpu_records_gather(run->gpus, &gpus));
    LS_TRY(ls_energy_read(run->energy, gpus, 1, &s->energy));
    ls_run_session_swap_average(session, progress->done.updates);
    ls_status status = ls_param_store_hash(session->compute.store, &s->weights_hash);
    ls_run_session_swap_average(session, progress->done.updates);
    return status;
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status save_end(run_state *run) {
    const double before = ls_clock_seconds();
    LS_TRY(ls_run_saving_end(run->saving, run->session, run->progress, run->observers, run->observer_count));
    ls_run_clock_add(&run->clock, LS_RUN_CHECKPOINT, ls_clock_seconds() - before);
    return LS_SUCCESS;
}

ls_status ls_run_to_end(ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving,
    const ls_train_observer *observers, int observer_count, ls_train_summary *summary) {
    const ls_run_plan *plan = session->plan;
    double now = ls_clock_seconds();
    run_state run = { .session = session,
        .progress = progress,
        .saving = saving,
        .observers = observers,
        .observer_count = observer_count,
        .start = now,
        .last_report = now,
        .samples_at_report = progress->done.samples,
        .first_samples = progress->done.samples };
    progress->started_s = now;
    ls_startup_enter(&progress->startup, "first update");
    LS_TRY(ls_gpu_records_start(plan->comm, &plan->info.device_info, &run.gpus));
    const char *root = getenv("LOCKSTEP_SYS_ROOT"); // the same variable that ls_device_assignment reads
    ls_status status = ls_energy_start(plan->comm, root ? root : "", plan->info.places, &run.energy);
    LS_THEN(status, ls_stragglers_new(plan->comm, plan->info.places, &run.stragglers));
    LS_THEN(status, run_updates(&run));
    LS_THEN(status, save_end(&run));
    LS_THEN(status, summarise(&run, summary));
    ls_stragglers_free(run.stragglers);
    ls_energy_free(run.energy);
    ls_gpu_records_free(run.gpus);
    return status;
}

ls_status ls_run_updates(
    ls_run_session *session, ls_run_progress *progress, ls_run_saving *saving, int64_t updates, double *loss) {
    int64_t end = progress->done.updates + updates;
    for (int64_t i = 0; i < updates; i++) {
        ls_train_state state;
        progress->since_report = (ls_micro_result){ 0 };
        LS_TRY(ls_run_advance(session, progress, saving, end, &state));
        if (!loss) continue;
        LS_TRY(ls_micro_result_sum(session->plan->comm, &progress->since_report));
        loss[i] = mean(progress->since_report.loss_sum, progress->since_report.count);
    }
    return LS_SUCCESS;
}
