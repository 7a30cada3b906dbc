// progress.h - a run's progress for people, on stderr: a bar on a terminal, else plain lines as a batch system's log
// takes them.
#ifndef LS_COMMAND_PROGRESS_H
#define LS_COMMAND_PROGRESS_H

#include "train/trainer.h"

typedef enum { LS_DISPLAY_OFF, LS_DISPLAY_LINES, LS_DISPLAY_BAR } ls_display;

typedef struct {
    ls_display display;
    char launcher[32];    // the terminal by the launcher's stderr, under /proc; "": by this process's
    int width;            // of the terminal, in columns, as of the last redraw
    int colour;           // escape sequences for colour are written
    int unicode;          // the terminal shows UTF-8
    double every_seconds; // between lines
} ls_progress_style;

typedef struct {
    ls_progress_style style;
    int64_t epochs, updates_planned;
    double last_line; // clock at the last line; 0: none yet
    int64_t epoch;    // as last shown, from 1; evaluations in mid-epoch belong to it, too
    int loss_known;   // a record was seen: before it there is no loss to show
    int columns;      // of the bar as last drawn
} ls_progress;

enum { LS_PROGRESS_TEXT_BYTES = 512 };

// log.progress and --quiet, or by what stderr is. Under a launcher stderr does not show where the lines come out, so
// there the launcher's own stderr decides. The width is unknown before the first redraw.
ls_progress_style ls_progress_choose(const ls_config *cfg, const ls_comm_info *comm, int quiet);

void ls_progress_start(ls_progress *progress, ls_progress_style style, const ls_train_info *info);
ls_train_observer ls_progress_observer(ls_progress *progress);
void ls_progress_end(ls_progress *progress); // takes the bar away

// Into how many lines beyond its own a bar of `columns` is broken in a terminal that has become `width` columns wide.
int ls_progress_broken(int columns, int width);
// The texts, without line end, into dst of LS_PROGRESS_TEXT_BYTES; for tests. Return dst.
char *ls_progress_line(char *dst, const ls_progress *progress, const ls_train_progress *p);
// One line of at most style.width - 1 columns: where it is narrow without the bar, then without a field after the other.
char *ls_progress_bar(char *dst, const ls_progress *progress, const ls_train_progress *p);
char *ls_progress_evaluation(char *dst, const ls_progress *progress, const ls_train_evaluation *e);
char *ls_progress_duration(char *dst, size_t bytes, double seconds); // "0:07", "12:34", "1:02:03"; "-" if not finite

#endif
