// trace_window.h - the trace of some updates of a run (--trace).
//
// The spans themselves are held by base/spans.h, once per process: of several runs in a process only one can be
// traced at a time. Traced updates are enqueued one instruction after another, not as captured graphs.
#ifndef LS_TRAIN_TRACE_WINDOW_H
#define LS_TRAIN_TRACE_WINDOW_H

#include "device/timeline.h"
#include "run/trace_events.h"
#include "train/run_progress.h"

struct ls_run_session;

typedef struct {
    int64_t from, to;      // updates
    int64_t next;          // update before which the trace begins or ends; INT64_MAX: none
    ls_timeline *timeline; // NULL: the run is not traced. Owned
    ls_trace_info info;
    double start_s; // on the clock
} ls_run_trace;

// Traces updates [from, to); 0, 0: some 20 after some 10 that warm up, or as many as a short run has. Call once,
// before the first update. LS_USAGE: the run has no such updates. Collective.
LS_CHECKED ls_status ls_run_trace_open(
    struct ls_run_session *session, const ls_run_progress *progress, int64_t from, int64_t to);
// Records what the host did for `update` from start_s (of ls_spans_clock; 0: not traced) until now.
void ls_run_trace_span(ls_span_lane lane, const char *name, int64_t update, double start_s);
void ls_run_trace_close(ls_run_trace *trace); // {0} is allowed
// Call before update trace.next, when nothing is under way: the trace begins or ends. Collective.
LS_CHECKED ls_status ls_run_trace_turn(struct ls_run_session *session, const ls_run_progress *progress);
// Writes the trace of all ranks, after the run; rank 0 writes. Collective; the status is each rank's own.
LS_CHECKED ls_status ls_run_trace_write(
    struct ls_run_session *session, const ls_run_progress *progress, const char *path);

#endif
