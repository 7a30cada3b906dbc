// streams.h - standard input, output and error, and signals about what cannot be written.
//
// Process-wide on purpose, as descriptors and signals are.
#ifndef LS_SYSTEM_STREAMS_H
#define LS_SYSTEM_STREAMS_H

// Before anything is opened: a standard descriptor that is closed would be taken by the next file, and lines for a
// person would land in it. They lead to /dev/null from here on, opened so that using them still fails.
void ls_streams_fill(void);
// A file that may not grow further (ulimit -f) fails to be written, as on a full disk, in place of ending the process;
// keep_on: so does a pipe without a reader (train ... | head).
void ls_streams_fail_quietly(int keep_on);

#endif
