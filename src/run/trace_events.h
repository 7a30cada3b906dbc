// trace_events.h - writes this rank's spans (base/spans.h) in the Trace Event Format, for Perfetto and
// chrome://tracing.
//
// A rank is a process, and a lane is a thread. If spans of a lane overlap, the further ones get threads of their own
// ("gradients 2"). Spans are complete events ("X", microseconds) with these args: update, layer, op, algorithm, bytes,
// GFLOP, and the number of the instruction, bucket or micro-batch. An arrow leads to a bucket from the instruction that
// completes it. The counter "exposed communication" has a value at the end of each update: the time in which its
// buckets were waiting or being reduced while no instruction ran.
//
// Source: Trace Event Format (Chromium project), "Complete", "Flow", "Counter" and "Metadata" events.
#ifndef LS_RUN_TRACE_EVENTS_H
#define LS_RUN_TRACE_EVENTS_H

#include <stddef.h>
#include "dist/clock_align.h"
#include "dist/comm.h"

// Facts about a rank's trace, written into the args of its process_name event.
typedef struct {
    const char *device;          // "cpu: AMD EPYC, 2 threads"
    ls_clock_offset clock;       // offset of this rank's clock to rank 0's
    double device_clock_error_s; // largest error in converting the device's clock to the host's
    // counted by this rank over the traced updates
    double comm_exposed_s, loader_wait_s;
} ls_trace_info;

// Sets *text to the events, one a line, joined by ",\n"; the caller frees it. zero_s: time 0 of the file on rank 0's
// clock.
LS_CHECKED ls_status ls_trace_events_text(
    const ls_comm_info *rank, const ls_trace_info *info, double zero_s, char **text, size_t *bytes);

#endif
