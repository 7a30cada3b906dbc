// trace_window.c - a trainer's trace: which updates, when it begins and ends, and what goes into the file beside the spans.
#include <stdio.h>
#include "base/clock.h"
#include "base/spans.h"
#include "files/trace_file.h"
#include "train/trainer_internal.h"

enum { WARM_UP = 10, UPDATES = 20 }; // of a trace whose updates are not chosen
enum { COPIES_UNDER_WAY = 64, BUCKETS_UNDER_WAY = 4096, STEP_SPANS = 16, COMPUTE_UNDER_WAY_MAX = 1 << 15 };

static ls_status choose_updates(ls_trainer *t, int64_t from, int64_t to) {
    const int64_t planned = t->plan.info.updates_planned, first = t->progress.done.updates, left = planned - first;
    if (to == 0) {
        from = first + (left >= WARM_UP + UPDATES ? WARM_UP : left / 3);
        to = from + UPDATES < planned ? from + UPDATES : planned;
    }
    if (from >= to || from < first || to > planned)
        return ls_fail(LS_USAGE, "--trace-updates %lld:%lld: the run has updates %lld to %lld, so at most %lld:%lld",
            (long long)from, (long long)to, (long long)first, (long long)planned - 1, (long long)first,
            (long long)planned);
    t->session.trace.from = from;
    t->session.trace.to = to;
    return LS_SUCCESS;
}

// As many as the updates that may be under way have.
static int64_t compute_under_way(const ls_trainer *t) {
    int64_t most = 0;
    for (int p = 0; p < LS_RUN_EVAL_PROGRAM; p++)
        if (t->session.compute.program[p] && t->session.compute.program[p]->count > most)
            most = t->session.compute.program[p]->count;
    int64_t micro = most + (t->plan.cfg->run_deterministic ? t->plan.graph->param_count : 0) + 1;
    int64_t update = micro * t->plan.info.batches.per_rank + STEP_SPANS;
    int64_t all = update * t->session.depth;
    return all < COMPUTE_UNDER_WAY_MAX ? all : COMPUTE_UNDER_WAY_MAX;
}

ls_status ls_trainer_trace(ls_trainer *t, int64_t from, int64_t to) {
    LS_TRY(choose_updates(t, from, to));
    const int room[LS_SPANS_LANE_COUNT] = { [LS_SPANS_COMPUTE] = (int)compute_under_way(t),
        [LS_SPANS_COPIES] = COPIES_UNDER_WAY,
        [LS_SPANS_GRADIENTS] = BUCKETS_UNDER_WAY };
    LS_TRY(ls_timeline_new(t->session.compute.device, room, &t->session.trace.timeline));
    LS_TRY(ls_spans_open(LS_SPANS_SPANS));
    ls_spans_window(t->session.trace.from, t->session.trace.to);
    ls_update_trace(t->session.update, t->session.trace.timeline);
    ls_input_pipeline_trace(t->session.input, t->session.trace.timeline);
    t->session.trace.next = t->session.trace.from;
    return LS_SUCCESS;
}

static void begin(ls_trainer *t) {
    t->session.trace.info.comm_exposed_s = -ls_trainer_comm_counts(t).exposed_seconds;
    t->session.trace.info.loader_wait_s = -ls_trainer_loader_wait_seconds(t);
    t->session.trace.start_s = ls_clock_seconds();
}

// The ranks' clocks are compared now, not at the run's end, which may be hours away.
static ls_status end(ls_trainer *t) {
    ls_trace_info *facts = &t->session.trace.info;
    facts->comm_exposed_s += ls_trainer_comm_counts(t).exposed_seconds;
    facts->loader_wait_s += ls_trainer_loader_wait_seconds(t);
    facts->device_clock_error_s = ls_timeline_error_seconds(t->session.trace.timeline);
    return ls_clock_align(t->plan.comm, NULL, &facts->clock);
}

ls_status ls_trainer_turn_trace(ls_trainer *t) {
    int begins = t->session.trace.next == t->session.trace.from;
    if (begins) LS_TRY(ls_timeline_align(t->session.trace.timeline, t->session.compute.queue));
    if (begins) begin(t);
    t->session.trace.next = ls_spans_at(t->progress.done.updates);
    return begins ? LS_SUCCESS : end(t);
}

ls_status ls_trainer_write_trace(ls_trainer *t, const char *path) {
    char device[sizeof t->plan.info.device_info.name + 16];
    if (t->session.trace.next == t->progress.done.updates)
        LS_TRY(ls_trainer_turn_trace(t)); // the last update was traced
    snprintf(device, sizeof device, "%s: %s", t->plan.info.device, t->plan.info.device_info.name);
    t->session.trace.info.device = device;
    return ls_trace_file_write(path, t->plan.comm, &t->session.trace.info, t->session.trace.from, t->session.trace.to,
        t->session.trace.start_s);
}
