// stop.h - requests from outside to stop: SIGTERM, SIGUSR1 and SIGINT are noted, and looked at between updates.
//
// Process-wide on purpose, as signals are. A second SIGINT ends the process at once, as without this.
#ifndef LS_BASE_STOP_H
#define LS_BASE_STOP_H

#include "base/status.h"

LS_CHECKED ls_status ls_stop_listen(void);
void ls_stop_ignore(void);            // as before listen; what was noted is forgotten
int ls_stop_signal(void);             // the first that came since listen; 0: none
const char *ls_stop_name(int signal); // "SIGTERM"

#endif
