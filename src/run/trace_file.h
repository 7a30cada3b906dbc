// trace_file.h - writes the spans of all ranks into one file (format: trace_events.h). Rank 0 gathers them.
#ifndef LS_RUN_TRACE_FILE_H
#define LS_RUN_TRACE_FILE_H

#include "run/trace_events.h"

// Checks before the training that a file can be made at `path`. LS_STORAGE names the path and the reason.
LS_CHECKED ls_status ls_trace_file_check(const char *path);
// Rank 0 writes the spans of all ranks, atomically. Collective; call it while no span is being recorded. The updates
// from..to-1 were traced. start_s: time at which tracing began, on this rank's clock. Ranks' statuses may differ.
LS_CHECKED ls_status ls_trace_file_write(
    const char *path, ls_comm *comm, const ls_trace_info *info, int64_t from, int64_t to, double start_s);

#endif
