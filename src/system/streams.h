// streams.h - standard input, output and error, and signals about failed writes.
//
// Process-wide on purpose, as descriptors and signals are.
#ifndef LS_SYSTEM_STREAMS_H
#define LS_SYSTEM_STREAMS_H

// Call before any file is opened: the next opened file would take the number of a closed standard descriptor, and
// messages would be written into that file. Closed descriptors are opened on /dev/null, but so that using them still
// fails.
void ls_streams_fill(void);
// After this call, writing a file beyond its size limit (ulimit -f) fails, as on a full disk, instead of ending the
// process. keep_on: so does writing to a pipe without a reader (train ... | head).
void ls_streams_fail_quietly(int keep_on);

#endif
