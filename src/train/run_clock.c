#include "train/run_clock.h"

#include <math.h>
#include "base/clock.h"
#include "system/sched_wait.h"

static const double CORE_WAIT_EVERY_S = 0.2; // not more often, because reading it opens a file for each thread

// Reads the counters of loader, reducer and update. They have counted since the session was opened.
static ls_run_time counters(const ls_run_session *session, const ls_run_progress *progress) {
    ls_run_time c = { .loader_wait = ls_run_session_loader_wait_seconds(session),
        .communication = ls_run_session_comm_counts(session).exposed_seconds };
    const double *kinds = ls_update_kind_seconds(session->update);
    c.kinds_known = kinds != NULL;
    for (int k = 0; kinds && k < LS_OP_KIND_COUNT; k++) c.kind[k] = kinds[k];
    c.enqueue = -progress->device_wait_s - ls_input_pipeline_device_wait_seconds(session->input);
    return c;
}

void ls_run_clock_start(ls_run_clock *clock, const ls_run_session *session, const ls_run_progress *progress) {
    *clock = (ls_run_clock){ .start_s = ls_clock_seconds(), .before = counters(session, progress) };
    clock->before.core_wait = ls_sched_wait_seconds();
    clock->core_looked_s = clock->start_s;
}

void ls_run_clock_add(ls_run_clock *clock, ls_run_phase phase, double seconds) {
    if (clock->start_s == 0) return;
    double *sums[] = { [LS_RUN_UPDATES] = &clock->updates,
        [LS_RUN_EVALUATION] = &clock->last.evaluation,
        [LS_RUN_CHECKPOINT] = &clock->last.checkpoint };
    *sums[phase] += seconds;
}

static void read_computed(ls_run_clock *clock, const ls_run_time *now) {
    ls_run_time *time = &clock->last;
    double sum = 0;
    for (int k = 0; k < LS_OP_KIND_COUNT; k++) sum += time->kind[k] = now->kind[k] - clock->before.kind[k];
    // If not all micro-batches were timed (program/work_clock.h), the sum is an estimate.
    time->compute = fmin(sum, fmax(0, clock->updates - time->loader_wait - time->communication));
    for (int k = 0; k < LS_OP_KIND_COUNT && sum > 0; k++) time->kind[k] *= time->compute / sum;
    time->enqueue = NAN;
}

// Splits the time of updates into compute, communication and enqueueing, on a device that runs enqueued work later: the
// device computes while the host enqueues or waits for the device. With sums through host memory the host also waits
// for gradients that are still being computed; that cannot be measured here, so `enqueue` is unknown.
static void read_enqueued(ls_run_clock *clock, const ls_run_time *now, int host_sums) {
    ls_run_time *time = &clock->last;
    const double rest = fmax(0, clock->updates - time->loader_wait);
    // measured by the device's clock, so it may exceed the host's time
    time->communication = fmin(time->communication, rest);
    time->compute = rest - time->communication;
    const double busy = rest + now->enqueue - clock->before.enqueue;
    time->enqueue = host_sums ? NAN : fmax(0, fmin(busy, time->compute));
}

const ls_run_time *ls_run_clock_read(
    ls_run_clock *clock, const ls_run_session *session, const ls_run_progress *progress) {
    ls_run_time *time = &clock->last;
    if (clock->start_s == 0) return time;
    const ls_run_time now = counters(session, progress);
    const double now_s = ls_clock_seconds();
    time->seconds = now_s - clock->start_s;
    time->loader_wait = now.loader_wait - clock->before.loader_wait;
    time->communication = now.communication - clock->before.communication;
    time->kinds_known = now.kinds_known;
    if (now.kinds_known)
        read_computed(clock, &now);
    else
        read_enqueued(clock, &now, session->plan->info.comm->world_size > 1 && !session->collective);
    if (now_s - clock->core_looked_s < CORE_WAIT_EVERY_S) return time;
    clock->core_looked_s = now_s;
    // fmax, because the sum falls when a thread ends
    time->core_wait = fmax(time->core_wait, ls_sched_wait_seconds() - clock->before.core_wait);
    return time;
}
