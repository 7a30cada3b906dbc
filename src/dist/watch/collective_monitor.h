// collective_monitor.h - polls the state of a device's collectives in a thread of its own, so that a library that hangs
// in the call does not stop the watchdog. Private to dist/.
#ifndef LS_DIST_WATCH_COLLECTIVE_MONITOR_H
#define LS_DIST_WATCH_COLLECTIVE_MONITOR_H

#include <stddef.h>
#include "base/status.h"
#include "device/collective.h"

typedef struct ls_collective_monitor ls_collective_monitor;

LS_CHECKED ls_status ls_collective_monitor_new(
    const ls_collective_api *api, ls_collective *collective, ls_collective_monitor **out);
void ls_collective_monitor_free(ls_collective_monitor *monitor); // NULL is allowed; close the collective afterwards
// Returns 1 if the collectives have failed, with the failure's text.
int ls_collective_monitor_failed(ls_collective_monitor *monitor, char *text, size_t bytes);
ls_collective_progress ls_collective_monitor_progress(ls_collective_monitor *monitor);

#endif
