// log.h - lines for people, on stderr; data goes to stdout or files.
//
// One line is one write(), so lines of different ranks do not mix. Only rank 0 prints info lines; warnings and errors
// of other ranks carry "rank N: ". An alert is a warning that --quiet prints, too: of what a run is made from, or loses.
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include "base/status.h"

typedef enum { LS_LOG_ERROR, LS_LOG_ALERT, LS_LOG_WARNING, LS_LOG_INFO, LS_LOG_DEBUG } ls_log_level;

void ls_log_setup(int rank, int world_size, ls_log_level level); // before it: rank 0 of 1, info
void ls_log(ls_log_level level, const char *format, ...) LS_PRINTF(2, 3);
// "error: <text>" once; the caller decides which rank calls it. LS_STOPPED is no error: its text alone, from rank 0.
void ls_log_status(ls_status status);
// A bar on a terminal: text, without a newline, stands in the last line in place of the one before; "" takes it away. Lines that are
// logged take it away first.
void ls_log_bar(const char *text);
// The terminal has become narrower and has broken the bar into so many further lines: the next line takes them away, too.
void ls_log_bar_broken(int rows);
// Another process draws one on the terminal that these lines come out on: each of them takes it away.
void ls_log_beside_bar(void);
int ls_log_lost(void); // errno of the first line that could not be written; 0: none
#define ls_info(...) ls_log(LS_LOG_INFO, __VA_ARGS__)
#define ls_alert(...) ls_log(LS_LOG_ALERT, __VA_ARGS__)
#define ls_warn(...) ls_log(LS_LOG_WARNING, __VA_ARGS__)

#endif
