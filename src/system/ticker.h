// ticker.h - a thread that does something again and again, for watching.
#ifndef LS_SYSTEM_TICKER_H
#define LS_SYSTEM_TICKER_H

#include "base/status.h"

typedef struct ls_ticker ls_ticker;

// Calls tick(context) at once, and again period_s after each call has returned, until it is stopped. LS_DEVICE: no
// thread; `what` names the ticker: "watchdog of the device's collectives".
LS_CHECKED ls_status ls_ticker_start(
    const char *what, double period_s, void (*tick)(void *context), void *context, ls_ticker **out);
void ls_ticker_stop(ls_ticker *ticker); // waits for the call that is under way; NULL is allowed

#endif
