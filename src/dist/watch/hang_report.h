// hang_report.h - says which rank holds a job up: one error line and a table of the ranks. Private to dist/.
#ifndef LS_DIST_WATCH_HANG_REPORT_H
#define LS_DIST_WATCH_HANG_REPORT_H

#include <stddef.h>
#include "dist/watch/heartbeat.h"

enum { LS_HANG_REPORT_BYTES = 8192, LS_HANG_REPORT_ROWS = 16 };

typedef struct {
    double timeout_s; // dist.timeout
    double silent_s;  // a rank without a record for this long counts as silent
} ls_hang_report_limits;

// Writes the line; then the table, if more than one rank was heard; then the culprit's last collectives. Returns the
// bytes written. The culprit is a rank of the first of these kinds; of several, the one in trouble for longest:
//   1. a rank whose process has ended
//   2. a rank whose device's collectives report an error
//   3. a rank that is silent, or that computes while the others wait for it
//   4. a rank that waits for a collective that most others have completed
// Without a culprit, the line names a rank that waits. The table begins with the culprit. Next come other ranks in
// trouble, then groups of equal ranks, the smallest first.
int ls_hang_report_write(
    const ls_heartbeat_table *table, ls_hang_report_limits limits, char text[LS_HANG_REPORT_BYTES]);

#endif
