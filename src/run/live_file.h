// live_file.h - a file of a run that others read while it grows: metrics.jsonl, TensorBoard's events.
//
// What is put is in the file at once and whole: half of it, which a full disk took, is cut off again, so that the file stays
// what it is when there is room. The first failure is warned of when it happens, since the end of the run may be far, and
// training goes on; closing returns it.
#ifndef LS_RUN_LIVE_FILE_H
#define LS_RUN_LIVE_FILE_H

#include <stddef.h>
#include "base/status.h"

typedef struct ls_live_file ls_live_file;

// how: O_TRUNC, O_EXCL, or 0, which goes on behind what is there. what: is put, for messages: "a line"; a string constant.
// LS_STORAGE: it cannot be made, or is neither a regular file nor a character device.
LS_CHECKED ls_status ls_live_file_open(const char *path, int how, const char *what, ls_live_file **out);
// What follows the last '\n', if anything does, is cut off. LS_STORAGE: it cannot be read.
LS_CHECKED ls_status ls_live_file_cut_half_line(const ls_live_file *file);
void ls_live_file_put(ls_live_file *file, const void *data, size_t bytes);
void ls_live_file_fail(ls_live_file *file, ls_status status); // what should have been put cannot be made
LS_CHECKED ls_status ls_live_file_close(ls_live_file *file);  // frees it; the first failure

#endif
