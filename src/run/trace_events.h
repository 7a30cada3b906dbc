// trace_events.h - this rank's spans (base/spans.h) as events of the Trace Event Format,
// which Perfetto and chrome://tracing open.
//
// A rank is a process, a lane a thread; where spans of a lane overlap, each further one goes to a thread
// of its own ("gradients 2"). Spans are complete events ("X", microseconds) with args update,
// layer, op, algorithm, bytes, GFLOP and the number of the instruction, bucket or micro-batch.
// An arrow leads from the instruction that completes a bucket to it. The counter "exposed communication" holds,
// at the end of each update, how long its buckets were to be reduced while no instruction ran.
//
// Source: Trace Event Format (Chromium project), "Complete", "Flow", "Counter" and "Metadata" events.
#ifndef LS_RUN_TRACE_EVENTS_H
#define LS_RUN_TRACE_EVENTS_H

#include <stddef.h>
#include "dist/clock_align.h"
#include "dist/comm.h"

// What is known of a rank's trace beside its spans; it goes to the args of its process_name.
typedef struct {
    const char *device;          // "cpu: AMD EPYC, 2 threads"
    ls_clock_offset clock;       // to rank 0's
    double device_clock_error_s; // the device's clock on the host's, at most
    // what this rank counted itself over the traced updates
    double comm_exposed_s, loader_wait_s;
} ls_trace_info;

// One event a line, joined by ",\n"; to be freed by the caller. zero_s: the time 0 of the file, on rank 0's clock.
LS_CHECKED ls_status ls_trace_events_text(
    const ls_comm_info *rank, const ls_trace_info *info, double zero_s, char **text, size_t *bytes);

#endif
