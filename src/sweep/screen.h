// screen.h - a few status lines at the bottom of the terminal, which are redrawn in place. Nothing is printed with
// `quiet`, if standard error is not a terminal, or if TERM is unset or "dumb".
#ifndef LS_SWEEP_SCREEN_H
#define LS_SWEEP_SCREEN_H

#include "base/status.h"

typedef struct {
    int on, lines; // on: 0 prints nothing; lines: number of lines on the terminal now
    double drawn;  // time of the last drawing (ls_clock_seconds); 0: cleared since then
} ls_sweep_screen;

void ls_sweep_screen_start(ls_sweep_screen *screen, int quiet);
int ls_sweep_screen_is_due(const ls_sweep_screen *screen); // on, and either cleared or drawn over 0.5 s ago
void ls_sweep_screen_clear(ls_sweep_screen *screen);       // call before other text is printed
int ls_sweep_screen_columns(void);                         // of the terminal; not known: 80
// Prints one status line, cut to the terminal's width, if a row is left. Call it once the screen is due and cleared.
void ls_sweep_screen_line(ls_sweep_screen *screen, const char *format, ...) LS_PRINTF(2, 3);

#endif
