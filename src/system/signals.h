// signals.h - requests from outside to stop. SIGTERM, SIGUSR1 and SIGINT are recorded, and the program checks for them
// between updates.
//
// Process-wide on purpose, as signals are. A SIGINT after an earlier one of these signals ends the process at once.
#ifndef LS_SYSTEM_SIGNALS_H
#define LS_SYSTEM_SIGNALS_H

#include "base/status.h"

LS_CHECKED ls_status ls_signals_listen(void);
// Sets the texts that a SIGINT, which a person sends, prints at once on stderr: `first` if it is the first signal, else
// `second`. Both are borrowed until other texts are set. NULL, and before any call: nothing is printed.
void ls_signals_say(const char *first, const char *second);
void ls_signals_ignore(void);            // restores the handlers from before listen; forgets the recorded signal
int ls_signals_received(void);           // the first signal since listen; 0: no signal
const char *ls_signals_name(int signal); // "SIGTERM"

#endif
