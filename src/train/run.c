// run.c - updates, epochs, reports.
#include <math.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/trainer_internal.h"

static const double REFRESH_SECONDS = 0.1; // between refreshes of a display

// --- one update
// -----------------------------------------------------------------------------------------------------------

static ls_status start_loader(ls_trainer *t) {
    const ls_config *cfg = t->cfg;
    ls_loader_options options = {
        .dataset = t->train_data,
        .batches = t->facts.batches,
        .seed = (uint64_t)cfg->run_seed,
        .shuffle = cfg->data_shuffle,
        .pad = (int)cfg->data_pad,
        .flip = cfg->data_flip,
        .first_epoch = t->epoch,
        .first_window = t->window,
        .epochs = INT32_MAX, // the run decides when it ends, not the loader
        .workers = (int)cfg->data_workers,
        .slots = t->ring.slots,
        .slot_count = t->ring.count,
    };
    return ls_loader_new(&options, &t->loader);
}

// How many of the window's micro-batches fall to this rank: fewer, or none, in a short last window.
static int my_micro_batches(const ls_batches *b, int64_t window) {
    int mine = 0;
    for (int j = b->rank * b->per_rank; j < (b->rank + 1) * b->per_rank; j++)
        mine += ls_batches_micro_samples(b, window, j) > 0;
    return mine;
}

static int all_micro_batches(const ls_batches *b, int64_t window) {
    int all = 0;
    for (int j = 0; j < b->micro_batches; j++) all += ls_batches_micro_samples(b, window, j) > 0;
    return all;
}

void ls_trainer_slot_inputs(const ls_trainer *t, const ls_trainer_ring *ring, int slot, ls_program_inputs *inputs) {
    inputs->buffer[LS_INPUT_PIXELS] = ring->pixels[slot];
    inputs->buffer[LS_INPUT_LABELS] = ring->labels[slot];
    inputs->buffer[LS_INPUT_PLACEMENT] = ring->placement[slot];
    inputs->buffer[LS_INPUT_TABLE] = ls_buffer_at(t->table, 0, t->table->bytes);
}

static ls_status run_micro_batch(ls_trainer *t) {
    ls_batch batch;
    LS_TRY(ls_loader_acquire(t->loader, &batch));
    ls_program_inputs inputs;
    ls_trainer_slot_inputs(t, &t->ring, batch.slot, &inputs);
    ls_update_inputs(t->update, &inputs);
    const ls_program *program = batch.count == t->facts.batches.micro_batch ? t->full : t->tail;
    ls_micro_input micro = { .count = batch.count, .update = (uint32_t)t->updates, .position = batch.position };
    ls_update_micro(t->update, program, &inputs, &micro);
    ls_loader_release(t->loader, &batch);
    return LS_SUCCESS;
}

static void add_result(ls_micro_result *sum, const ls_micro_result *more) {
    sum->loss_sum += more->loss_sum;
    sum->correct += more->correct;
    sum->count += more->count;
    sum->bad += more->bad;
}

// Says which tensor went wrong first, for all ranks alike; whether the loss itself was not finite, too. All ranks call
// it.
static ls_status numeric_failure(ls_trainer *t, const ls_train_state *state, int64_t bad_losses) {
    int32_t first = ls_update_first_bad(t->update);
    if (first < 0) first = INT32_MAX;
    LS_TRY(ls_comm_allreduce(t->comm, &first, 1, LS_I32, LS_REDUCE_MIN));
    const char *name = first == INT32_MAX ? "unknown" : t->graph->params[first].name;
    if (bad_losses)
        return ls_fail(LS_NUMERIC,
            "update %lld (epoch %lld): the loss of %lld samples is not finite, and so are gradients, first that of %s: "
            "the network "
            "diverged (this is no overflow of the loss scale); lower optimizer.rate, or set train.clip_norm or a "
            "warm-up",
            (long long)t->updates, (long long)t->epoch, (long long)bad_losses, name);
    if (t->arenas->storage != LS_F16)
        return ls_fail(LS_NUMERIC,
            "update %lld (epoch %lld): the gradient is not finite, first that of %s; lower optimizer.rate, or set "
            "train.clip_norm or "
            "a warm-up",
            (long long)t->updates, (long long)t->epoch, name);
    return ls_fail(LS_NUMERIC,
        "update %lld (epoch %lld): %d updates in a row overflowed in fp16 (loss_scale.max_skips = %lld), the loss "
        "scale is down to %g; "
        "the first gradient that is not finite is that of %s; try train.precision = bf16 or fp32, or a lower "
        "optimizer.rate",
        (long long)t->updates, (long long)t->epoch, state->skipped_in_row, (long long)t->cfg->loss_scale_max_skips,
        (double)state->loss_scale, name);
}

static ls_status judge_skip(ls_trainer *t, const ls_train_state *state, int64_t bad_losses) {
    if (!state->skip) return LS_SUCCESS; // decided on the reduced gradient: all ranks are here, or none
    LS_TRY(ls_comm_allreduce(t->comm, &bad_losses, 1, LS_I64, LS_REDUCE_SUM));
    int scaled = t->arenas->storage == LS_F16;
    int at_floor = (double)state->loss_scale <= t->cfg->loss_scale_minimum && state->skipped_in_row > 1;
    if (!scaled || at_floor || state->skipped_in_row >= t->cfg->loss_scale_max_skips || bad_losses)
        return numeric_failure(t, state, bad_losses);
    return LS_SUCCESS;
}

static void move_on(ls_trainer *t, int samples) {
    t->samples += samples;
    t->updates++;
    if (++t->window == t->facts.batches.windows) {
        t->window = 0;
        t->epoch++;
    }
}

ls_status ls_trainer_update(ls_trainer *t, ls_train_state *state) {
    const ls_batches *b = &t->facts.batches;
    if (!t->loader) LS_TRY(start_loader(t));
    int samples = ls_batches_window_samples(b, t->window);
    ls_window window = {
        .samples = samples,
        .micro_batches = all_micro_batches(b, t->window),
        .mine = my_micro_batches(b, t->window),
        .lr = (float)(t->cfg->optimizer_rate * ls_schedule_factor(&t->schedule, (double)t->samples)),
        .number = t->updates,
    };
    ls_comm_phase(t->comm, "forward and backward", t->updates);
    ls_update_begin(t->update, &window);
    for (int m = 0; m < window.mine; m++) LS_TRY(run_micro_batch(t));
    ls_comm_phase(t->comm, "reducing gradients", t->updates);
    LS_TRY(ls_update_end(t->update, state));
    t->skipped = state->skipped;
    ls_micro_result result;
    LS_TRY(ls_update_take_result(t->update, &result));
    add_result(&t->since_report, &result);
    add_result(&t->of_epoch, &result);
    LS_TRY(judge_skip(t, state, result.bad));
    move_on(t, samples);
    return LS_SUCCESS;
}

// --- reports
// --------------------------------------------------------------------------------------------------------------

// Sums over all ranks.
static ls_status reduce_result(ls_trainer *t, ls_micro_result *result) {
    double sums[3] = { result->loss_sum, (double)result->correct, (double)result->count };
    LS_TRY(ls_comm_allreduce(t->comm, sums, 3, LS_F64, LS_REDUCE_SUM));
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
    double training_seconds; // steady state: updates after the first, without evaluation
    int64_t training_samples;
    double first_update; // since process start
    uint64_t allocations;
    ls_train_progress progress;
    ls_train_evaluation evaluation;
    double epoch_loss;
} run_state;

static void show(const ls_trainer *t, const run_state *run) {
    if (t->facts.comm->rank != 0) return;
    for (int i = 0; i < run->observer_count; i++)
        if (run->observers[i].progress) run->observers[i].progress(run->observers[i].context, &run->progress);
}

static void measure(ls_trainer *t, run_state *run, const ls_train_state *state, double now) {
    ls_train_progress *p = &run->progress;
    int64_t windows = t->facts.batches.windows;
    p->update = t->updates;
    p->epoch = (t->updates - 1) / windows;
    p->epoch_progress = (double)(t->updates - p->epoch * windows) / (double)windows;
    p->samples_seen = t->samples;
    p->learning_rate = (double)state->lr;
    p->loss_scale = (double)state->loss_scale;
    p->grad_norm = (double)state->grad_norm;
    p->skipped = t->skipped;
    p->seconds = now - run->start;
    p->seconds_left = run->training_samples
                          ? run->training_seconds / (double)run->training_samples * (double)t->facts.batches.samples *
                                (double)(t->facts.updates_planned - t->updates) / (double)windows
                          : 0;
    double since = now - run->last_report;
    if (since > 0 && t->samples > run->samples_at_report)
        p->images_per_second = (double)(t->samples - run->samples_at_report) / since;
    p->loader_wait_seconds = ls_trainer_loader_wait_seconds(t);
    p->comm_seconds_exposed = ls_trainer_comm_seconds_exposed(t);
}

// A record is due at the same updates on all ranks; a refresh is rank 0's own affair.
static ls_status report(ls_trainer *t, run_state *run, const ls_train_state *state, int epoch_ended) {
    double now = ls_clock_seconds();
    int last = t->updates == t->facts.updates_planned;
    run->progress.record = t->updates % t->cfg->log_every == 0 || epoch_ended || last;
    if (!run->progress.record && now - run->last_refresh < REFRESH_SECONDS) return LS_SUCCESS;
    measure(t, run, state, now);
    run->last_refresh = now;
    if (run->progress.record) {
        LS_TRY(reduce_result(t, &t->since_report));
        run->progress.train_loss = mean(t->since_report.loss_sum, t->since_report.count);
        run->progress.train_accuracy = mean((double)t->since_report.correct, t->since_report.count);
        t->since_report = (ls_micro_result){ 0 };
    }
    show(t, run);
    if (run->progress.record) {
        run->last_report = now;
        run->samples_at_report = t->samples;
    }
    return LS_SUCCESS;
}

static ls_status end_epoch(ls_trainer *t, run_state *run, int last) {
    LS_TRY(reduce_result(t, &t->of_epoch));
    run->epoch_loss = mean(t->of_epoch.loss_sum, t->of_epoch.count);
    t->of_epoch = (ls_micro_result){ 0 };
    int64_t every = t->cfg->train_eval_every;
    if (!last && (every == 0 || t->epoch % every != 0)) return LS_SUCCESS;
    double before = ls_clock_seconds();
    LS_TRY(ls_trainer_evaluate(t, &run->evaluation));
    for (int i = 0; t->facts.comm->rank == 0 && i < run->observer_count; i++)
        if (run->observers[i].evaluated) run->observers[i].evaluated(run->observers[i].context, &run->evaluation);
    run->last_report += ls_clock_seconds() - before; // evaluation does not count against the rate
    return LS_SUCCESS;
}

static ls_status run_updates(ls_trainer *t, run_state *run) {
    while (t->updates < t->facts.updates_planned) {
        double before = ls_clock_seconds();
        int64_t samples = t->samples, epoch = t->epoch;
        uint64_t allocations = ls_allocation_count();
        ls_train_state state;
        LS_TRY(ls_trainer_update(t, &state));
        if (run->first_update > 0) {
            run->training_seconds += ls_clock_seconds() - before;
            run->training_samples += t->samples - samples;
            if (t->updates > 2) run->allocations += ls_allocation_count() - allocations;
        } else {
            run->first_update = ls_clock_since_process_start();
        }
        int last = t->updates == t->facts.updates_planned;
        LS_TRY(report(t, run, &state, t->epoch != epoch));
        if (t->epoch != epoch || last) LS_TRY(end_epoch(t, run, last));
    }
    return LS_SUCCESS;
}

// Means and maxima over ranks.
static ls_status summarise(ls_trainer *t, const run_state *run, ls_train_summary *s) {
    double world = t->facts.comm->world_size;
    double sums[2] = { ls_trainer_comm_seconds_exposed(t), ls_trainer_loader_wait_seconds(t) };
    double peaks[3] = { (double)ls_memory_peak_bytes(), (double)ls_trainer_device_bytes(t), run->first_update };
    LS_TRY(ls_comm_allreduce(t->comm, sums, 2, LS_F64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(t->comm, peaks, 3, LS_F64, LS_REDUCE_MAX));
    *s = (ls_train_summary){
        .status = "completed",
        .epochs = t->epoch,
        .updates = t->updates,
        .skipped = t->skipped,
        .samples_seen = t->samples,
        .train_loss = run->epoch_loss,
        .test_loss = run->evaluation.test_loss,
        .test_accuracy = run->evaluation.test_accuracy,
        .test_samples = run->evaluation.test_samples,
        .train_images_per_second =
            run->training_seconds > 0 ? (double)run->training_samples / run->training_seconds : 0,
        .wall_seconds = ls_clock_seconds() - run->start,
        .time_to_first_update_seconds = peaks[2],
        .comm_seconds_exposed = sums[0] / world,
        .loader_wait_seconds = sums[1] / world,
        .peak_device_bytes = (size_t)peaks[1],
        .peak_host_bytes = (size_t)peaks[0],
        .allocations_in_updates = run->allocations,
    };
    return ls_arenas_hash(t->arenas, &s->weights_hash);
}

ls_status ls_trainer_run(
    ls_trainer *t, const ls_train_observer *observers, int observer_count, ls_train_summary *summary) {
    double now = ls_clock_seconds();
    run_state run = { .observers = observers, .observer_count = observer_count, .start = now, .last_report = now };
    LS_TRY(run_updates(t, &run));
    return summarise(t, &run, summary);
}

ls_status ls_trainer_updates(ls_trainer *t, int64_t updates, double *loss) {
    for (int64_t i = 0; i < updates; i++) {
        ls_train_state state;
        t->since_report = (ls_micro_result){ 0 };
        LS_TRY(ls_trainer_update(t, &state));
        if (!loss) continue;
        LS_TRY(reduce_result(t, &t->since_report));
        loss[i] = mean(t->since_report.loss_sum, t->since_report.count);
    }
    return LS_SUCCESS;
}

double ls_trainer_loader_wait_seconds(const ls_trainer *t) {
    return t->loader_wait_seconds + (t->loader ? ls_loader_wait_seconds(t->loader) : 0);
}

double ls_trainer_comm_seconds_exposed(const ls_trainer *t) {
    return ls_update_comm_seconds_exposed(t->update);
}
