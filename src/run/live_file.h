// live_file.h - a file of a run that other programs read while it grows: metrics.jsonl, TensorBoard's events.
//
// Each put writes its data to the file at once and whole. If a full disk took only a part, that part is cut off again,
// so that the file stays valid when there is room again. The first failure is printed as a warning when it happens,
// because the end of the run may be far away. Training continues, and close returns that failure.
#ifndef LS_RUN_LIVE_FILE_H
#define LS_RUN_LIVE_FILE_H

#include <stddef.h>
#include "base/status.h"

typedef struct ls_live_file ls_live_file;

// Opens a file. how: O_TRUNC, O_EXCL, or 0 to append. what: names a piece of data in messages, such as "a line"; a
// string constant. LS_STORAGE: the file cannot be made, or is neither a regular file nor a character device.
LS_CHECKED ls_status ls_live_file_open(const char *path, int how, const char *what, ls_live_file **out);
// Cuts off an unfinished last line: the bytes after the last '\n', at most 64 KiB. Does nothing if the file is not a
// regular file. LS_STORAGE: the file cannot be read or cut.
LS_CHECKED ls_status ls_live_file_cut_half_line(const ls_live_file *file);
void ls_live_file_put(ls_live_file *file, const void *data, size_t bytes);
void ls_live_file_fail(ls_live_file *file, ls_status status); // records a failure to make the data for a put
LS_CHECKED ls_status ls_live_file_close(ls_live_file *file);  // returns the first failure; frees file

#endif
