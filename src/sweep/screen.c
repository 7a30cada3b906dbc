#include "sweep/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"

static const double EVERY_S = 0.5;
enum { COLUMNS_UNKNOWN = 80, ROWS_UNKNOWN = 24, COLUMNS_MAX = 500 };

void ls_sweep_screen_start(ls_sweep_screen *screen, int quiet) {
    const char *term = getenv("TERM");
    *screen = (ls_sweep_screen){ .on = !quiet && term && strcmp(term, "dumb") != 0 && isatty(STDERR_FILENO) };
}

int ls_sweep_screen_is_due(const ls_sweep_screen *screen) {
    return screen->on && ls_clock_seconds() - screen->drawn > EVERY_S;
}

void ls_sweep_screen_clear(ls_sweep_screen *screen) {
    for (; screen->lines > 0; screen->lines--) dprintf(STDERR_FILENO, "\033[1A\033[2K"); // go up a line, erase it
    screen->drawn = 0;
}

void ls_sweep_screen_line(ls_sweep_screen *screen, const char *format, ...) {
    struct winsize size = { 0 };
    char line[COLUMNS_MAX];
    ioctl(STDERR_FILENO, TIOCGWINSZ, &size); // asked each time, because the user may resize the terminal
    const int rows = size.ws_row ? size.ws_row : ROWS_UNKNOWN, columns = size.ws_col ? size.ws_col : COLUMNS_UNKNOWN;
    if (screen->lines + 1 >= rows) return;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "%.*s\n", columns - 1, line);
    screen->lines++;
    screen->drawn = ls_clock_seconds();
}
