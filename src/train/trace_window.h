// trace_window.h - records a trace of some updates of a run (--trace).
//
// base/spans.h stores the spans once per process, so only one of several runs in a process can be traced at a time. The
// instructions of traced updates are enqueued one by one, not as captured graphs.
#ifndef LS_TRAIN_TRACE_WINDOW_H
#define LS_TRAIN_TRACE_WINDOW_H

#include "device/timeline.h"
#include "run/trace_events.h"
#include "train/run_progress.h"

struct ls_run_session;

typedef struct {
    int64_t from, to;      // the traced updates are [from, to)
    int64_t next;          // the trace begins or ends before this update; INT64_MAX: it does neither any more
    ls_timeline *timeline; // NULL: the run is not traced. Owned
    ls_trace_info info;
    double start_s; // time at which the trace began
} ls_run_trace;

// Sets up a trace of the updates [from, to). 0, 0: traces 20 updates after 10 warm-up updates, or fewer in a short run.
// Call once, before the first update. LS_USAGE: the run does not have these updates. Collective.
LS_CHECKED ls_status ls_run_trace_open(
    struct ls_run_session *session, const ls_run_progress *progress, int64_t from, int64_t to);
// Records a span of the host's work for `update`, from start_s (ls_spans_clock; 0: not traced) until now.
void ls_run_trace_span(ls_span_lane lane, const char *name, int64_t update, double start_s);
void ls_run_trace_close(ls_run_trace *trace); // {0} is allowed
// Begins or ends the trace. Call before update trace.next, when no update is in progress. Collective.
LS_CHECKED ls_status ls_run_trace_turn(struct ls_run_session *session, const ls_run_progress *progress);
// Rank 0 writes the trace of all ranks after the run. Collective; the status may differ between ranks.
LS_CHECKED ls_status ls_run_trace_write(
    struct ls_run_session *session, const ls_run_progress *progress, const char *path);

#endif
