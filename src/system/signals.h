// signals.h - requests from outside to stop: SIGTERM, SIGUSR1 and SIGINT are noted, and looked at between updates.
//
// Process-wide on purpose, as signals are. A second SIGINT ends the process at once, as without this.
#ifndef LS_SYSTEM_SIGNALS_H
#define LS_SYSTEM_SIGNALS_H

#include "base/status.h"

LS_CHECKED ls_status ls_signals_listen(void);
// What a SIGINT, which a person sends, says on stderr at once: the first one, and another signal before it or not, the second. The texts
// stay there until others are set. NULL: nothing, as before it is called.
void ls_signals_say(const char *first, const char *second);
void ls_signals_ignore(void);            // as before listen; what was noted is forgotten
int ls_signals_received(void);           // the first that came since listen; 0: none
const char *ls_signals_name(int signal); // "SIGTERM"

#endif
