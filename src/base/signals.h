// signals.h - requests from outside to stop: SIGTERM, SIGUSR1 and SIGINT are noted, and looked at between updates.
//
// Process-wide on purpose, as signals are. A second SIGINT ends the process at once, as without this.
#ifndef LS_BASE_SIGNALS_H
#define LS_BASE_SIGNALS_H

#include "base/status.h"

LS_CHECKED ls_status ls_signals_listen(void);
void ls_signals_ignore(void);            // as before listen; what was noted is forgotten
int ls_signals_received(void);           // the first that came since listen; 0: none
const char *ls_signals_name(int signal); // "SIGTERM"

#endif
