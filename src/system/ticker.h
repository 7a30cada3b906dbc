// ticker.h - a thread that calls a function periodically, for watching.
#ifndef LS_SYSTEM_TICKER_H
#define LS_SYSTEM_TICKER_H

#include "base/status.h"

typedef struct ls_ticker ls_ticker;

// Calls tick(context) at once, and then `period_s` after each call has returned, until the ticker is stopped. LS_DEVICE
// if no thread can be started; `what` names the ticker: "watchdog of the device's collectives".
LS_CHECKED ls_status ls_ticker_start(
    const char *what, double period_s, void (*tick)(void *context), void *context, ls_ticker **out);
void ls_ticker_stop(ls_ticker *ticker); // waits for a running call; NULL is allowed

#endif
