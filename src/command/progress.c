#include "command/progress.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/scope.h"
#include "base/text.h"
#include "command/launcher.h"

enum { BAR_COLUMNS_MAX = 40, BAR_COLUMNS_MIN = 5, COLUMNS_UNKNOWN = 60 };

// ---- the terminal ----

static int is_terminal(const char *path) {
    char target[64];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return 0;
    target[length] = '\0';
    return strncmp(target, "/dev/pts/", 9) == 0 || strncmp(target, "/dev/tty", 8) == 0 ||
           strcmp(target, "/dev/console") == 0;
}

static int stderr_is_terminal(const ls_comm_info *comm, const char *launcher) {
    const char *term = getenv("TERM");
    if (ls_scope_is_of_run()) return 0; // stderr shows the sweep
    if (!term || strcmp(term, "dumb") == 0) return 0;
    if (launcher[0]) return is_terminal(launcher) && !ls_launcher_changes_lines();
    // Ranks of another launcher cannot know where their stderr ends up. Without a launcher (backend
    // "self") stderr is our own.
    return strcmp(comm->backend, "self") == 0 && isatty(STDERR_FILENO);
}

// Returns the width of the terminal. It is asked for at each redraw, because the user may resize the terminal. Under a
// launcher our stderr is a pipe, so the launcher's stderr is asked.
static int terminal_columns(const ls_progress_style *style) {
    struct winsize size = { 0 };
    int fd = style->launcher[0] ? open(style->launcher, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : STDERR_FILENO;
    int known = fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    if (fd >= 0 && fd != STDERR_FILENO) close(fd);
    if (known) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    int value = columns ? atoi(columns) : 0;
    return value > 0 ? value : COLUMNS_UNKNOWN;
}

// Returns 1 if a shell has put this job into the background, where it must not draw on the terminal.
static int in_background(const ls_progress_style *style) {
    const pid_t foreground = style->launcher[0] ? -1 : tcgetpgrp(STDERR_FILENO);
    return foreground > 0 && foreground != getpgrp();
}

static int speaks_utf8(void) {
    static const char *const variables[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value && value[0]) return strstr(value, "UTF-8") || strstr(value, "utf8");
    }
    return 0;
}

ls_progress_style ls_progress_choose(const ls_config *cfg, const ls_comm_info *comm, int quiet) {
    const char *no_colour = getenv("NO_COLOR");
    ls_progress_style style = { .unicode = speaks_utf8(), .every_seconds = cfg->log_every_seconds };
    if (ls_launcher_is_parent()) snprintf(style.launcher, sizeof style.launcher, "/proc/%d/fd/2", (int)getppid());
    const int terminal = stderr_is_terminal(comm, style.launcher);
    style.display = terminal ? LS_DISPLAY_BAR : LS_DISPLAY_LINES;
    style.colour = terminal && !(no_colour && no_colour[0]);
    if (!terminal) style.launcher[0] = '\0';
    if (cfg->log_progress == LS_PROGRESS_BAR) style.display = LS_DISPLAY_BAR;
    if (cfg->log_progress == LS_PROGRESS_LINES) style.display = LS_DISPLAY_LINES;
    if (cfg->log_progress == LS_PROGRESS_OFF || quiet) style.display = LS_DISPLAY_OFF;
    return style;
}

// ---- texts ----

char *ls_progress_duration(char *dst, size_t bytes, double seconds) {
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        snprintf(dst, bytes, "-");
        return dst;
    }
    long long s = llround(seconds);
    if (s >= 3600) {
        snprintf(dst, bytes, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(dst, bytes, "%lld:%02lld", s / 60, s % 60);
    }
    return dst;
}

enum { LOSS, ACCURACY, RATE, LEFT, FIELDS, FIELD_BYTES = 48, STATE_BYTES = FIELDS * (FIELD_BYTES + 2) };

// Writes "  loss 0.4213  accuracy 84.92 %  10321 images/s  left 2:31" into dst. Fields that do not fit into `columns`
// are left out, the least important first. An unknown value (before the first record) is "-". Returns the length.
static int state_text(char dst[STATE_BYTES], const ls_train_progress *p, int columns) {
    static const int by_weight[FIELDS] = { LEFT, LOSS, ACCURACY, RATE };
    char field[FIELDS][FIELD_BYTES] = { "loss -", "accuracy -", "- images/s" }, left[32];
    int shown[FIELDS] = { 0 }, used = 0;
    if (isfinite(p->train_loss)) snprintf(field[LOSS], FIELD_BYTES, "loss %.4f", p->train_loss);
    if (isfinite(p->train_accuracy))
        snprintf(field[ACCURACY], FIELD_BYTES, "accuracy %.2f %%", 100 * p->train_accuracy);
    if (isfinite(p->images_per_second) && p->images_per_second > 0)
        snprintf(field[RATE], FIELD_BYTES, "%.0f images/s", p->images_per_second);
    snprintf(field[LEFT], FIELD_BYTES, "left %s", ls_progress_duration(left, sizeof left, p->seconds_left));
    for (int i = 0; i < FIELDS; i++) {
        used += 2 + (int)strlen(field[by_weight[i]]);
        // The speed is left out rather than the bar.
        if (used + (by_weight[i] == RATE ? BAR_COLUMNS_MIN + 1 : 0) > columns) break;
        shown[by_weight[i]] = 1;
    }
    int length = 0;
    for (int i = 0; i < FIELDS; i++)
        if (shown[i]) length += snprintf(dst + length, STATE_BYTES - (size_t)length, "  %s", field[i]);
    dst[length] = '\0';
    return length;
}

static int64_t shown_epoch(const ls_progress *progress, const ls_train_progress *p) {
    return p->epoch + 1 < progress->epochs ? p->epoch + 1 : progress->epochs;
}

char *ls_progress_line(char *dst, const ls_progress *progress, const ls_train_progress *p) {
    char state[STATE_BYTES];
    state_text(state, p, INT_MAX);
    snprintf(dst, LS_PROGRESS_TEXT_BYTES, "epoch %lld/%lld  update %lld/%lld%s", (long long)shown_epoch(progress, p),
        (long long)progress->epochs, (long long)p->update, (long long)progress->updates_planned, state);
    return dst;
}

char *ls_progress_bar(char *dst, const ls_progress *progress, const ls_train_progress *p) {
    char head[64], state[STATE_BYTES], bar[BAR_COLUMNS_MAX * 3 + 32] = "";
    double done = progress->updates_planned > 0 ? (double)p->update / (double)progress->updates_planned : 0;
    done = fmin(fmax(done, 0), 1);
    int head_columns = snprintf(
        head, sizeof head, "epoch %lld/%lld", (long long)shown_epoch(progress, p), (long long)progress->epochs);

    // Subtract two spaces (2), "100 %" (5) and the last column (1), because writing there makes some terminals wrap.
    int columns = progress->style.width - head_columns - 2 - 5 - 1;
    if (columns < 0) head[0] = '\0';              // the epoch is left out rather than the percentage
    columns -= state_text(state, p, columns) + 1; // 1: the space after the bar
    if (columns > BAR_COLUMNS_MAX) columns = BAR_COLUMNS_MAX;
    if (columns >= BAR_COLUMNS_MIN) {
        int full = (int)(done * columns);
        if (progress->style.colour) strcat(bar, "\033[32m");
        for (int i = 0; i < full; i++) strcat(bar, progress->style.unicode ? "\u2501" : "=");
        if (progress->style.colour) strcat(bar, "\033[0m\033[2m");
        for (int i = full; i < columns; i++) strcat(bar, progress->style.unicode ? "\u2500" : "-");
        if (progress->style.colour) strcat(bar, "\033[0m");
    }
    snprintf(dst, LS_PROGRESS_TEXT_BYTES, "%s%s%s%s%3.0f %%%s", head, head[0] ? "  " : "", bar, bar[0] ? " " : "",
        floor(100 * done), state);
    // Without a bar the text is ASCII, so bytes are columns.
    if (!bar[0] && (int)strlen(dst) >= progress->style.width) dst[progress->style.width - 1] = '\0';
    return dst;
}

char *ls_progress_evaluation(char *dst, const ls_progress *progress, const ls_train_evaluation *e) {
    ls_text_room room = { dst, LS_PROGRESS_TEXT_BYTES };
    char took[32];
    dst[0] = '\0';
    ls_text_put(&room, "epoch %lld/%lld  ", (long long)progress->epoch, (long long)progress->epochs);
    if (e->val_samples > 0)
        ls_text_put(&room, "validation accuracy %.2f %%  loss %.4f", 100 * e->val_accuracy, e->val_loss);
    if (e->test_samples > 0)
        ls_text_put(&room, "%stest accuracy %.2f %%  loss %.4f", e->val_samples > 0 ? "; " : "", 100 * e->test_accuracy,
            e->test_loss);
    if (e->tta_samples > 0)
        ls_text_put(&room, "; with test-time augmentation %.2f %%  loss %.4f", 100 * e->tta_accuracy, e->tta_loss);
    ls_text_put(&room, "  (%lld samples in %s)", (long long)(e->val_samples + e->test_samples),
        ls_progress_duration(took, sizeof took, e->seconds));
    return dst;
}

int ls_progress_broken(int columns, int width) {
    return columns > width && width > 0 ? (columns - 1) / width : 0;
}

// ---- display ----

// Reads the terminal's width before a line is written, and tells base/log.h how many additional lines the bar takes up:
// a terminal that has become narrower than the bar breaks it into several lines.
static void look_at_width(ls_progress *progress) {
    if (progress->style.display != LS_DISPLAY_BAR) return;
    progress->style.width = terminal_columns(&progress->style);
    ls_log_bar_broken(ls_progress_broken(progress->columns, progress->style.width));
    progress->columns = 0;
}

static void on_progress(void *context, const ls_train_progress *p) {
    ls_progress *progress = context;
    char text[LS_PROGRESS_TEXT_BYTES];
    if (progress->style.display == LS_DISPLAY_OFF) return;
    progress->loss_known |= p->record;
    progress->epoch = shown_epoch(progress, p);
    ls_train_progress shown_state = *p;
    if (!progress->loss_known) shown_state.train_loss = shown_state.train_accuracy = NAN;
    if (progress->style.display == LS_DISPLAY_BAR) {
        if (in_background(&progress->style)) return;
        look_at_width(progress);
        ls_log_bar(ls_progress_bar(text, progress, &shown_state));
        progress->columns = ls_text_columns(text);
        return;
    }
    double now = ls_clock_seconds();
    if (progress->last_line > 0 && now - progress->last_line < progress->style.every_seconds) return;
    if (!progress->loss_known) return;
    progress->last_line = now;
    ls_info("%s", ls_progress_line(text, progress, &shown_state));
}

static void on_evaluated(void *context, const ls_train_evaluation *e) {
    ls_progress *progress = context;
    char text[LS_PROGRESS_TEXT_BYTES];
    if (progress->style.display == LS_DISPLAY_OFF) return;
    look_at_width(progress);
    ls_info("%s", ls_progress_evaluation(text, progress, e));
}

static void on_warning(void *context, ls_log_level level, const char *text) {
    look_at_width(context);
    ls_log(level, "%s", text);
}

void ls_progress_start(ls_progress *progress, ls_progress_style style, const ls_train_info *info) {
    *progress =
        (ls_progress){ .style = style, .epochs = info->cfg->train_epochs, .updates_planned = info->updates_planned };
}

ls_train_observer ls_progress_observer(ls_progress *progress) {
    return (ls_train_observer){ progress, on_progress, on_evaluated, on_warning, NULL };
}

void ls_progress_end(ls_progress *progress) {
    look_at_width(progress);
    if (progress->style.display == LS_DISPLAY_BAR) ls_log_bar("");
}
