// trace_file.h - the spans of all ranks in one file (trace_events.h: what is in it), gathered to rank 0.
#ifndef LS_RUN_TRACE_FILE_H
#define LS_RUN_TRACE_FILE_H

#include "run/trace_events.h"

// Whether a file can be made there, before hours of training. LS_STORAGE: path and reason.
LS_CHECKED ls_status ls_trace_file_check(const char *path);
// All ranks call it when nothing records; rank 0 writes, atomically. Updates [from, to) were traced; start_s: when that
// began, on this rank's clock. The status is each rank's own.
LS_CHECKED ls_status ls_trace_file_write(
    const char *path, ls_comm *comm, const ls_trace_info *info, int64_t from, int64_t to, double start_s);

#endif
