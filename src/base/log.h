// log.h - messages for people. They go to stderr. If several runs share a process (scope.h), the messages of each run
// go to a log file of its own. Data goes to stdout or files.
//
// One line is one write(), so lines of different ranks do not mix. Only rank 0 prints info and debug lines. Warnings
// and errors of other ranks begin with "rank N: ". An alert is a warning that is printed even with --quiet, for example
// that a damaged checkpoint was skipped.
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include "base/status.h"

typedef enum { LS_LOG_ERROR, LS_LOG_ALERT, LS_LOG_WARNING, LS_LOG_INFO, LS_LOG_DEBUG } ls_log_level;

void ls_log_setup(int rank, int world_size, ls_log_level level); // before this call: rank 0 of 1, level info
void ls_log(ls_log_level level, const char *format, ...) LS_PRINTF(2, 3);
// Prints "error: <text>" for a failure, on each rank that calls it. LS_STOPPED is no error: rank 0 alone prints <text>.
void ls_log_status(ls_status status);
// Shows a progress bar on a terminal: `text`, without a newline, replaces the last line. "" removes the bar. Every
// logged line removes it first.
void ls_log_bar(const char *text);
// Call it when the terminal became narrower and wrapped the bar into `rows` more lines. The next output removes these
// as well.
void ls_log_bar_broken(int rows);
// Call it when another process draws a bar on the same terminal. From now on, every line of this process first removes
// that bar.
void ls_log_beside_bar(void);
int ls_log_lost(void); // errno of the first line that could not be written; 0: all lines were written
#define ls_info(...) ls_log(LS_LOG_INFO, __VA_ARGS__)
#define ls_alert(...) ls_log(LS_LOG_ALERT, __VA_ARGS__)
#define ls_warn(...) ls_log(LS_LOG_WARNING, __VA_ARGS__)

#endif
