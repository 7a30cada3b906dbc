// device_watch.h - polls the state of a device's collectives, in a thread of its own: a library that hangs in the call
// does not hold up the watchdog. Private to dist/.
#ifndef LS_DIST_DEVICE_WATCH_H
#define LS_DIST_DEVICE_WATCH_H

#include <stddef.h>
#include "base/status.h"
#include "device/collective.h"

typedef struct ls_device_watch ls_device_watch;

LS_CHECKED ls_status ls_device_watch_new(
    const ls_collective_api *api, ls_collective *collective, ls_device_watch **out);
void ls_device_watch_free(ls_device_watch *watch); // NULL is allowed; before the collective is closed
// 1: the collectives have failed; the text of it.
int ls_device_watch_failed(ls_device_watch *watch, char *text, size_t bytes);
ls_collective_progress ls_device_watch_progress(ls_device_watch *watch);

#endif
