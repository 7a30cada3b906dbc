// progress.h - the progress of a run on stderr, for people: a bar on a terminal, otherwise plain lines, which suit the
// log of a batch system.
#ifndef LS_COMMAND_PROGRESS_H
#define LS_COMMAND_PROGRESS_H

#include "train/trainer.h"

typedef enum { LS_DISPLAY_OFF, LS_DISPLAY_LINES, LS_DISPLAY_BAR } ls_display;

typedef struct {
    ls_display display;
    char launcher[32];    // path under /proc of the launcher's stderr, if that is the terminal; "": use our own stderr
    int width;            // columns of the terminal at the last redraw
    int colour;           // 1: write escape sequences for colour
    int unicode;          // 1: the terminal shows UTF-8
    double every_seconds; // least time between two plain lines
} ls_progress_style;

typedef struct {
    ls_progress_style style;
    int64_t epochs, updates_planned;
    double last_line; // time of the last plain line (ls_clock_seconds); 0: no line yet
    int64_t epoch;    // epoch shown last, counted from 1; the line about an evaluation shows it again
    int loss_known;   // 1: a record has come; before the first record there is no loss to show
    int columns;      // columns of the bar that is now on the terminal; 0: no bar
} ls_progress;

enum { LS_PROGRESS_TEXT_BYTES = 512 };

// Chooses the display by --quiet and log.progress, or else by whether stderr is a terminal. Under a launcher our stderr
// is a pipe, so the launcher's stderr decides. `width` is 0 until the first redraw.
ls_progress_style ls_progress_choose(const ls_config *cfg, const ls_comm_info *comm, int quiet);

void ls_progress_start(ls_progress *progress, ls_progress_style style, const ls_train_info *info);
ls_train_observer ls_progress_observer(ls_progress *progress);
void ls_progress_end(ls_progress *progress); // removes the bar

// Returns how many additional lines a bar of `columns` columns takes up after the terminal became `width` columns wide.
int ls_progress_broken(int columns, int width);
// Writes the plain line of a run's progress, without a newline, into dst (LS_PROGRESS_TEXT_BYTES). Returns dst.
char *ls_progress_line(char *dst, const ls_progress *progress, const ls_train_progress *p);
// Writes the progress bar, at most style.width - 1 columns wide, into dst. Returns dst. In a narrow terminal fields,
// bar and epoch are left out.
char *ls_progress_bar(char *dst, const ls_progress *progress, const ls_train_progress *p);
char *ls_progress_evaluation(char *dst, const ls_progress *progress, const ls_train_evaluation *e);
char *ls_progress_duration(char *dst, size_t bytes, double seconds); // "0:07", "12:34", "1:02:03"; "-" if not finite

#endif
