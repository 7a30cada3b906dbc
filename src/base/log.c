#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include "base/scope.h"

static ls_log_scope *self(void) {
    return &ls_scope_now()->log;
}

void ls_log_setup(int rank, int world_size, ls_log_level level) {
    self()->rank = rank;
    self()->world_size = world_size;
    self()->level = (int)level;
}

static void write_line(const char *line, size_t bytes) {
    while (bytes) {
        ssize_t written = write(self()->fd, line, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) { // the log is broken, so the error cannot be printed
            int none = 0;
            atomic_compare_exchange_strong(&self()->lost, &none, errno);
            return;
        }
        line += written;
        bytes -= (size_t)written;
    }
}

enum { TAKE_AWAY_BYTES = 24 };

// Writes to dst the escape sequence that removes the bar, including the lines into which the terminal wrapped it.
// Returns dst.
static char *take_away(char dst[TAKE_AWAY_BYTES]) {
    const int rows = atomic_exchange(&self()->broken, 0);
    if (rows > 0)
        snprintf(dst, TAKE_AWAY_BYTES, "\r\033[%dA\033[J", rows);
    else
        snprintf(dst, TAKE_AWAY_BYTES, "\r\033[K");
    return dst;
}

void ls_log_bar_broken(int rows) {
    atomic_store(&self()->broken, rows);
}

void ls_log_bar(const char *text) {
    char line[1024], before[TAKE_AWAY_BYTES] = "\r";
    if (!text[0] && !atomic_exchange(&self()->bar, 0)) return;
    if (text[0]) atomic_store(&self()->bar, 1);
    if (!text[0] || atomic_load(&self()->broken)) take_away(before);
    int length =
        text[0] ? snprintf(line, sizeof line, "%s%s\033[K", before, text) : snprintf(line, sizeof line, "%s", before);
    write_line(line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

void ls_log_beside_bar(void) {
    self()->beside_bar = 1;
}

void ls_log(ls_log_level level, const char *format, ...) {
    static const char *const prefix[] = { "error: ", "warning: ", "warning: ", "", "" };
    if ((int)level > self()->level || (self()->rank != 0 && level > LS_LOG_WARNING)) return;
    char line[LS_STATUS_TEXT_BYTES + 64]; // has room for the longest text of a status
    const int room = (int)sizeof line - 2;
    char before[TAKE_AWAY_BYTES] = "";
    if (atomic_exchange(&self()->bar, 0) || self()->beside_bar) take_away(before);
    int length = snprintf(line, sizeof line, "%s", before);
    if (self()->rank) length += snprintf(line + length, sizeof line - (size_t)length, "rank %d: ", self()->rank);
    length += snprintf(line + length, sizeof line - (size_t)length, "%s", prefix[level]);
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line + length, (size_t)(room + 1 - length), format, args);
    va_end(args);
    length = wanted < 0 ? length : wanted > room - length ? room : length + wanted;
    line[length++] = '\n';
    write_line(line, (size_t)length);
}

int ls_log_lost(void) {
    return atomic_load(&self()->lost);
}

void ls_log_status(ls_status status) {
    const char *text = status.text ? status.text : ls_code_meaning(status.code);
    if (ls_failed(status)) ls_log(status.code == LS_STOPPED ? LS_LOG_INFO : LS_LOG_ERROR, "%s", text);
}
