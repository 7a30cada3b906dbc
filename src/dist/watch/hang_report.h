// hang_report.h - which rank holds a job up, in words: one error line and a table of the ranks. Private to dist/.
#ifndef LS_DIST_WATCH_HANG_REPORT_H
#define LS_DIST_WATCH_HANG_REPORT_H

#include <stddef.h>
#include "dist/watch/heartbeat.h"

enum { LS_HANG_REPORT_BYTES = 8192, LS_HANG_REPORT_ROWS = 16 };

typedef struct {
    double timeout_s; // dist.timeout
    double silent_s;  // a rank without a record for so long counts as silent
} ls_hang_report_limits;

// Writes the line and the table, with its final newline, and returns its bytes. The culprit is, in this order:
// a rank whose process has ended; one whose device's collectives report an error; one that is silent, or that is alive
// but computes while the others wait for it; one that waits for what the others have behind them. Of several, the one
// that has been so for longest. The table has it first, then those in trouble, then the ranks by how many are alike:
// those that differ from the others come before them.
int ls_hang_report_write(
    const ls_heartbeat_table *table, ls_hang_report_limits limits, char text[LS_HANG_REPORT_BYTES]);

#endif
