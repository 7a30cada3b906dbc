#include "sweep/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/text.h"

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

// Asked each time, because the user may resize the terminal.
static struct winsize ask_size(void) {
    struct winsize size = { 0 };
    ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    if (!size.ws_row) size.ws_row = ROWS_UNKNOWN;
    if (!size.ws_col) size.ws_col = COLUMNS_UNKNOWN;
    return size;
}

int ls_sweep_screen_columns(void) {
    return ask_size().ws_col;
}

void ls_sweep_screen_line(ls_sweep_screen *screen, const char *format, ...) {
    char line[COLUMNS_MAX];
    const struct winsize size = ask_size();
    if (screen->lines + 1 >= size.ws_row) return;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    line[ls_text_whole(line, size.ws_col - 1u)] = 0;
    dprintf(STDERR_FILENO, "%s\n", line);
    screen->lines++;
    screen->drawn = ls_clock_seconds();
}
