#include "train/trace_window.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/spans.h"
#include "run/trace_file.h"
#include "train/run_session.h"

enum { WARM_UP = 10, UPDATES = 20 }; // for a trace whose updates the user did not choose
enum { COPIES_UNDER_WAY = 64, BUCKETS_UNDER_WAY = 4096, STEP_SPANS = 16, COMPUTE_UNDER_WAY_MAX = 1 << 15 };

static ls_status choose_updates(ls_run_session *session, const ls_run_progress *progress, int64_t from, int64_t to) {
    const int64_t planned = progress->last, first = progress->done.updates, left = planned - first;
    if (to == 0) {
        from = first + (left >= WARM_UP + UPDATES ? WARM_UP : left / 3);
        to = from + UPDATES < planned ? from + UPDATES : planned;
    }
    if (from >= to || from < first || to > planned)
        return ls_fail(LS_USAGE, "--trace-updates %lld:%lld: the run has updates %lld to %lld, so at most %lld:%lld",
            (long long)from, (long long)to, (long long)first, (long long)planned - 1, (long long)first,
            (long long)planned);
    session->trace.from = from;
    session->trace.to = to;
    return LS_SUCCESS;
}

// Returns the number of compute spans in all updates that may be in progress, up to a limit.
static int64_t compute_under_way(const ls_run_session *session) {
    const ls_run_plan *plan = session->plan;
    int64_t most = 0;
    for (int p = 0; p < LS_RUN_EVAL_PROGRAM; p++)
        if (session->compute.program[p] && session->compute.program[p]->count > most)
            most = session->compute.program[p]->count;
    int64_t micro = most + (plan->cfg->run_deterministic ? plan->graph->param_count : 0) + 1;
    int64_t update = micro * plan->info.batches.per_rank + STEP_SPANS;
    int64_t all = update * session->depth;
    return all < COMPUTE_UNDER_WAY_MAX ? all : COMPUTE_UNDER_WAY_MAX;
}

ls_status ls_run_trace_open(ls_run_session *session, const ls_run_progress *progress, int64_t from, int64_t to) {
    LS_TRY(choose_updates(session, progress, from, to));
    const int room[LS_SPANS_LANE_COUNT] = { [LS_SPANS_COMPUTE] = (int)compute_under_way(session),
        [LS_SPANS_COPIES] = COPIES_UNDER_WAY,
        [LS_SPANS_GRADIENTS] = BUCKETS_UNDER_WAY };
    LS_TRY(ls_timeline_new(session->compute.device, room, &session->trace.timeline));
    LS_TRY(ls_spans_open(LS_SPANS_SPANS));
    ls_spans_window(session->trace.from, session->trace.to);
    ls_update_trace(session->update, session->trace.timeline);
    ls_input_pipeline_trace(session->input, session->trace.timeline);
    session->trace.next = session->trace.from;
    return LS_SUCCESS;
}

void ls_run_trace_span(ls_span_lane lane, const char *name, int64_t update, double start_s) {
    if (start_s == 0) return;
    ls_spans_add(&(ls_span){
        .lane = lane, .name = name, .number = -1, .update = update, .start_s = start_s, .end_s = ls_clock_seconds() });
}

void ls_run_trace_close(ls_run_trace *trace) {
    if (trace->timeline) ls_spans_close(); // at this point no thread adds spans any more
    ls_timeline_free(trace->timeline);
}

static void begin(ls_run_session *session) {
    session->trace.info.comm_exposed_s = -ls_run_session_comm_counts(session).exposed_seconds;
    session->trace.info.loader_wait_s = -ls_run_session_loader_wait_seconds(session);
    session->trace.start_s = ls_clock_seconds();
}

// Ends the trace, and compares the clocks of the ranks now, because the end of the run may be hours away.
static ls_status end(ls_run_session *session) {
    ls_trace_info *facts = &session->trace.info;
    facts->comm_exposed_s += ls_run_session_comm_counts(session).exposed_seconds;
    facts->loader_wait_s += ls_run_session_loader_wait_seconds(session);
    facts->device_clock_error_s = ls_timeline_error_seconds(session->trace.timeline);
    return ls_clock_align(session->plan->comm, NULL, &facts->clock);
}

ls_status ls_run_trace_turn(ls_run_session *session, const ls_run_progress *progress) {
    int begins = session->trace.next == session->trace.from;
    if (begins) LS_TRY(ls_timeline_align(session->trace.timeline, session->compute.queue));
    if (begins) begin(session);
    session->trace.next = ls_spans_at(progress->done.updates);
    return begins ? LS_SUCCESS : end(session);
}

ls_status ls_run_trace_write(ls_run_session *session, const ls_run_progress *progress, const char *path) {
    const ls_run_plan *plan = session->plan;
    char device[sizeof plan->info.device_info.name + 16];
    if (session->trace.next == progress->done.updates)
        LS_TRY(ls_run_trace_turn(session, progress)); // the last update was traced
    snprintf(device, sizeof device, "%s: %s", plan->info.device, plan->info.device_info.name);
    session->trace.info.device = device;
    return ls_trace_file_write(
        path, plan->comm, &session->trace.info, session->trace.from, session->trace.to, session->trace.start_s);
}
