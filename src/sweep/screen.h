// screen.h - a few lines at the bottom of a terminal (standard error) that are written anew; nothing where there is none.
#ifndef LS_SWEEP_SCREEN_H
#define LS_SWEEP_SCREEN_H

#include "base/status.h"

typedef struct {
    int on, lines; // lines: shown now
    double drawn;  // clock
} ls_sweep_screen;

void ls_sweep_screen_start(ls_sweep_screen *screen, int quiet);
int ls_sweep_screen_is_due(const ls_sweep_screen *screen); // twice a second
void ls_sweep_screen_clear(ls_sweep_screen *screen);       // before anything else is printed
// One more line, cut to the terminal's width; none where there is no room for it.
void ls_sweep_screen_line(ls_sweep_screen *screen, const char *format, ...) LS_PRINTF(2, 3);

#endif
